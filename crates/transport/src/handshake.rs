//! What an end of a connection learns from the handshake.

use bentpipe_profile::{Bytes, Nanos, Time};

/// Result of the handshake at one end.
#[derive(Clone, Copy, Debug)]
pub struct HandshakeResult {
    /// When its SYN or SYN-ACK was answered.
    pub at: Time,
    /// RTT from the SYN or SYN-ACK to its answer.
    pub rtt: Nanos,
    /// The other end's receive window.
    pub window: Bytes,
    /// The other end's clock in its answer.
    pub tsval: Time,
    /// SYNs or SYN-ACKs that this end sent.
    pub attempts: u32,
}
