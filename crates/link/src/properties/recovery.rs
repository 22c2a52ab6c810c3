//! Elements at the ends of a link: an end may answer over the other direction, and no copy or control packet reaches a host.

use super::{MS, any_fate, drive, hop, network_of, profile, queues, side, tail, two_hop_handover};
use crate::*;
use bentpipe_profile::*;
use proptest::prelude::*;
use std::collections::{BTreeMap, VecDeque};

/// Transmissions of one packet, the first included.
const TRIES: u32 = 4;
/// Size of an acknowledgement [bytes].
const CONTROL_BYTES: u32 = 64;
const ACK: u32 = 0;
const NACK: u32 = 1;

/// A link end that keeps each packet until the other end has acknowledged it, and retransmits it when that reports a hole or a timer expires.
pub struct Retransmitting {
    direction: Direction,
    timeout: Nanos,
    /// Packets that this end has sent: the packet, its tries, and when the last of them began.
    kept: BTreeMap<u32, (Packet, u32, Time)>,
    /// The number after the largest received one.
    next: u32,
    out: VecDeque<(Port, Packet)>,
}

impl Retransmitting {
    pub fn boxed(direction: Direction, timeout: Nanos) -> Box<dyn Element> {
        Box::new(Self { direction, timeout, kept: BTreeMap::new(), next: 0, out: VecDeque::new() })
    }

    fn answer(&mut self, at: Time, kind: u32, number: u32) {
        let packet = Packet::new(at, u32::MAX, self.direction, kind, CONTROL_BYTES, number);
        self.out.push_back((Port::Far, Packet { role: Role::Control, ..packet }));
    }

    /// Retransmit a packet, or give it up.
    fn retry(&mut self, number: u32, at: Time) {
        let Some((packet, tries, sent)) = self.kept.get_mut(&number) else { return };
        let copy = Packet { at, ..*packet };
        if *tries == TRIES {
            self.kept.remove(&number);
            self.out.push_back((Port::Drop(DropCause::Loss), copy));
        } else {
            (*tries, *sent) = (*tries + 1, at);
            self.out.push_back((Port::Far, copy));
        }
    }

    fn timer(&self) -> Option<(Time, u32)> {
        self.kept.iter().map(|(&number, (_, _, sent))| (*sent + self.timeout, number)).min()
    }
}

impl Element for Retransmitting {
    fn push(&mut self, port: Port, packet: Packet) {
        match (port, packet.role, packet.flow) {
            (Port::Near, ..) => {
                let copy = Packet { role: Role::Copy, ..packet };
                self.kept.insert(copy.sequence, (copy, 1, copy.at));
                self.out.push_back((Port::Far, copy));
            }
            (_, Role::Control, NACK) => self.retry(packet.body, packet.at),
            (_, Role::Control, _) => drop(self.kept.remove(&packet.body)),
            _ => {
                (self.next..packet.sequence).for_each(|missing| self.answer(packet.at, NACK, missing));
                self.next = self.next.max(packet.sequence + 1);
                self.answer(packet.at, ACK, packet.sequence);
                self.out.push_back((Port::Near, packet)); // the link ignores a second copy
            }
        }
    }

    fn pop(&mut self, now: Time) -> Option<(Port, Packet)> {
        while let Some((at, number)) = self.timer().filter(|(at, _)| *at <= now) {
            self.retry(number, at);
        }
        self.out.pop_front()
    }

    fn wake_at(&self) -> Option<Time> {
        self.out.front().map(|(_, packet)| packet.at).or_else(|| self.timer().map(|(at, _)| at))
    }

    fn packets(&self) -> usize {
        self.kept.len()
    }
}

/// A link of 10 Mbit/s and 5 ms, between two wires.
fn lossy_link(loss: u64) -> Network {
    let (air, wire) =
        (side(&[5], &[10], loss, false, tail(QueueLimit::Packets(10_000))), side(&[1], &[], 0, false, tail(QueueLimit::Packets(9))));
    let routes = vec![RouteEntry { at_ns: Time(0), hops: vec![0, 1, 2] }];
    network_of(&[&profile(vec![hop("near", &wire), hop("air", &air), hop("far", &wire)], routes, vec![])])
}

fn add_ends(network: &mut Network) {
    // An acknowledgement waits behind at most one packet here.
    network.set_ends(1, Direction::BOTH.map(|direction| Retransmitting::boxed(direction, Nanos::from_millis(15)))).unwrap();
}

/// Send a packet every 2 ms, alternately up and down, and run the network until the last one is out.
fn outcomes(network: &mut Network, packets: u32, late: u64) -> Vec<(Outcome, Packet)> {
    let mut out = Vec::new();
    for body in 0..packets {
        let at = Time(u64::from(body) * 2 * MS);
        network.run_until(at, &mut out);
        network.send(Packet::new(at, 0, Direction::BOTH[(body % 2) as usize], 0, 1000, body)).unwrap();
    }
    while let Some(at) = network.wake_at() {
        network.run_until(Time(at.0 + late), &mut out);
    }
    out
}

