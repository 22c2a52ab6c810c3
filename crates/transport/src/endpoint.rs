//! The interface between a host and its transports.
//!
//! ```text
//!            on_packets(batch) ┌──────────┐ poll_transmit
//!   network ──────────────────▶│ Endpoint │──────────────▶ network
//!            on_wake at wake_at└──────────┘
//! ```
//! A transport reads no clock and has no socket. The driver is the simulator's event loop, or a loop over a real clock.

use bentpipe_profile::Time;

/// A packet that arrives at a host.
#[derive(Clone, Copy, Debug)]
pub struct Arrival<P> {
    /// Its content.
    pub packet: P,
    /// Whether the network marked it (CE).
    pub ce: bool,
}

/// One end of a connection.
///
/// After every call the driver sends what [`Self::poll_transmit`] returns until that is `None`. It calls [`Self::on_wake`] at [`Self::wake_at`].
pub trait Endpoint {
    /// Content of a packet.
    type Packet;

    /// Process packets that arrive at one instant, in order.
    ///
    /// `batch`: packets that arrive directly after each other, which the host may merge (GRO). `later`: packets for this endpoint at the same
    /// instant that follow after packets for others; the driver passes them in later calls.
    fn on_packets(&mut self, now: Time, batch: &[Arrival<Self::Packet>], later: &[Arrival<Self::Packet>]);

    /// Run the timers that are due.
    fn on_wake(&mut self, now: Time);

    /// Return the next packet to send now; `None`: no more.
    fn poll_transmit(&mut self, now: Time) -> Option<Self::Packet>;

    /// Time at which [`Self::on_wake`] has work if nothing arrives before; `None`: never.
    fn wake_at(&self) -> Option<Time>;
}
