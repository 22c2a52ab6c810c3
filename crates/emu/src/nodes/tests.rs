//! Nodes that exchange packets in a virtual time, beside the simulator with the same Profile and seed.

use super::core::{NodeCore, Sink};
use super::plan::{Plan, Role};
use crate::header::tests::udp4;
use bentpipe_link::{Network, Outcome, Packet};
use bentpipe_profile::experiment::RecoverySpec;
use bentpipe_profile::*;
use bentpipe_recovery::registry::install;
use proptest::prelude::*;
use std::collections::BTreeMap;

const MS: u64 = 1_000_000;

fn side(delay_ms: u64, mbps: u64, loss: u64) -> HopDirection {
    HopDirection {
        delay: Series::constant(delay_ms * MS),
        capacity: Some(Series::constant(mbps * 1_000_000)),
        loss: (loss > 0).then(|| Series::constant(loss)),
        jitter: None,
        queue: QueueSpec { discipline: QueueDiscipline::DropTail, limit: QueueLimit::Bytes(Bytes(2_000_000)) },
    }
}

/// Two satellites with a gateway and a wire behind it; the path changes between them every 700 ms, with a gap of 30 ms.
fn profile(loss: u64, handovers: u64) -> Profile {
    let hop =
        |name: &str, delay, loss| Hop { name: name.to_owned(), shared_id: None, up: side(delay, 50, loss), down: side(delay, 50, loss) };
    let hops = vec![hop("sat:1", 6, loss), hop("sat:2", 7, loss), hop("fibre", 5, 0)];
    let at = |n: u64| Time(n * 700 * MS);
    let routes = (0..=handovers).map(|n| RouteEntry { at_ns: at(n), hops: vec![usize::from(n % 2 == 1), 2] }).collect();
    let event = |n: u64| {
        let (from, to_hop) = if n % 2 == 1 { (0, 1) } else { (1, 0) };
        let queue = QueueFate::Migrate(Migration { to_hop, delay_ns: Nanos::ZERO, rate_bps: Rate::from_mbps(1000) });
        let fate = Fate { queue, in_flight: InFlightFate::Drop, order: OrderFate::Clamp };
        let kind = EventKind::Handover { from_satellite: None, to_satellite: None, from_gateway: None, to_gateway: None, to_hop };
        Event { at_ns: at(n), interruption_ns: Nanos::from_millis(30), hop: from, kind, up: fate, down: fate }
    };
    let provenance = Provenance {
        kind: "preset".to_owned(),
        description: String::new(),
        made_by: String::new(),
        seed: None,
        includes: vec![],
        recipe: ().into(),
    };
    let events = (1..=handovers).map(event).collect();
    Profile::new("p".to_owned(), Utc(0), Nanos::from_secs(10), Basis::OneWay, provenance, hops, routes, events).unwrap()
}

/// Number of a test's packet, in its source port and length.
fn packet(number: u32, bytes: usize) -> Vec<u8> {
    let mut packet = udp4(7, 9);
    packet.resize(bytes.max(40), 0);
    let length = u16::try_from(packet.len()).unwrap();
    packet[2..4].copy_from_slice(&length.to_be_bytes());
    packet[28..32].copy_from_slice(&number.to_be_bytes());
    packet
}

#[derive(Default)]
struct Sent {
    frames: Vec<(Role, Vec<u8>)>,
    delivered: Vec<u32>,
}

impl Sink for Sent {
    fn to_node(&mut self, to: Role, headers: &[u8], inner: &[u8]) {
        self.frames.push((to, [headers, inner].concat()));
    }

    fn to_host(&mut self, _label: u32, packet: &[u8]) {
        self.delivered.push(u32::from_be_bytes(*packet[28..].first_chunk().unwrap()));
    }
}

/// Nodes with wires that take no time.
struct World {
    nodes: BTreeMap<Role, NodeCore>,
    /// Packets that reached their host: when, where and their number.
    delivered: Vec<(Time, Role, u32)>,
    tampered: u64,
}

