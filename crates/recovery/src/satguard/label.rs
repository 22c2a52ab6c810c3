//! What the elements of `SatGuard` write into a packet's header: the fields of the wire format ([`crate::wire`]) as they stand in [`Packet::header`].
//!
//! A header without a run acknowledges nothing ([`Run::NONE`]); a packet with a number on this hop has the role `Copy`. Until a packet is sent, the place of its number
//! holds how often it was transmitted: the simulator has no other place for what a node knows about a packet in its queue.

use super::downstream::Run;
use bentpipe_link::Packet;

const HSEQ: usize = 0;
const FIRST: usize = 1;
const LAST: usize = 2;
const FSEQ: usize = 3;

/// Return the number of a packet on this hop.
pub const fn hseq(packet: &Packet) -> u16 {
    packet.header[HSEQ]
}

/// Write the number of a packet on this hop.
pub const fn set_hseq(packet: &mut Packet, hseq: u16) {
    packet.header[HSEQ] = hseq;
}

/// Return how often a packet that waits was transmitted.
pub const fn tries(packet: &Packet) -> u16 {
    packet.header[HSEQ]
}

/// Write how often a packet that waits was transmitted.
pub const fn set_tries(packet: &mut Packet, tries: u16) {
    packet.header[HSEQ] = tries;
}

/// Stands where a waiting packet has its transmissions: its copy has gone to the next node.
const MIGRATED: u16 = u16::MAX;

/// Mark a packet whose copy has gone to the next node.
pub const fn set_migrated(packet: &mut Packet) {
    packet.header[HSEQ] = MIGRATED;
}

/// Return whether the packet's copy has gone to the next node.
#[must_use]
pub const fn is_migrated(packet: &Packet) -> bool {
    packet.header[HSEQ] == MIGRATED
}

/// Return the acknowledgement of a packet.
pub const fn hack(packet: &Packet) -> Run {
    Run { first: packet.header[FIRST], last: packet.header[LAST] }
}

/// Write the acknowledgement of a packet.
pub const fn set_hack(packet: &mut Packet, run: Run) {
    (packet.header[FIRST], packet.header[LAST]) = (run.first, run.last);
}

/// Return the number of a packet in its flow.
pub const fn fseq(packet: &Packet) -> u16 {
    packet.header[FSEQ]
}

/// Write the number of a packet in its flow.
pub const fn set_fseq(packet: &mut Packet, fseq: u16) {
    packet.header[FSEQ] = fseq;
}
