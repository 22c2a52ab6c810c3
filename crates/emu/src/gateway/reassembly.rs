//! Reassembly of IP fragments.

use etherparse::defrag::IpDefragPool;
use etherparse::{IpNumber, Ipv6ExtensionSlice, NetSlice, SlicedPacket};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::{Duration, Instant};

/// Timeout of incomplete packets (RFC 8200 §4.5; RFC 791 requires at least 15 s for IPv4).
const TIMEOUT: Duration = Duration::from_secs(60);

/// Most stored fragments, about 6 MB. Beyond it all are discarded. Chosen here: the pool itself is unbounded.
const MAX_FRAGMENTS: u32 = 4096;

/// The payload of an IP packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IpPayload {
    /// Sender.
    pub source: IpAddr,
    /// Receiver.
    pub destination: IpAddr,
    /// The protocol of `payload`.
    pub protocol: IpNumber,
    /// Transport header and data.
    pub payload: Vec<u8>,
    /// Whether it was fragmented.
    pub fragmented: bool,
}

/// Why a packet has no payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReassemblyError {
    /// A malformed packet, or contradictory fragments.
    Malformed,
    /// This many fragments were stored, and all were discarded.
    TooMany(u32),
}

use ReassemblyError::Malformed;

/// Identity of a fragmented packet: source, destination, protocol, identification.
type Packet = (IpAddr, IpAddr, u8, u32);

/// See the module.
#[derive(Debug, Default)]
pub struct Reassembly {
    pool: IpDefragPool<Option<Instant>, ()>,
    /// By packet: number of stored fragments, and when the newest arrived.
    waiting: BTreeMap<Packet, (u32, Option<Instant>)>,
    fragments: u32,
    swept: Option<Instant>,
}

impl Reassembly {
    /// Returns the payload of `packet`; `None`: a fragment, and others are missing.
    ///
    /// # Errors
    /// [`ReassemblyError`].
    pub fn take(&mut self, packet: &[u8]) -> Result<Option<IpPayload>, ReassemblyError> {
        // Only IP is parsed here: a later fragment has no transport header.
        let sliced = SlicedPacket::from_ip(packet).or(Err(Malformed))?;
        let (source, destination, part): (IpAddr, IpAddr, _) = match sliced.net.as_ref().ok_or(Malformed)? {
            NetSlice::Ipv4(ip) => (ip.header().source_addr().into(), ip.header().destination_addr().into(), ip.payload()),
            NetSlice::Ipv6(ip) => (ip.header().source_addr().into(), ip.header().destination_addr().into(), ip.payload()),
            NetSlice::Arp(_) => return Err(Malformed),
        };
        if !part.fragmented {
            let payload = part.payload.to_vec();
            return Ok(Some(IpPayload { source, destination, protocol: part.ip_number, payload, fragmented: false }));
        }
        let now = Instant::now();
        self.sweep(now);
        if self.fragments == MAX_FRAGMENTS {
            let discarded = std::mem::take(self).fragments;
            return Err(ReassemblyError::TooMany(discarded + 1));
        }
        let packet = (source, destination, part.ip_number.0, identification(sliced.net.as_ref()));
        let Some(whole) = self.pool.process_sliced_packet(&sliced, Some(now), ()).or(Err(Malformed))? else {
            let waiting = self.waiting.entry(packet).or_default();
            *waiting = (waiting.0 + 1, Some(now));
            self.fragments += 1;
            return Ok(None);
        };
        self.fragments -= self.waiting.remove(&packet).map_or(0, |(count, _)| count);
        Ok(Some(IpPayload { source, destination, protocol: whole.ip_number, payload: whole.payload, fragmented: true }))
    }

    fn sweep(&mut self, now: Instant) {
        if self.swept.is_none_or(|at| now.duration_since(at) > TIMEOUT) {
            let is_fresh = |at: Option<Instant>| at.is_some_and(|at| now.duration_since(at) < TIMEOUT);
            self.pool.retain(|at| is_fresh(*at));
            self.waiting.retain(|_, (_, at)| is_fresh(*at));
            self.fragments = self.waiting.values().map(|(count, _)| count).sum();
            self.swept = Some(now);
        }
    }
}

