//! Fields of `LinkGuardian` in [`Packet::header`]: number and leading acknowledgement with 16 bits and an era bit each, and the holes that a notification names.

use bentpipe_link::Packet;

const NUMBER: usize = 0;
const ACK: usize = 1;
const FLAGS: usize = 2;
const FIRST_LOST: usize = 3;

const NUMBER_ERA: u16 = 1 << 15;
const ACK_ERA: u16 = 1 << 14;
/// A dummy packet: its number is the next one, which it does not use.
const DUMMY: u16 = 1 << 13;
/// The packet has a leading acknowledgement.
const HAS_ACK: u16 = 1 << 11;
/// A waiting packet has no number yet.
const FRESH: u16 = 1 << 10;
/// Number of holes.
const COUNT: u16 = 0xff;

/// Bits of a number on the wire: sixteen and the era.
pub const BITS: u32 = 17;

/// First number of a sequence. Its low bits are zero, and numbers just before it exist.
pub const FIRST: u64 = 1 << BITS;

/// Most holes of a notification.
pub const MOST_HOLES: u64 = COUNT as u64;

const fn set_flag(packet: &mut Packet, flag: u16, on: bool) {
    packet.header[FLAGS] = if on { packet.header[FLAGS] | flag } else { packet.header[FLAGS] & !flag };
}

const fn get(packet: &Packet, field: usize, era: u16) -> u32 {
    packet.header[field] as u32 | if packet.header[FLAGS] & era == 0 { 0 } else { 1 << 16 }
}

#[allow(clippy::cast_possible_truncation)] // the field holds the low 16 bits
const fn set(packet: &mut Packet, field: usize, era: u16, number: u64) {
    packet.header[field] = number as u16;
    set_flag(packet, era, number & (1 << 16) != 0);
}

/// Prepare a packet of a host that waits for its number.
pub const fn set_fresh(packet: &mut Packet) {
    packet.header = [0, 0, FRESH, 0];
}

/// Whether a packet waits for its number.
pub const fn is_fresh(packet: &Packet) -> bool {
    packet.header[FLAGS] & FRESH != 0
}

/// Return the number, of [`BITS`] bits.
pub const fn number(packet: &Packet) -> u32 {
    get(packet, NUMBER, NUMBER_ERA)
}

/// Write the number.
pub const fn set_number(packet: &mut Packet, number: u64) {
    set(packet, NUMBER, NUMBER_ERA, number);
    set_flag(packet, FRESH, false);
}

/// Return the leading acknowledgement; `None`: there is none.
pub const fn ack(packet: &Packet) -> Option<u32> {
    if packet.header[FLAGS] & HAS_ACK == 0 { None } else { Some(get(packet, ACK, ACK_ERA)) }
}

/// Write the leading acknowledgement.
pub const fn set_ack(packet: &mut Packet, ack: Option<u64>) {
    set_flag(packet, HAS_ACK, ack.is_some());
    if let Some(ack) = ack {
        set(packet, ACK, ACK_ERA, ack);
    }
}

/// Return whether it is a dummy packet.
pub const fn is_dummy(packet: &Packet) -> bool {
    packet.header[FLAGS] & DUMMY != 0
}

/// Make it a dummy packet.
pub const fn set_dummy(packet: &mut Packet) {
    set_flag(packet, DUMMY, true);
}

/// Return the low 16 bits of the first lost number, and the number of holes; zero: no notification.
pub const fn holes(packet: &Packet) -> (u16, u64) {
    (packet.header[FIRST_LOST], (packet.header[FLAGS] & COUNT) as u64)
}

/// Write a notification.
#[allow(clippy::cast_possible_truncation)] // at most MOST_HOLES; the field holds the low 16 bits
pub const fn set_holes(packet: &mut Packet, first: u64, count: u64) {
    packet.header[FIRST_LOST] = first as u16;
    packet.header[FLAGS] = packet.header[FLAGS] & !COUNT | (count as u16 & COUNT);
}
