//! Ports of later fragments: only a packet's first fragment has them.

use bentpipe_profile::Direction;
use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;

/// Most fragmented packets tracked. A kernel sends a packet's fragments in a row, and a path of several hops interleaves those of a few. Chosen here.
const MAX_PACKETS: usize = 1024;

/// Fields common to the fragments of one packet (RFC 791 §3.2, RFC 8200 §4.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PacketId {
    /// Sender.
    pub source: IpAddr,
    /// Receiver.
    pub destination: IpAddr,
    /// IP protocol number of the whole packet.
    pub protocol: u8,
    /// The packet's identification field.
    pub identification: u32,
}

/// See the module. Its memory is bounded.
#[derive(Debug, Default)]
pub struct Fragments {
    ports: BTreeMap<(usize, PacketId), [u16; 2]>,
    oldest: VecDeque<(usize, PacketId)>,
}

impl Fragments {
    /// Returns the ports of a fragment in `direction`: `own` in the first fragment, the first's in a later one; 0 if the first was not seen.
    pub fn ports(&mut self, direction: Direction, id: PacketId, own: Option<[u16; 2]>) -> [u16; 2] {
        let key = (direction as usize, id);
        let Some(own) = own else { return self.ports.get(&key).copied().unwrap_or_default() };
        if self.ports.insert(key, own).is_none() {
            self.oldest.push_back(key);
            if self.oldest.len() > MAX_PACKETS
                && let Some(gone) = self.oldest.pop_front()
            {
                self.ports.remove(&gone);
            }
        }
        own
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(identification: u32) -> PacketId {
        PacketId { source: [10, 0, 0, 1].into(), destination: [10, 0, 0, 2].into(), protocol: 17, identification }
    }

    #[test]
    fn later_fragments_have_the_ports_of_their_first() {
        let mut fragments = Fragments::default();
        assert_eq!(fragments.ports(Direction::Up, id(1), None), [0, 0], "its first was not seen");
        fragments.ports(Direction::Up, id(1), Some([1000, 53]));
        fragments.ports(Direction::Up, id(2), Some([2000, 53]));
        assert_eq!(fragments.ports(Direction::Up, id(1), None), [1000, 53]);
        assert_eq!(fragments.ports(Direction::Up, id(2), None), [2000, 53]);
        assert_eq!(fragments.ports(Direction::Down, id(1), None), [0, 0], "another packet");
        fragments.ports(Direction::Up, id(1), Some([1001, 53]));
        assert_eq!(fragments.ports(Direction::Up, id(1), None), [1001, 53], "a reused identification");
    }

    #[test]
    fn the_tracked_packets_are_bounded() {
        let mut fragments = Fragments::default();
        for n in 0..3 * u32::try_from(MAX_PACKETS).unwrap() {
            fragments.ports(Direction::Up, id(n), Some([1, 2]));
        }
        assert_eq!((fragments.ports.len(), fragments.oldest.len()), (MAX_PACKETS, MAX_PACKETS));
        assert_eq!(fragments.ports(Direction::Up, id(3 * u32::try_from(MAX_PACKETS).unwrap() - 1), None), [1, 2]);
        assert_eq!(fragments.ports(Direction::Up, id(0), None), [0, 0]);
    }
}