impl World {
    fn new(profile: &Profile, scheme: &str, seed: u64) -> Self {
        let recovery = RecoverySpec { scheme: scheme.to_owned(), options: BTreeMap::new() };
        let node = |role| (role, NodeCore::new(profile, role, Some(&recovery), Streams::new(seed)).unwrap());
        let nodes = Plan::of(profile).unwrap().roles().into_iter().map(node).collect();
        Self { nodes, delivered: Vec::new(), tampered: 0 }
    }

    fn settle(&mut self, now: Time, from: Role, sent: Sent, tamper: &mut impl FnMut(&mut Vec<u8>)) {
        self.delivered.extend(sent.delivered.iter().map(|&number| (now, from, number)));
        for (to, mut frame) in sent.frames {
            let whole = frame.clone();
            tamper(&mut frame);
            self.tampered += u64::from(frame != whole);
            let mut next = Sent::default();
            self.nodes.get_mut(&to).unwrap().from_node(now, from, &frame, &mut next);
            self.settle(now, to, next, tamper);
        }
    }

    /// Run until `until`, then send a packet from a host if there is one.
    fn run(&mut self, until: Time, packet: Option<(Role, Vec<u8>)>, tamper: &mut impl FnMut(&mut Vec<u8>)) {
        while let Some((at, role)) =
            self.nodes.iter().filter_map(|(&role, node)| Some((node.wake_at()?, role))).min().filter(|(at, _)| *at <= until)
        {
            let mut sent = Sent::default();
            self.nodes.get_mut(&role).unwrap().advance(at, &mut sent);
            self.settle(at, role, sent, tamper);
        }
        if let Some((role, packet)) = packet {
            let mut sent = Sent::default();
            self.nodes.get_mut(&role).unwrap().from_host(until, 5, &packet, &mut sent);
            self.settle(until, role, sent, tamper);
        }
    }

    fn overhead(&self, name: &str) -> u64 {
        self.nodes.values().map(|node| node.overhead().get(name).copied().unwrap_or_default()).sum()
    }

    fn malformed(&self) -> u64 {
        self.nodes.values().map(|node| node.counts().malformed).sum()
    }
}

/// One packet per millisecond each way. Returns the world, and when each packet was sent.
fn steady(profile: &Profile, scheme: &str, count: u32) -> World {
    let mut world = World::new(profile, scheme, 1);
    for number in 0..count {
        let at = Time(u64::from(number / 2) * MS);
        let from = if number % 2 == 0 { Role::Terminal } else { Role::Ground };
        world.run(at, Some((from, packet(number, 1200))), &mut |_| {});
    }
    world.run(Time(9_000 * MS), None, &mut |_| {});
    world
}

/// The simulator's deliveries of the same packets: when, and which.
fn simulated(profile: &Profile, scheme: &str, count: u32) -> Vec<(Time, u32)> {
    let spec = NetworkSpec::from_profiles(&[profile]).unwrap();
    let mut network = Network::new(&spec, Streams::new(1)).unwrap();
    install(scheme, &BTreeMap::new(), &mut network, &spec).unwrap();
    let mut out = Vec::new();
    for number in 0..count {
        let at = Time(u64::from(number / 2) * MS);
        network.run_until(at, &mut out);
        let direction = if number % 2 == 0 { Direction::Up } else { Direction::Down };
        network.send(Packet { flow_hash: 5, ..Packet::new(at, 0, direction, 0, 1200, number) }).unwrap();
    }
    network.run_until(Time(9_000 * MS), &mut out);
    out.into_iter().filter(|(outcome, _)| *outcome == Outcome::Delivered).map(|(_, packet)| (packet.at, packet.body)).collect()
}

