//! Elements at link ends that number packets when they leave the queue, retransmit ahead of it and pass kept packets to another link at a handover; and elements at
//! the ends of a path.

use super::{MS, any_fate, back_and_forth, drive, hop, network_of, profile, queues, side, tail, two_hop_handover};
use crate::event::PathEvent;
use crate::*;
use bentpipe_profile::*;
use proptest::prelude::*;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};

/// Numbers of the packets that an end received, in order.
type Received = Arc<Mutex<Vec<u16>>>;

const TRIES: u32 = 3;

/// A link end that numbers the packets that leave the queue, keeps each until the other end acknowledges it and retransmits it after a timeout.
struct Numbering {
    timeout: Nanos,
    next: u16,
    /// Packets without an acknowledgement, with their transmissions and the time of the last.
    kept: BTreeMap<u32, (Packet, u32, Time)>,
    /// Transmissions of the packets that wait for another.
    waiting: BTreeMap<u32, u32>,
    received: Received,
    out: VecDeque<(Port, Packet)>,
}

impl Numbering {
    fn boxed(timeout: Nanos, received: &Received) -> Box<dyn Element> {
        Box::new(Self {
            timeout,
            next: 0,
            kept: BTreeMap::new(),
            waiting: BTreeMap::new(),
            received: Arc::clone(received),
            out: VecDeque::new(),
        })
    }

    fn timer(&self) -> Option<(Time, u32)> {
        self.kept.iter().map(|(&number, (_, _, sent))| (*sent + self.timeout, number)).min()
    }
}

impl Element for Numbering {
    fn push(&mut self, port: Port, packet: Packet) {
        match (port, packet.role) {
            (Port::Near, _) => self.out.push_back((Port::Far, packet)),
            (_, Role::Control) => drop(self.kept.remove(&packet.body)),
            _ => {
                self.received.lock().unwrap().push(packet.header[0]);
                let control =
                    Packet { direction: packet.direction.reverse(), role: Role::Control, bytes: 64, body: packet.sequence, ..packet };
                self.out.push_back((Port::Ahead, control));
                self.out.push_back((Port::Near, packet));
            }
        }
    }

    fn on_sent(&mut self, packet: &mut Packet) {
        if packet.role != Role::Control {
            (packet.role, packet.header[0]) = (Role::Copy, self.next);
            self.next += 1;
            let tries = self.waiting.remove(&packet.sequence).unwrap_or(0) + 1;
            self.kept.insert(packet.sequence, (*packet, tries, packet.at));
        }
    }

    fn pop(&mut self, now: Time) -> Option<(Port, Packet)> {
        while let Some((at, number)) = self.timer().filter(|(at, _)| *at <= now) {
            let (packet, tries, _) = self.kept.remove(&number).unwrap();
            let port = if tries == TRIES { Port::Drop(DropCause::Loss) } else { Port::Ahead };
            self.waiting.insert(number, tries);
            self.out.push_back((port, Packet { at, role: Role::Host, ..packet }));
        }
        self.out.pop_front()
    }

    fn wake_at(&self) -> Option<Time> {
        self.out.front().map(|(_, packet)| packet.at).or_else(|| self.timer().map(|(at, _)| at))
    }

    fn on_event(&mut self, event: &PathEvent) {
        if let PathEvent::Leave { at, scope, .. } = event {
            let leaving = self.kept.values().filter(|(packet, ..)| scope.concerns(packet)).map(|(packet, ..)| *packet).collect::<Vec<_>>();
            for packet in leaving {
                self.kept.remove(&packet.sequence);
                self.out.push_back((Port::Onward, Packet { at: *at, ..packet }));
            }
        }
    }

    fn packets(&self) -> usize {
        self.kept.len()
    }
}

fn numbering(timeout_ms: u64, received: &Received) -> [Box<dyn Element>; 2] {
    [0, 1].map(|_| Numbering::boxed(Nanos::from_millis(timeout_ms), received))
}

/// Two terminals share a beam of 10 Mbit/s and the delay of 5 ms; each has its own loss.
fn beam(queue: QueueSpec, loss: u64) -> Network {
    let air = side(&[5], &[10], loss, false, queue);
    let terminal = || {
        profile(
            vec![Hop { shared_id: Some("beam".to_owned()), ..hop("beam", &air) }],
            vec![RouteEntry { at_ns: Time(0), hops: vec![0] }],
            vec![],
        )
    };
    network_of(&[&terminal(), &terminal()])
}

/// Send packets of `(time, bytes)` to two terminals in turn, every other one up, and run the network until it is empty.
fn send_to_both(network: &mut Network, sends: &[(u64, u32)], late: u64) -> Vec<(Outcome, Packet)> {
    let (mut sends, mut out) = (sends.to_vec(), Vec::new());
    sends.sort_unstable();
    for (body, &(at, bytes)) in (0..).zip(&sends) {
        network.run_until(Time(at), &mut out);
        network.send(Packet::new(Time(at), body % 2, Direction::BOTH[(body / 2 % 2) as usize], body % 2, bytes, body)).unwrap();
    }
    while let Some(at) = network.wake_at() {
        network.run_until(Time(at.0 + late), &mut out);
    }
    out.sort_by_key(|(_, packet)| packet.body);
    out
}