/// Identification field of a fragment.
fn identification(ip: Option<&NetSlice>) -> u32 {
    match ip {
        Some(NetSlice::Ipv4(ip)) => ip.header().identification().into(),
        Some(NetSlice::Ipv6(ip)) => ip
            .extensions()
            .clone()
            .into_iter()
            .find_map(|extension| if let Ipv6ExtensionSlice::Fragment(header) = extension { Some(header.identification()) } else { None })
            .unwrap_or(0),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packets::{datagram, fragments};
    use proptest::prelude::*;
    use std::net::SocketAddr;

    #[test]
    fn too_many_fragments_are_discarded() {
        let mut reassembly = Reassembly::default();
        let ends = ["192.0.2.1:53".parse().unwrap(), "100.64.0.2:4000".parse().unwrap()];
        let refused = (0..=u16::try_from(MAX_FRAGMENTS).unwrap()).filter_map(|id| {
            let whole = datagram(ends[0], ends[1], id, &[0; 2000]).unwrap();
            reassembly.take(&fragments(whole, 1500, 0)[0]).err()
        });
        assert_eq!(refused.collect::<Vec<_>>(), [ReassemblyError::TooMany(MAX_FRAGMENTS + 1)]);
    }

    #[test]
    fn stored_fragments_are_counted_by_packet() {
        let mut reassembly = Reassembly::default();
        for (ends, room) in [(["192.0.2.1:53", "100.64.0.2:4000"], 1500), (["[2001:db8::1]:53", "[2001:db8::2]:4000"], 1500)] {
            let ends = ends.map(|end| end.parse().unwrap());
            for id in 0..20 {
                let mut parts = fragments(datagram(ends[0], ends[1], id, &[0; 3008]).unwrap(), room, id.into());
                let last = parts.pop().unwrap();
                assert!(last.len() < 200, "the last fragment may be short");
                for part in &parts {
                    assert_eq!(reassembly.take(part), Ok(None));
                }
                assert_eq!(usize::try_from(reassembly.fragments).unwrap(), parts.len());
                assert!(reassembly.take(&last).unwrap().is_some());
                assert_eq!((reassembly.fragments, reassembly.waiting.len()), (0, 0));
            }
        }
    }

    proptest! {
        #[test]
        fn fragments_fit_the_mtu_and_reassemble(
            v6 in any::<bool>(), payload in prop::collection::vec(any::<u8>(), 0..20_000), mtu in 1280..1501_usize, reversed in any::<bool>(),
        ) {
            let ends = if v6 { ["[2001:db8::1]:53", "[fd00::2]:4000"] } else { ["192.0.2.1:53", "100.64.0.2:4000"] };
            let [from, to] = ends.map(|end| end.parse::<SocketAddr>().unwrap());
            let whole = datagram(from, to, 77, &payload).unwrap();
            let mut parts = fragments(whole.clone(), mtu, 77);
            prop_assert!(parts.iter().all(|p| p.len() <= mtu));
            if reversed {
                parts.reverse();
            }
            let mut reassembly = Reassembly::default();
            let mut datagrams: Vec<_> = parts.iter().filter_map(|part| reassembly.take(part).ok().flatten()).collect();
            prop_assert_eq!(datagrams.len(), 1);
            let datagram = datagrams.remove(0);
            let udp = etherparse::UdpSlice::from_slice(&datagram.payload).unwrap();
            prop_assert_eq!(udp.payload(), &payload[..]);
            prop_assert_eq!((datagram.source, datagram.destination), (from.ip(), to.ip()));
        }

        #[test]
        fn arbitrary_packets_do_not_panic(version in prop::sample::select(vec![0x45_u8, 0x60, 0]), rest in prop::collection::vec(any::<u8>(), 0..120)) {
            let mut packet = vec![version];
            packet.extend(rest);
            let _ = Reassembly::default().take(&packet);
        }

        #[test]
        fn arbitrary_fragments_do_not_panic(parts in prop::collection::vec((0..64_u16, any::<bool>(), prop::collection::vec(any::<u8>(), 0..64)), 0..40)) {
            let ends = ["192.0.2.1:53".parse().unwrap(), "100.64.0.2:4000".parse().unwrap()];
            let mut reassembly = Reassembly::default();
            for (offset, more, payload) in parts {
                let mut packet = datagram(ends[0], ends[1], 1, &payload).unwrap();
                let field = offset | if more { 0x2000 } else { 0 };
                packet[6..8].copy_from_slice(&field.to_be_bytes());
                let _ = reassembly.take(&packet);
            }
        }
    }
}
