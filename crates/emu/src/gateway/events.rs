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
const MAX_QUEUED: usize = 20_000;

/// Why a connection came to nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// Nobody listens.
    Refused,
    /// See [`Unreachable`].
    Unreachable(Unreachable),
    /// Nobody says why.
    NoReply,
}

/// What the relay hears.
#[derive(Debug)]
pub enum GatewayEvent {
    /// A packet for the client.
    Packet(Vec<u8>),
    /// The outside took the connection of this alias.
    Opened(SocketAddr),
    /// It did not.
    Failed(SocketAddr, Failure),
    /// The connection of this alias is over.
    Ended(SocketAddr),
}

struct Notifier {
    fd: EventFd,
    /// Rung, and not yet heard: one write for many answers.
    is_pending: AtomicBool,
}

/// The thread's end.
#[derive(Clone)]
pub struct EventSender {
    notifier: Arc<Notifier>,
    events: SyncSender<GatewayEvent>,
    counters: Arc<Counters>,
}

/// The relay's end.
pub struct EventReceiver {
    notifier: Arc<Notifier>,
    events: Receiver<GatewayEvent>,
}

/// Both ends.
///
/// # Errors
/// No descriptor left.
pub fn channel(counters: Arc<Counters>) -> Result<(EventSender, EventReceiver), EmuError> {
    let fd = EventFd::from_flags(EfdFlags::EFD_NONBLOCK | EfdFlags::EFD_CLOEXEC).map_err(system("eventfd"))?;
    let notifier = Arc::new(Notifier { fd, is_pending: AtomicBool::new(false) });
    let (sender, receiver) = sync_channel(MAX_QUEUED);
    Ok((EventSender { notifier: Arc::clone(&notifier), events: sender, counters }, EventReceiver { notifier, events: receiver }))
}

impl EventSender {
    /// A packet for the client; dropped, as by any router, if too many wait.
    pub fn send_packet(&self, packet: Vec<u8>) {
        if self.events.try_send(GatewayEvent::Packet(packet)).is_err() {
            self.counters.dropped_busy.increment();
        }
        self.notify();
    }

    /// Anything else: waits for room.
    pub fn send(&self, event: GatewayEvent) {
        let _ = self.events.send(event); // the relay is gone: so is the emulation
        self.notify();
    }

    fn notify(&self) {
        if !self.notifier.is_pending.swap(true, Ordering::AcqRel) {
            let _ = self.notifier.fd.write(1);
        }
    }
}

impl EventReceiver {
    /// The bell was seen to ring; answers are looked at next. In this order: what is said in between is found then, what is said later rings.
    pub fn acknowledge(&self) {
        let _ = self.notifier.fd.read();
        self.notifier.is_pending.store(false, Ordering::Release);
    }

    /// The next one.
    #[must_use]
    pub fn next(&self) -> Option<GatewayEvent> {
        self.events.try_recv().ok()
    }
}

impl AsFd for EventReceiver {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.notifier.fd.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

    #[test]
    fn the_bell_rings_until_it_is_heard_and_again_afterwards() {
        let (sender, receiver) = channel(Arc::default()).unwrap();
        let is_readable = || poll(&mut [PollFd::new(receiver.as_fd(), PollFlags::POLLIN)], PollTimeout::ZERO).unwrap() == 1;
        assert!(!is_readable());
        for _ in 0..2 {
            sender.send_packet(vec![1]);
            sender.send_packet(vec![2]);
            assert!(is_readable());
            receiver.acknowledge();
            assert!(!is_readable());
            assert!(matches!(receiver.next(), Some(GatewayEvent::Packet(p)) if p == [1]));
            assert!(matches!(receiver.next(), Some(GatewayEvent::Packet(p)) if p == [2]));
            assert!(receiver.next().is_none());
        }
    }

    #[test]
    fn a_full_channel_drops_packets_and_counts_them() {
        let counters = Arc::<Counters>::default();
        let (sender, _receiver) = channel(Arc::clone(&counters)).unwrap();
        (0..MAX_QUEUED + 3).for_each(|_| sender.send_packet(Vec::new()));
        assert_eq!(serde_json::to_value(&*counters).unwrap()["dropped_busy"], 3);
    }
}