/// A full queue drops packets before they have a number: the other end sees no gap.
#[test]
fn numbers_are_in_the_order_of_transmission_and_drops_in_the_queue_leave_no_gap() {
    let fq = QueueDiscipline::FqCodel(FqCodel {
        codel: Codel { target_ns: Nanos::from_millis(5), interval_ns: Nanos::from_millis(20), ecn: false },
        flows: 4,
        quantum_bytes: 1000,
    });
    for discipline in [QueueDiscipline::DropTail, fq] {
        let air = side(&[5], &[10], 0, false, QueueSpec { discipline, limit: QueueLimit::Packets(10) });
        let mut network = network_of(&[&profile(vec![hop("air", &air)], vec![RouteEntry { at_ns: Time(0), hops: vec![0] }], vec![])]);
        let received = Received::default();
        let other = Received::default();
        let ends = [Numbering::boxed(Nanos::from_millis(30), &received), Numbering::boxed(Nanos::from_millis(30), &other)];
        network.set_ends(0, ends).unwrap();
        let out = drive(&mut network, &(0..300).map(|n| (n * MS / 4, 1250)).collect::<Vec<_>>(), 0);
        assert!(out.iter().filter(|(outcome, _)| *outcome != Outcome::Delivered).count() > 50);
        for received in [received, other] {
            let received = received.lock().unwrap();
            assert_eq!(*received, (0..u16::try_from(received.len()).unwrap()).collect::<Vec<_>>());
        }
    }
}

/// A retransmission waits for the packet in transmission, not for the queue, and uses the capacity of a beam that others share.
#[test]
fn a_beam_retransmits_ahead_of_its_shared_queue() {
    let mut network = beam(tail(QueueLimit::Packets(1000)), LOSS_ONE / 5);
    for link in 0..2 {
        network.set_ends(link, numbering(15, &Received::default())).unwrap();
    }
    // 1 ms each: the queue grows to 150 packets, down and up.
    let out = send_to_both(&mut network, &(0..600).map(|n| (n * MS / 4, 1250)).collect::<Vec<_>>(), 0);
    let delivered: Vec<_> = out.iter().filter(|(outcome, _)| *outcome == Outcome::Delivered).collect();
    assert!(delivered.len() > 580, "{}", delivered.len());
    let last = delivered.iter().map(|(_, packet)| packet.at.0).max().unwrap();
    // 300 packets each way, of which 0.8 · 0.8 arrive and are acknowledged at each try: 469 ms.
    assert!((430 * MS..510 * MS).contains(&last), "{last}");
    assert!([0, 1].map(|link| network.link(link).own_drops(1).of(DropCause::Loss)).into_iter().all(|lost| lost > 20));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    /// Each packet leaves a beam once, whatever its queue drops of packets, copies and acknowledgements. Lateness changes nothing.
    #[test]
    fn every_packet_leaves_a_shared_beam_once(
        loss in 0_u64..700_000_000, queue in queues(), sends in prop::collection::vec((0_u64..200 * MS, 60_u32..1500), 1..200), late in 1_u64..5 * MS,
        links in prop::sample::subsequence(vec![0_usize, 1], 1..=2),
    ) {
        let run = |late| {
            let mut network = beam(queue, loss);
            for &link in &links {
                network.set_ends(link, numbering(15, &Received::default())).unwrap();
            }
            (send_to_both(&mut network, &sends, late), network.packets())
        };
        let (out, left) = run(0);
        prop_assert_eq!(left, 0);
        prop_assert_eq!(out.iter().map(|(_, packet)| packet.body as usize).collect::<Vec<_>>(), (0..sends.len()).collect::<Vec<_>>());
        prop_assert!(out.iter().all(|(_, packet)| packet.role == Role::Host && packet.at >= packet.entered));
        prop_assert_eq!(out, run(late).0);
    }

    /// At a handover of any fate, what the ends keep goes to the other link.
    #[test]
    fn every_packet_leaves_once_when_ends_pass_on_what_they_keep(
        fate in any_fate(), limit in queues(), loss in 0_u64..400_000_000, gap in 0_u64..60, links in prop::sample::subsequence(vec![0_usize, 1, 2], 1..=3),
        sends in prop::collection::vec((0_u64..300 * MS, 60_u32..1500), 1..200), late in 1_u64..5 * MS,
    ) {
        let p = two_hop_handover(fate, gap, limit, loss);
        let run = |late| {
            let mut network = network_of(&[&p]);
            for &link in &links {
                network.set_ends(link, numbering(40, &Received::default())).unwrap();
            }
            let mut out = drive(&mut network, &sends, late);
            out.sort_by_key(|(_, p)| p.body);
            (out, network.packets())
        };
        let (out, left) = run(0);
        prop_assert_eq!(left, 0);
        prop_assert_eq!(out.iter().map(|(_, packet)| packet.body as usize).collect::<Vec<_>>(), (0..sends.len()).collect::<Vec<_>>());
        prop_assert!(out.iter().all(|(_, packet)| packet.role == Role::Host && packet.path == 0 && packet.at >= packet.entered));
        prop_assert_eq!(out, run(late).0);
    }
}

