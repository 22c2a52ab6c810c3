//! Properties of handovers after which old and new route differ in more than one hop.

use super::{MS, drive, hop, network_of, ordered_groups, profile, queues, side, tail};
use crate::*;
use bentpipe_profile::*;
use proptest::prelude::*;

/// Build handovers between three satellites (10 Mbit/s), each with its own gateway. `legs`: delay from each gateway to the common last hop [ms]. `gaps`:
/// time to the next handover and its interruption [ms].
fn gateway_handovers(legs: [u64; 3], gaps: &[(u64, u64)], migration_ms: Option<u64>, limit: QueueSpec) -> Profile {
    let satellites = [4, 25, 11].map(|delay_ms| side(&[delay_ms], &[10], 0, true, limit));
    let wires = [legs[0], legs[1], legs[2], 3].map(|delay_ms| side(&[delay_ms], &[], 0, false, limit));
    let names = ["sat:a", "sat:b", "sat:c", "gateway:a", "gateway:b", "gateway:c", "pop"];
    let hops = names.iter().zip(satellites.iter().chain(&wires)).map(|(name, side)| hop(name, side)).collect();
    let route = |at: u64, pair: usize| RouteEntry { at_ns: Time(at), hops: vec![pair, 3 + pair, 6] };
    let (mut routes, mut events) = (vec![route(0, 0)], Vec::new());
    let (mut at, mut pair) = (0, 0);
    for &(gap, interruption_ms) in gaps {
        at += gap * MS;
        let to_hop = (pair + 1) % 3;
        let migration = |ms| QueueFate::Migrate(Migration { to_hop, delay_ns: Nanos::from_millis(ms), rate_bps: Rate::from_mbps(1000) });
        let queue = migration_ms.map_or(QueueFate::Keep, migration);
        let fate = Fate { queue, in_flight: InFlightFate::Deliver, order: OrderFate::Clamp };
        events.push(Event {
            at_ns: Time(at),
            // A queue that is kept drains as predicted at the handover: no interruption comes after it.
            interruption_ns: Nanos::from_millis(if migration_ms.is_some() { interruption_ms } else { 0 }),
            hop: pair,
            kind: EventKind::Handover { from_satellite: None, to_satellite: None, from_gateway: None, to_gateway: None, to_hop },
            up: fate,
            down: fate,
        });
        routes.push(route(at, to_hop));
        pair = to_hop;
    }
    profile(hops, routes, events)
}

/// Packets on their way to the old satellite follow the queue that migrates. The new route waits exactly as long as needed over the longer leg.
#[test]
fn stragglers_of_the_old_gateway_follow_the_queue_that_migrates() {
    let p = gateway_handovers([10, 2, 2], &[(30, 0)], Some(0), tail(QueueLimit::Packets(100)));
    let mut network = network_of(&[&p]);
    let mut out = Vec::new();
    for (body, at) in (0..).zip([14, 15, 16, 20, 25, 29, 35].map(|at| at * MS)) {
        network.run_until(Time(at), &mut out);
        network.send(Packet::new(Time(at), 0, Direction::Down, 0, 2500, body)).unwrap();
    }
    while let Some(at) = network.wake_at() {
        network.run_until(at, &mut out);
    }
    assert_eq!(out.iter().map(|(_, packet)| packet.body).collect::<Vec<_>>(), [0, 1, 2, 3, 4, 5, 6]);
    let carried = |hop| network_packets(&mut network, hop);
    assert_eq!([0, 1, 3, 4].map(carried), [1, 6, 5, 2]);
}

fn network_packets(network: &mut Network, hop: usize) -> u64 {
    network.stats_mut(0, hop, Direction::Down).delivered_packets
}

/// Packets that still reach a hop after the path has left it share the fate of its queue.
#[test]
fn stragglers_share_the_fate_of_the_queue() {
    for (queue, expected) in [(QueueFate::Keep, [1, 0, 0]), (QueueFate::Drop, [0, 0, 1])] {
        let with = gateway_handovers([10, 2, 2], &[(30, 0)], Some(0), tail(QueueLimit::Packets(100)));
        let mut events = with.events().to_vec();
        (events[0].up.queue, events[0].down.queue) = (queue, queue);
        let p = profile(with.hops().to_vec(), with.routes().to_vec(), events);
        let mut network = network_of(&[&p]);
        let mut out = Vec::new();
        network.run_until(Time(25 * MS), &mut out);
        network.send(Packet::new(Time(25 * MS), 0, Direction::Down, 0, 1500, 0)).unwrap();
        network.run_until(Time(200 * MS), &mut out);
        let lost = u64::from(out[0].0 == Outcome::Dropped(DropCause::Event));
        assert_eq!([network_packets(&mut network, 0), network_packets(&mut network, 1), lost], expected, "{queue:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// No packet overtakes another if the gateway changes with the satellite, so that old and new route differ in more than one hop. Each handover comes
    /// after the packets of the previous one have left the old gateway's leg.
    #[test]
    fn handovers_between_gateways_keep_order(
        legs in [1_u64..30, 1_u64..30, 1_u64..30], gaps in prop::collection::vec((45_u64..120, 0_u64..90), 1..8),
        migration_ms in prop_oneof![Just(None), Just(Some(0)), (0_u64..10).prop_map(Some)], limit in queues(),
        sends in prop::collection::vec((0_u64..500 * MS, 60_u32..1500), 1..400),
    ) {
        let p = gateway_handovers(legs, &gaps, migration_ms, limit);
        let mut network = network_of(&[&p]);
        let out = drive(&mut network, &sends, 0);
        prop_assert_eq!(network.packets(), 0);
        prop_assert_eq!(out.len(), sends.len());
        for (direction, flow) in ordered_groups(limit) {
            let mine = |p: &Packet| p.direction == direction && flow.is_none_or(|flow| flow == p.flow);
            let order: Vec<_> = out.iter().filter(|(o, p)| *o == Outcome::Delivered && mine(p)).map(|(_, p)| p.body).collect();
            prop_assert!(order.is_sorted(), "{order:?}");
        }
    }
}
