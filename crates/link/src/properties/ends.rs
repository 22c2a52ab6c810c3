//! Elements at the ends of a link: events reach them, and they may drop and migrate packets.

use super::recovery::Retransmitting;
use super::{MS, hop, network_of, profile, side, tail};
use crate::event::PathEvent;
use crate::*;
use bentpipe_profile::*;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};

/// What an end did: how late each of its answers to events was sent [ns].
type Lateness = Arc<Mutex<Vec<u64>>>;

/// A link end that passes packets on. It answers each event with a control packet at the event's time, and drops packets that it receives from the link with
/// an odd body, if it is told to.
struct Passing {
    direction: Direction,
    drops_odd: bool,
    answers: Lateness,
    out: VecDeque<(Port, Packet)>,
}

impl Passing {
    fn boxed(direction: Direction, drops_odd: bool, answers: &Lateness) -> Box<dyn Element> {
        Box::new(Self { direction, drops_odd, answers: Arc::clone(answers), out: VecDeque::new() })
    }
}

impl Element for Passing {
    fn push(&mut self, port: Port, packet: Packet) {
        let port = match port {
            Port::Near => Port::Far,
            _ if self.drops_odd && packet.body % 2 == 1 => Port::Drop(DropCause::Loss),
            _ => Port::Near,
        };
        self.out.push_back((port, packet));
    }

    fn pop(&mut self, now: Time) -> Option<(Port, Packet)> {
        let (port, packet) = self.out.front().copied().filter(|(_, packet)| packet.at <= now)?;
        self.out.pop_front();
        if packet.role == Role::Control && port == Port::Far {
            self.answers.lock().unwrap().push(now.since(packet.at).0);
        }
        Some((port, packet))
    }

    fn wake_at(&self) -> Option<Time> {
        self.out.front().map(|(_, packet)| packet.at)
    }

    fn on_event(&mut self, event: &PathEvent) {
        let at = match *event {
            PathEvent::Join { at, .. } | PathEvent::Leave { at, .. } | PathEvent::Close { at, .. } => at,
            PathEvent::Await { until, .. } => until,
            PathEvent::NotBefore { floor, .. } => floor,
        };
        let packet = Packet::new(at, u32::MAX, self.direction, 0, 64, 0);
        self.out.push_back((Port::Far, Packet { role: Role::Control, ..packet }));
        self.out.make_contiguous().sort_by_key(|(_, packet)| packet.at);
    }

    fn packets(&self) -> usize {
        self.out.len()
    }
}

/// Two satellites of 10 Mbit/s and 5 ms, and a handover after 10 ms whose queue migrates.
fn handover() -> Network {
    let air = side(&[5], &[10], 0, false, tail(QueueLimit::Packets(100)));
    let route = |at_ms: u64, hop| RouteEntry { at_ns: Time(at_ms * MS), hops: vec![hop] };
    let migration = Migration { to_hop: 1, delay_ns: Nanos::from_millis(3), rate_bps: Rate::from_mbps(100) };
    let fate = Fate { queue: QueueFate::Migrate(migration), in_flight: InFlightFate::Deliver, order: OrderFate::Clamp };
    let kind = EventKind::Handover { from_satellite: None, to_satellite: None, from_gateway: None, to_gateway: None, to_hop: 1 };
    let event = Event { at_ns: Time(10 * MS), interruption_ns: Nanos::ZERO, hop: 0, kind, up: fate, down: fate };
    network_of(&[&profile(vec![hop("sat:a", &air), hop("sat:b", &air)], vec![route(0, 0), route(10, 1)], vec![event])])
}

/// Send a packet of 1 ms in each direction at each of these times [ms], and run the network until it is empty.
fn outcomes(network: &mut Network, times_ms: &[u64]) -> Vec<(Outcome, Packet)> {
    let mut out = Vec::new();
    for (body, (at_ms, direction)) in (0..).zip(times_ms.iter().flat_map(|&at| Direction::BOTH.map(|direction| (at, direction)))) {
        network.run_until(Time(at_ms * MS), &mut out);
        network.send(Packet::new(Time(at_ms * MS), 0, direction, 0, 1250, body)).unwrap();
    }
    while let Some(at) = network.wake_at() {
        network.run_until(at, &mut out);
    }
    out
}

fn bodies(out: &[(Outcome, Packet)], outcome: Outcome) -> Vec<u32> {
    let mut bodies: Vec<u32> = out.iter().filter(|(other, _)| *other == outcome).map(|(_, packet)| packet.body).collect();
    bodies.sort_unstable();
    bodies
}