#[test]
fn an_end_recovers_lost_packets_over_the_other_direction() {
    let count = |out: &[(Outcome, Packet)]| out.iter().filter(|(outcome, _)| *outcome == Outcome::Delivered).count();
    let mut plain = lossy_link(LOSS_ONE / 10);
    let without = count(&outcomes(&mut plain, 2000, 0));
    assert!((1700..1900).contains(&without), "{without}");
    let mut network = lossy_link(LOSS_ONE / 10);
    add_ends(&mut network);
    let out = outcomes(&mut network, 2000, 0);
    assert!(count(&out) >= 1998, "{}", count(&out));
    // The link counts the losses of copies and acknowledgements itself; the hosts' counters know only packets that were given up.
    assert!([0, 1].into_iter().all(|direction| network.link(1).own_drops(direction).of(DropCause::Loss) > 150));
    let stats = network.stats_mut(0, 1, Direction::Up);
    assert_eq!(stats.delivered_packets + stats.drops.total(), 1000);
    // A recovered packet took longer: its time in the link includes the recovery.
    assert!(stats.flows().next().unwrap().1.delays.max_ms() > 15.0);
}

#[test]
fn acknowledgements_use_the_capacity_of_the_other_direction() {
    let busy = |ends: bool| {
        let mut network = lossy_link(0);
        if ends {
            add_ends(&mut network);
        }
        let mut out = Vec::new();
        // The acknowledgement of the packet up enters the link between the two packets down.
        for (at, direction, body) in [(0, Direction::Up, 0), (5_790_000, Direction::Down, 1), (5_810_000, Direction::Down, 2)] {
            network.run_until(Time(at), &mut out);
            network.send(Packet::new(Time(at), 0, direction, 0, 1000, body)).unwrap();
        }
        while let Some(at) = network.wake_at() {
            network.run_until(at, &mut out);
        }
        out.iter().find(|(_, packet)| packet.body == 2).unwrap().1.at
    };
    // 64 bytes take 51.2 µs at 10 Mbit/s.
    assert_eq!(busy(true).since(busy(false)), Nanos(51_200));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    /// Each packet of a host is delivered once or dropped with a cause, whatever is lost of it and of its acknowledgements. Lateness changes nothing.
    #[test]
    fn every_packet_of_a_host_leaves_a_recovering_link_once(loss in 0_u64..900_000_000, packets in 1_u32..300, late in 1_u64..5 * MS) {
        let run = |late| {
            let mut network = lossy_link(loss);
            add_ends(&mut network);
            let mut out = outcomes(&mut network, packets, late);
            out.sort_by_key(|(_, packet)| packet.body);
            (out, network.packets())
        };
        let (out, left) = run(0);
        prop_assert_eq!(left, 0);
        prop_assert_eq!(out.iter().map(|(_, packet)| packet.body).collect::<Vec<_>>(), (0..packets).collect::<Vec<_>>());
        prop_assert!(out.iter().all(|(_, packet)| packet.role == Role::Host && packet.path == 0 && packet.at >= packet.entered));
        prop_assert_eq!(out, run(late).0);
    }

    /// The same with a handover and an outage, of any fate and with any queue, whichever of the links have ends.
    #[test]
    fn every_packet_leaves_recovering_links_once_whatever_happens(
        fate in any_fate(), limit in queues(), loss in 0_u64..400_000_000, gap in 0_u64..60, links in prop::sample::subsequence(vec![0_usize, 1, 2], 1..=3),
        sends in prop::collection::vec((0_u64..300 * MS, 60_u32..1500), 1..200), late in 1_u64..5 * MS,
    ) {
        let p = two_hop_handover(fate, gap, limit, loss);
        let run = |late| {
            let mut network = network_of(&[&p]);
            for &link in &links {
                network.set_ends(link, Direction::BOTH.map(|direction| Retransmitting::boxed(direction, Nanos::from_millis(40)))).unwrap();
            }
            let mut out = drive(&mut network, &sends, late);
            out.sort_by_key(|(_, packet)| packet.body);
            (out, network.packets())
        };
        let (out, left) = run(0);
        prop_assert_eq!(left, 0);
        prop_assert_eq!(out.iter().map(|(_, packet)| packet.body as usize).collect::<Vec<_>>(), (0..sends.len()).collect::<Vec<_>>());
        prop_assert!(out.iter().all(|(_, packet)| packet.role == Role::Host && packet.path == 0 && packet.at >= packet.entered));
        prop_assert_eq!(out, run(late).0);
    }
}
