//! Which flow the later fragments of a packet belong to: only the first has ports.

use bentpipe_profile::Direction;
use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;

/// Fragmented packets that are remembered. A kernel sends the fragments of one in a row, and a path with several hops mixes those of a few. Chosen here.
const MAX_PACKETS: usize = 1024;

/// What the fragments of one packet have in common (RFC 791 §3.2, RFC 8200 §4.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PacketId {
    /// Sender.
    pub source: IpAddr,
    /// Receiver.
    pub destination: IpAddr,
    /// IP protocol number of the whole packet.
    pub protocol: u8,
    /// What the sender called it.
    pub identification: u32,
}

/// See the module. What it keeps is bounded.
#[derive(Debug, Default)]
pub struct Fragments {
    ports: BTreeMap<(usize, PacketId), [u16; 2]>,
    oldest: VecDeque<(usize, PacketId)>,
}

impl Fragments {
    /// The ports of a fragment that goes `direction`: its own, which are the packet's, if it is the first, else those that the first had; 0 if that
    /// was not seen.
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
        assert_eq!(fragments.ports(Direction::Up, id(1), None), [1001, 53], "numbers are used again");
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let mut fragments = Fragments::default();
        for n in 0..3 * u32::try_from(MAX_PACKETS).unwrap() {
            fragments.ports(Direction::Up, id(n), Some([1, 2]));
        }
        assert_eq!((fragments.ports.len(), fragments.oldest.len()), (MAX_PACKETS, MAX_PACKETS));
        assert_eq!(fragments.ports(Direction::Up, id(3 * u32::try_from(MAX_PACKETS).unwrap() - 1), None), [1, 2]);
        assert_eq!(fragments.ports(Direction::Up, id(0), None), [0, 0]);
    }
}
