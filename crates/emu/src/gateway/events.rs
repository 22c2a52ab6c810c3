//! The relay's requests to the gateway's thread, and its events for the relay: packets for the client, and connections' progress. An eventfd wakes the relay.

use super::counters::Counters;
use crate::error::{EmuError, system};
use crate::packets::Unreachable;
use nix::sys::eventfd::{EfdFlags, EventFd};
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

/// Most queued events, as many as packets in a device's queue.
const MAX_QUEUED: usize = 20_000;

/// Request from the relay to the thread.
#[derive(Debug)]
pub enum Request {
    /// Connect to `destination` for the client known as `alias`.
    Connect {
        /// The client's end at the server's kernel.
        alias: SocketAddr,
        /// The client's destination.
        destination: SocketAddr,
    },
    /// Forward a packet other than TCP.
    Packet(Vec<u8>),
}

/// Why a connection failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The destination refused it.
    Refused,
    /// See [`Unreachable`].
    Unreachable(Unreachable),
    /// No reply, or no reason given.
    NoReply,
}

/// Event for the relay.
#[derive(Debug)]
pub enum GatewayEvent {
    /// A packet for the client.
    Packet(Vec<u8>),
    /// The destination accepted the connection of this alias.
    Opened(SocketAddr),
    /// The connection of this alias failed.
    Failed(SocketAddr, Failure),
    /// The connection of this alias is over.
    Ended(SocketAddr),
}

/// Wakes the relay.
struct Notifier {
    fd: EventFd,
    /// Notified, and not yet acknowledged: one write serves many events.
    is_pending: AtomicBool,
}

/// The sender half, for the gateway's thread.
#[derive(Clone)]
pub struct EventSender {
    notifier: Arc<Notifier>,
    events: SyncSender<GatewayEvent>,
    counters: Arc<Counters>,
}

/// The receiver half, for the relay.
pub struct EventReceiver {
    notifier: Arc<Notifier>,
    events: Receiver<GatewayEvent>,
}

/// Creates both halves.
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
    /// Sends a packet for the client; drops it, as a router does, if the queue is full.
    pub fn send_packet(&self, packet: Vec<u8>) {
        if self.events.try_send(GatewayEvent::Packet(packet)).is_err() {
            self.counters.dropped_busy.increment();
        }
        self.notify();
    }

    /// Sends another event; blocks while the queue is full.
    pub fn send(&self, event: GatewayEvent) {
        let _ = self.events.send(event); // an error: the relay has ended, and the emulation with it
        self.notify();
    }

    fn notify(&self) {
        if !self.notifier.is_pending.swap(true, Ordering::AcqRel) {
            let _ = self.notifier.fd.write(1);
        }
    }
}

impl EventReceiver {
    /// Acknowledges a notification, before the events are read. In this order an event is either read now or notified again.
    pub fn acknowledge(&self) {
        let _ = self.notifier.fd.read();
        self.notifier.is_pending.store(false, Ordering::Release);
    }

    /// The next event; `None`: none is waiting.
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
    fn a_notification_stays_until_it_is_acknowledged() {
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
