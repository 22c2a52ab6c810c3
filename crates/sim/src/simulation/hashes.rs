//! Flow hashes by kind of packet: those of connections are their numbers, from 0 on, and those of pings end at the largest number.

use bentpipe_link::Packet;

/// Datagrams of flow `n` have this hash plus `n`.
pub(super) const DATAGRAMS: u32 = 1 << 31;

/// Packets of QUIC connection `n` have this hash plus `n`.
pub(super) const QUIC: u32 = 1 << 30;

/// Packets of code `n` have this hash plus `n`.
pub(super) const CODES: u32 = 3 << 30;

/// Return the flow of a datagram; `None`: the packet is none. `flows`: how many there are.
pub(super) fn flow_of_datagram(packet: &Packet, flows: usize) -> Option<usize> {
    let flow = packet.flow_hash.checked_sub(DATAGRAMS).map(|flow| flow as usize);
    flow.filter(|&flow| flow < flows)
}

/// Return the number of the connection of a packet of QUIC; `None`: it is none.
pub(super) fn connection_of_quic(packet: &Packet) -> Option<usize> {
    (QUIC..DATAGRAMS).contains(&packet.flow_hash).then(|| (packet.flow_hash - QUIC) as usize)
}