#[test]
fn without_loss_nodes_deliver_as_the_simulator_does() {
    for scheme in ["none", "satguard"] {
        let profile = profile(0, 0);
        let world = steady(&profile, scheme, 2000);
        let mut times: Vec<(Time, u32)> = world.delivered.iter().map(|&(at, _, number)| (at, number)).collect();
        let mut expected = simulated(&profile, scheme, 2000);
        times.sort_unstable();
        expected.sort_unstable();
        assert_eq!(times, expected, "{scheme}");
    }
}

#[test]
fn losses_are_concealed_as_in_the_simulator() {
    let profile = profile(LOSS_ONE / 20, 0);
    let plain = steady(&profile, "none", 8000).delivered.len();
    let world = steady(&profile, "satguard", 8000);
    let expected = simulated(&profile, "satguard", 8000).len();
    assert_eq!(plain, simulated(&profile, "none", 8000).len(), "the same packets are lost");
    assert!(plain < 7700 && world.delivered.len() > 7960, "{plain} {}", world.delivered.len());
    assert!(world.delivered.len().abs_diff(expected) < 20, "{} {expected}", world.delivered.len());
    assert!((300..700).contains(&world.overhead("retransmitted")));
    for role in [Role::Terminal, Role::Ground] {
        let numbers: Vec<u32> = world.delivered.iter().filter(|(_, at, _)| *at == role).map(|(.., number)| *number).collect();
        assert!(numbers.is_sorted());
    }
    assert_eq!(world.malformed(), 0);
}

#[test]
fn packets_follow_a_handover_to_the_next_satellite() {
    for handovers in [1, 3] {
        let profile = profile(0, handovers);
        let lost = |delivered: usize| 8000 - delivered;
        let world = steady(&profile, "satguard", 8000);
        assert!(lost(steady(&profile, "none", 8000).delivered.len()) >= 8 * usize::try_from(handovers).unwrap());
        assert_eq!((lost(world.delivered.len()), lost(simulated(&profile, "satguard", 8000).len())), (0, 0), "{handovers}");
        assert!(world.overhead("migrated") >= handovers * 8 && world.overhead("migrated_bytes") > 0);
        assert_eq!(world.malformed(), 0);
        let mut world = world;
        world.nodes.values_mut().for_each(|node| node.advance(Time(30_000 * MS), &mut Sent::default()));
        assert!(world.nodes.values().all(|node| node.packets() == 0), "no content is left behind");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    /// Whatever a wire does to frames, no node fails, and hosts get whole packets, each at most once.
    #[test]
    fn nodes_bear_hostile_frames(seed in any::<u64>(), share in 0_u64..5, cut in any::<bool>(), loss in 0_u64..200_000_000) {
        let profile = profile(loss, 2);
        let mut world = World::new(&profile, "satguard", 1);
        let mut draws = 0;
        let mut tamper = |frame: &mut Vec<u8>| {
            draws += 1;
            let draw = keyed_u64(seed, draws);
            if draw % 20 < share {
                if cut {
                    frame.truncate(usize::try_from(draw >> 8).unwrap_or_default() % (frame.len() + 1));
                } else {
                    let at = usize::try_from(draw >> 8 & 0xffff).unwrap() % 72.min(frame.len());
                    frame[at] ^= u8::try_from(draw >> 32 & 0xff).unwrap();
                }
            }
        };
        for number in 0..1800 {
            let at = Time(u64::from(number) * MS);
            let from = if number % 2 == 0 { Role::Terminal } else { Role::Ground };
            world.run(at, Some((from, packet(number, 300))), &mut tamper);
        }
        world.run(Time(9_000 * MS), None, &mut tamper);
        let mut numbers: Vec<u32> = world.delivered.iter().map(|(.., number)| *number).collect();
        let all = numbers.len();
        numbers.sort_unstable();
        numbers.dedup();
        prop_assert!(numbers.len() <= 1800 && (share > 0 || all == numbers.len()));
        prop_assert!(share > 0 || world.malformed() == 0);
        prop_assert!(world.malformed() <= world.tampered);
    }
}
