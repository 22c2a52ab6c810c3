//! From the gateway's thread to the relay: packets for the client, and what became of connections. An eventfd wakes the relay.

use super::counters::Counters;
use super::replies::Unreachable;
use crate::error::{EmuError, system};
use nix::sys::eventfd::{EfdFlags, EventFd};
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

/// Answers that may wait for the relay, as long as a device's queue.
const ROOM: usize = 20_000;

/// Why a connection came to nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// Nobody listens.
    Refused,
    /// See [`Unreachable`].
    Unreachable(Unreachable),
    /// Nobody says why.
    Silence,
}

/// What the relay hears.
#[derive(Debug)]
pub enum Answer {
    /// A packet for the client.
    Packet(Vec<u8>),
    /// The outside took the connection of this alias.
    Opened(SocketAddr),
    /// It did not.
    Failed(SocketAddr, Failure),
    /// The connection of this alias is over.
    Ended(SocketAddr),
}

struct Bell {
    fd: EventFd,
    /// Rung, and not yet heard: one write for many answers.
    rung: AtomicBool,
}

/// The thread's end.
#[derive(Clone)]
pub struct Speaker {
    bell: Arc<Bell>,
    answers: SyncSender<Answer>,
    counters: Arc<Counters>,
}

/// The relay's end.
pub struct Listener {
    bell: Arc<Bell>,
    answers: Receiver<Answer>,
}

/// Both ends.
///
/// # Errors
/// No descriptor left.
pub fn channel(counters: Arc<Counters>) -> Result<(Speaker, Listener), EmuError> {
    let fd = EventFd::from_flags(EfdFlags::EFD_NONBLOCK | EfdFlags::EFD_CLOEXEC).map_err(system("eventfd"))?;
    let bell = Arc::new(Bell { fd, rung: AtomicBool::new(false) });
    let (sender, receiver) = sync_channel(ROOM);
    Ok((Speaker { bell: Arc::clone(&bell), answers: sender, counters }, Listener { bell, answers: receiver }))
}

impl Speaker {
    /// A packet for the client; dropped, as by any router, if too many wait.
    pub fn packet(&self, packet: Vec<u8>) {
        if self.answers.try_send(Answer::Packet(packet)).is_err() {
            self.counters.dropped_busy.add();
        }
        self.ring();
    }

    /// Anything else: waits for room.
    pub fn say(&self, answer: Answer) {
        let _ = self.answers.send(answer); // the relay is gone: so is the emulation
        self.ring();
    }

    fn ring(&self) {
        if !self.bell.rung.swap(true, Ordering::AcqRel) {
            let _ = self.bell.fd.write(1);
        }
    }
}

impl Listener {
    /// The bell was seen to ring; answers are looked at next. In this order: what is said in between is found then, what is said later rings.
    pub fn heard(&self) {
        let _ = self.bell.fd.read();
        self.bell.rung.store(false, Ordering::Release);
    }

    /// The next one.
    #[must_use]
    pub fn next(&self) -> Option<Answer> {
        self.answers.try_recv().ok()
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.bell.fd.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

    #[test]
    fn the_bell_rings_until_it_is_heard_and_again_afterwards() {
        let (speaker, listener) = channel(Arc::default()).unwrap();
        let rings = || poll(&mut [PollFd::new(listener.as_fd(), PollFlags::POLLIN)], PollTimeout::ZERO).unwrap() == 1;
        assert!(!rings());
        for _ in 0..2 {
            speaker.packet(vec![1]);
            speaker.packet(vec![2]);
            assert!(rings());
            listener.heard();
            assert!(!rings());
            assert!(matches!(listener.next(), Some(Answer::Packet(p)) if p == [1]));
            assert!(matches!(listener.next(), Some(Answer::Packet(p)) if p == [2]));
            assert!(listener.next().is_none());
        }
    }

    #[test]
    fn a_full_channel_drops_packets_and_counts_them() {
        let counters = Arc::<Counters>::default();
        let (speaker, _listener) = channel(Arc::clone(&counters)).unwrap();
        (0..ROOM + 3).for_each(|_| speaker.packet(Vec::new()));
        assert_eq!(serde_json::to_value(&*counters).unwrap()["dropped_busy"], 3);
    }
}