/// What is in flight at a handover that drops it arrives over the link that the path takes.
#[test]
fn kept_packets_follow_their_path_to_the_link_that_it_takes() {
    let lossless = back_and_forth(&[(10, 0)], false, tail(QueueLimit::Packets(100)));
    let mut events = lossless.events().to_vec();
    for direction in Direction::BOTH {
        *events[0].fate_mut(direction) = Fate { queue: QueueFate::Keep, in_flight: InFlightFate::Drop, order: OrderFate::Allow };
    }
    let p = profile(lossless.hops().to_vec(), lossless.routes().to_vec(), events);
    let delivered = |ends: bool| {
        let mut network = network_of(&[&p]);
        if ends {
            (0..2).for_each(|link| network.set_ends(link, numbering(80, &Received::default())).unwrap());
        }
        let out = drive(&mut network, &(0..60).map(|n| (n * MS / 3, 100)).collect::<Vec<_>>(), 0);
        out.iter().filter(|(outcome, _)| *outcome == Outcome::Delivered).count()
    };
    // Propagation takes 4 ms at most before the handover: more than ten packets are on their way.
    assert!(delivered(false) < 50, "{}", delivered(false));
    assert_eq!(delivered(true), 60);
}

/// Holds each packet for `hold` at the end of a path, and stamps the packets that enter it.
struct PathEnd {
    hold: Nanos,
    drops_odd: bool,
    stamps: u16,
    out: VecDeque<(Port, Packet)>,
}

impl PathEnd {
    fn pair(hold_ms: u64) -> [Box<dyn Element>; 2] {
        [0, hold_ms].map(|ms| -> Box<dyn Element> {
            Box::new(Self { hold: Nanos::from_millis(ms), drops_odd: ms == 7, stamps: 0, out: VecDeque::new() })
        })
    }
}

impl Element for PathEnd {
    fn push(&mut self, port: Port, mut packet: Packet) {
        if port == Port::Near {
            packet.header[3] = self.stamps;
            self.stamps += 1;
            return self.out.push_back((Port::Far, packet));
        }
        let port = if self.drops_odd && packet.header[3] % 2 == 1 { Port::Drop(DropCause::Loss) } else { Port::Near };
        self.out.push_back((port, Packet { at: packet.at + self.hold, ..packet }));
    }

    fn pop(&mut self, now: Time) -> Option<(Port, Packet)> {
        let is_due = self.out.front().is_some_and(|(_, packet)| packet.at <= now);
        if is_due { self.out.pop_front() } else { None }
    }

    fn wake_at(&self) -> Option<Time> {
        self.out.front().map(|(_, packet)| packet.at)
    }

    fn packets(&self) -> usize {
        self.out.len()
    }
}

#[test]
fn the_ends_of_a_path_stamp_its_packets_and_hold_them() {
    let run = |hold_ms: Option<u64>, late| {
        let mut network = network_of(&[&two_hop_handover(Fate::LOSSLESS, 10, tail(QueueLimit::Packets(1000)), 0)]);
        if let Some(hold_ms) = hold_ms {
            network.set_path_ends(0, Direction::Down, PathEnd::pair(hold_ms)).unwrap();
        }
        let mut out = drive(&mut network, &(0..300).map(|n| (n * MS / 2, 600)).collect::<Vec<_>>(), late);
        assert_eq!(network.packets(), 0);
        out.sort_by_key(|(_, packet)| packet.body);
        out
    };
    let (plain, held) = (run(None, 0), run(Some(7), 0));
    assert_eq!(held, run(Some(7), 3 * MS));
    let mut stamps = 0;
    for ((_, plain), (outcome, held)) in plain.iter().zip(&held) {
        let down = plain.direction == Direction::Down;
        assert_eq!(held.at.since(plain.at), Nanos::from_millis(if down { 7 } else { 0 }));
        assert_eq!(*outcome == Outcome::Delivered, !down || held.header[3] % 2 == 0);
        assert_eq!(held.header[3], if down { stamps } else { 0 });
        stamps += u16::from(down);
    }
}

#[test]
fn ends_that_a_path_cannot_have_are_refused() {
    let mut network = network_of(&[&two_hop_handover(Fate::LOSSLESS, 10, tail(QueueLimit::Packets(10)), 0)]);
    let mut error = |path| network.set_path_ends(path, Direction::Up, PathEnd::pair(0)).err().map(|error| error.to_string());
    assert_eq!(error(1).unwrap(), "ends of path 1: it does not exist; expected 0 to 0");
    assert_eq!(error(0), None);
    assert_eq!(error(0).unwrap(), "ends of path 0: it has ends already; expected ends that are set once");
    network.send(Packet::new(Time(0), 0, Direction::Down, 0, 100, 0)).unwrap();
    let error = network.set_path_ends(0, Direction::Down, PathEnd::pair(0)).unwrap_err().to_string();
    assert_eq!(error, "ends of path 0: the network carries packets; expected ends that are set before packets enter");
}