#[test]
fn an_end_answers_each_event_on_time() {
    for link in 0..2 {
        let (mut network, answers) = (handover(), Lateness::default());
        network.set_ends(link, Direction::BOTH.map(|direction| Passing::boxed(direction, false, &answers))).unwrap();
        assert_eq!(bodies(&outcomes(&mut network, &[8, 8, 8, 9, 12]), Outcome::Delivered), (0..10).collect::<Vec<_>>());
        // Each end of link 0 receives the Leave, those of link 1 two Joins (route and event), an Await and a floor.
        let answers = answers.lock().unwrap();
        assert!(answers.len() >= [2, 8][link] && answers.iter().all(|late| *late == 0), "link {link}: {answers:?}");
    }
}

#[test]
fn a_queue_migrates_to_a_link_with_ends() {
    let mut network = handover();
    network.set_ends(1, Direction::BOTH.map(|direction| Retransmitting::boxed(direction, Nanos::from_millis(50)))).unwrap();
    // Six packets each way wait at the handover. Others enter the new link before they arrive there.
    let out = outcomes(&mut network, &[8, 8, 8, 8, 9, 9, 9, 10, 11, 12, 13]);
    assert_eq!(bodies(&out, Outcome::Delivered), (0..22).collect::<Vec<_>>());
    assert_eq!((out.len(), network.packets()), (22, 0));
}

/// An end drops packets that it has received: those of the other direction.
#[test]
fn a_packet_that_an_end_drops_is_one_of_its_own_direction() {
    let (mut network, answers) = (handover(), Lateness::default());
    network.set_ends(0, Direction::BOTH.map(|direction| Passing::boxed(direction, direction == Direction::Up, &answers))).unwrap();
    // Odd bodies go down, and the end at the start of the direction up receives them.
    let out = outcomes(&mut network, &[0, 2, 4]);
    assert_eq!(bodies(&out, Outcome::Delivered), [0, 2, 4]);
    assert_eq!(bodies(&out, Outcome::Dropped(DropCause::Loss)), [1, 3, 5]);
    let drops = Direction::BOTH.map(|direction| network.stats_mut(0, 0, direction).drops.of(DropCause::Loss));
    assert_eq!((drops, network.packets()), ([0, 3], 0));
}

/// Acknowledgements have bodies of their own, and copies arrive after the packet has left. Neither has stages.
#[test]
fn stages_are_those_of_hosts_packets_inside() {
    let air = side(&[5], &[10], LOSS_ONE / 5, false, tail(QueueLimit::Packets(1000)));
    let route = RouteEntry { at_ns: Time(0), hops: vec![0] };
    let mut network = network_of(&[&profile(vec![hop("air", &air)], vec![route], vec![])]);
    network.set_ends(0, Direction::BOTH.map(|direction| Retransmitting::boxed(direction, Nanos::from_millis(15)))).unwrap();
    network.record_stages();
    let out = outcomes(&mut network, &(0..400).map(|n| 3 * n).collect::<Vec<_>>());
    let mut last = BTreeMap::new();
    for stage in network.take_stages() {
        let until = last.insert(stage.body, stage.until);
        assert!(until.is_none_or(|until| until <= stage.until));
    }
    for (_, packet) in out.iter().filter(|(outcome, _)| *outcome == Outcome::Delivered) {
        assert_eq!(last[&packet.body], packet.at);
    }
}

#[test]
fn ends_that_a_link_cannot_have_are_refused() {
    let air = side(&[5], &[10], 0, false, tail(QueueLimit::Packets(100)));
    let hops = vec![Hop { shared_id: Some("beam".to_owned()), ..hop("beam", &air) }, hop("wire", &air)];
    let route = RouteEntry { at_ns: Time(0), hops: vec![0, 1] };
    let mut network = network_of(&[&profile(hops, vec![route], vec![])]);
    let mut error = |link| {
        let ends = Direction::BOTH.map(|direction| Passing::boxed(direction, false, &Lateness::default()));
        network.set_ends(link, ends).err().map(|error| error.to_string())
    };
    // The shared queue is a link too, but not of the Topology.
    assert_eq!(error(2).unwrap(), "ends of link 2: it does not exist; expected 0 to 1");
    assert_eq!(error(1), None);
    assert_eq!(error(1).unwrap(), "ends of link 1: it has ends already; expected ends that are set once");
    let mut network = handover();
    network.send(Packet::new(Time(0), 0, Direction::Up, 0, 100, 0)).unwrap();
    let error = network.set_ends(0, Direction::BOTH.map(|direction| Passing::boxed(direction, false, &Lateness::default())));
    assert!(error.unwrap_err().to_string().starts_with("ends of link 0: it carries packets; expected"));
}
