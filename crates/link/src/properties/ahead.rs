//! Packets that pass links ahead of their time ([`Network::look_ahead_to`]) against the same packets one hop at a time.

use super::{hop, profile, side, tail};
use crate::*;
use bentpipe_profile::*;
use proptest::prelude::*;

/// Return a handover of the first path at `at_ms`. `queue`: 0 is kept, 1 is dropped, 2 migrates.
fn handover(at_ms: u64, [hop, to_hop]: [usize; 2], (queue, is_dropped, interruption_ns): (u8, bool, u64)) -> Event {
    let migration = Migration { to_hop, delay_ns: Nanos::from_millis(1), rate_bps: Rate::from_mbps(1000) };
    let queue = match queue {
        0 => QueueFate::Keep,
        1 => QueueFate::Drop,
        _ => QueueFate::Migrate(migration),
    };
    let fate = Fate { queue, in_flight: if is_dropped { InFlightFate::Drop } else { InFlightFate::Deliver }, order: OrderFate::Clamp };
    Event {
        at_ns: Time(at_ms * 1_000_000),
        // A queue that is kept drains as predicted at the handover: no interruption comes after it.
        interruption_ns: Nanos(if matches!(queue, QueueFate::Keep) { 0 } else { interruption_ns }),
        hop,
        kind: EventKind::Handover { from_satellite: None, to_satellite: None, from_gateway: None, to_gateway: None, to_hop },
        up: fate,
        down: fate,
    }
}

/// Two paths of five links, of which the third is common. The first path takes the second's last link but one at 40 ms, and another first link at 60 ms.
fn crossing_paths(limit: QueueLimit, events: Vec<Event>) -> NetworkSpec {
    let link = |(number, ends): (usize, [usize; 2])| {
        // Delays and capacities such that no two packets arrive at one nanosecond over different links.
        let mut side = side(&[1], &[10 + number as u64], 0, false, tail(limit));
        side.delay = Series::constant(1_000_003 + 71_993 * number as u64);
        LinkSpec { name: format!("l{number}"), ends, hop: hop(&format!("l{number}"), &side) }
    };
    let ends = [[0, 2], [2, 4], [4, 5], [5, 6], [6, 8], [1, 3], [3, 4], [5, 7], [7, 9], [7, 6], [0, 2]];
    let topology = Topology {
        nodes: (0..10).map(|node| format!("n{node}")).collect(),
        links: ends.into_iter().enumerate().map(link).collect(),
        events: vec![],
    };
    let path = |name: &str, ends, links: &[usize], routes| Path {
        name: name.to_owned(),
        ends,
        hops: links.iter().map(|&link| PathHop { link, reversed: false }).collect(),
        routes,
        events: Vec::new(),
    };
    let route = |at_ms: u64, hops: &[usize]| RouteEntry { at_ns: Time(at_ms * 1_000_000), hops: hops.to_vec() };
    let routes = vec![route(0, &[0, 1, 2, 3, 4]), route(40, &[0, 1, 2, 5, 6, 4]), route(60, &[7, 1, 2, 5, 6, 4])];
    let a = Path { events, ..path("a", [0, 8], &[0, 1, 2, 3, 4, 7, 9, 10], routes) };
    let b = path("b", [1, 9], &[5, 6, 2, 7, 8], vec![route(0, &[0, 1, 2, 3, 4])]);
    let provenance = profile(vec![hop("h", &side(&[1], &[], 0, false, tail(limit)))], vec![route(0, &[0])], vec![]).provenance().clone();
    NetworkSpec::new("n".to_owned(), Utc(0), Nanos::from_secs(10), Basis::OneWay, provenance, topology, vec![a, b]).unwrap()
}

/// Send packets, and return what left, in order for each nanosecond, with counters and peak backlogs of both windows.
fn outcomes(spec: &NetworkSpec, sends: &[(u64, u32, bool, u32)], window: u64, is_ahead: bool) -> (Vec<(Outcome, Packet)>, Vec<String>) {
    let (mut network, mut out, mut rows) = (Network::new(spec, Streams::new(1)).unwrap(), Vec::new(), Vec::new());
    let mut edge = window;
    if is_ahead {
        network.look_ahead_to(Time(edge));
    }
    let mut sends = sends.iter().zip(0..).peekable();
    loop {
        let send = sends.peek().map_or(u64::MAX, |((at, ..), _)| *at);
        let wake = network.wake_at().map_or(u64::MAX, |at| at.0);
        let now = send.min(wake).min(edge);
        if send == u64::MAX && network.packets() == 0 {
            break;
        }
        network.run_until(Time(now), &mut out);
        if wake <= now {
            continue;
        }
        if now == edge {
            for (path, hops) in [(0, 8), (1, 5)] {
                for (hop, d) in (0..hops).flat_map(|hop| Direction::BOTH.map(|d| (hop, d))) {
                    let backlog = [network.backlog_bytes(path, hop, d), network.peak_backlog_bytes(path, hop, d)];
                    rows.push(format!("{now} {path} {hop} {d:?} {backlog:?} {:?}", network.stats_mut(path, hop, d)));
                }
            }
            network.begin_window();
            edge += window;
            if is_ahead {
                network.look_ahead_to(Time(edge));
            }
        } else if let Some((&(at, path, is_up, bytes), body)) = sends.next() {
            let direction = if is_up { Direction::Up } else { Direction::Down };
            network.send(Packet::new(Time(at), path, direction, path, bytes, body)).unwrap();
        }
    }
    for packet in &mut out {
        packet.1.sequence = 0;
    }
    (out, rows)
}

proptest! {
    /// Ahead of their time or not, packets leave at the same times with the same outcomes, and every window has the same counters and backlogs.
    #[test]
    fn looking_ahead_changes_nothing(
        gaps in prop::collection::vec((0_u64..100, 0_u32..2, any::<bool>(), 60_u32..1500), 1..1200),
        longest_gap in 100_000_u64..1_500_000,
        packets in 1_u32..40,
        window in 5_000_000_u64..50_000_000,
        effects in prop::option::of([(0_u8..3, any::<bool>(), 0_u64..5_000_000), (0_u8..3, any::<bool>(), 0_u64..5_000_000)]),
    ) {
        let mut at = 0;
        let sends: Vec<_> = gaps.into_iter().map(|(gap, path, is_up, bytes)| { at += gap * longest_gap / 100; (at, path, is_up, bytes) }).collect();
        let events = effects.map(|[first, second]| vec![handover(40, [3, 5], first), handover(60, [0, 7], second)]);
        let spec = crossing_paths(QueueLimit::Packets(packets.into()), events.unwrap_or_default());
        let [mut plain, mut ahead] = [false, true].map(|is_ahead| outcomes(&spec, &sends, window, is_ahead));
        for (out, _) in [&mut plain, &mut ahead] {
            out.sort_by_key(|(_, packet)| (packet.at, packet.body)); // at one nanosecond, links may take any order
        }
        prop_assert_eq!(plain, ahead);
    }
}
