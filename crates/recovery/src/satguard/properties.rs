//! Properties of the whole scheme in a network.

use super::install::cache;
use super::{ENTRY, Options};
use crate::registry::install;
use crate::testing::*;
use bentpipe_link::{DropCause, Network, Outcome, Packet, Role};
use bentpipe_profile::options::OptionValues;
use bentpipe_profile::tunables::OptionSet;
use bentpipe_profile::*;
use proptest::prelude::*;

#[test]
fn random_losses_are_concealed_within_a_few_hop_rtts() {
    for (shared, hold, least) in [(false, "adaptive", 3985), (false, "longest", 3998), (true, "longest", 3998)] {
        let spec = two_satellites(LOSS_ONE / 20, &[], migrating, shared);
        let (plain, _) = run(&spec, &OptionValues::new(), "none", &steady(4000), 0);
        assert!((3700..3900).contains(&delivered(&plain)));
        let (out, overhead) = run(&spec, &[("hold".to_owned(), hold.into())].into(), "satguard", &steady(4000), 0);
        assert!(delivered(&out) >= least, "{hold}: {} {overhead:?}", delivered(&out));
        assert!(is_in_order(&out));
        // 17 ms of propagation, at most three hop RTTs of 8 ms, transmissions.
        let inside = out.iter().map(|(_, packet)| packet.at.since(packet.entered)).max().unwrap();
        assert!(inside < Nanos::from_millis(17 + 3 * 9 + 3), "{inside:?}");
        let overhead = overhead.unwrap();
        assert_eq!(overhead.header_bytes.get(), 4000 * 16);
        assert!((150..450).contains(&overhead.retransmitted.get()), "{overhead:?}");
        assert!(overhead.control_bytes.get() > 0 && overhead.peak_buffer_bytes.get() < 100_000, "{overhead:?}");
    }
}

#[test]
fn without_order_keeping_flows_are_reordered() {
    let spec = two_satellites(LOSS_ONE / 20, &[], migrating, false);
    let (out, _) = run(&spec, &[("order".to_owned(), 0.0.into())].into(), "satguard", &steady(4000), 0);
    assert!(delivered(&out) > 3990 && !is_in_order(&out));
}

#[test]
fn packets_in_flight_at_a_handover_arrive_over_the_next_satellite() {
    for (gap, migrates) in [(0, true), (50, true), (150, true), (50, false)] {
        let spec = two_satellites(0, &[(500, gap), (500, gap)], migrating, false);
        let (out, overhead) = run(&spec, &[("migration".to_owned(), f64::from(u8::from(migrates)).into())].into(), "satguard", &steady(4000), 0);
        let lost = 4000 - delivered(&out);
        assert_eq!(lost == 0, migrates, "gap {gap} ms: {lost} lost, {overhead:?}");
        assert!(is_in_order(&out));
        let overhead = overhead.unwrap();
        assert_eq!(overhead.migrated.get() > 10, migrates);
        assert_eq!(overhead.migrated_bytes.get() > 10_000, migrates);
    }
}

/// A second handover comes before the first migration has arrived: its packets are dropped with a cause, and order holds.
#[test]
fn a_migration_that_is_cut_short_drops_its_packets() {
    let spec = two_satellites(0, &[(500, 50), (3, 50), (3, 50)], migrating, false);
    let (out, _) = run(&spec, &[("migration_delay_ms".to_owned(), 30.0.into())].into(), "satguard", &steady(4000), 0);
    assert_eq!(out.len(), 4000);
    assert!(is_in_order(&out) && delivered(&out) > 3900);
}

/// 1 Gbit/s of packets of 1500 bytes for more than a turn of the numbers, with bursts of loss.
#[test]
fn numbers_wrap_at_line_rate() {
    let mut air = side(6, 1000, 0);
    let bursts: Vec<_> = (0..40).flat_map(|n| [(Time(n * 40 * MS), 0), (Time((n * 40 + 35) * MS), LOSS_ONE / 5)]).collect();
    air.loss = Some(Series::steps("loss", &bursts).unwrap());
    let spec = NetworkSpec::from_profiles(&[&profile(vec![hop("isl", &air)], vec![route(0, &[0])], vec![])]).unwrap();
    let mut network = Network::new(&spec, Streams::new(1)).unwrap();
    let overhead = install("satguard", &OptionValues::new(), &mut network, &spec).unwrap().overhead.unwrap();
    let mut out = Vec::new();
    for body in 0..100_000_u32 {
        let at = Time(u64::from(body) * 15_000); // 80 % of the capacity
        network.run_until(at, &mut out);
        network.send(Packet::new(at, 0, Direction::Down, 0, 1484, body)).unwrap();
    }
    while let Some(at) = network.wake_at() {
        network.run_until(at, &mut out);
    }
    assert_eq!(out.len(), 100_000);
    assert!(is_in_order(&out));
    assert!(delivered(&out) > 99_850, "{} {overhead:?}", delivered(&out));
    assert_eq!(overhead.unprotected.get(), 0, "{overhead:?}");
}

/// Only marked flows are protected, numbered and get a header.
#[test]
fn other_traffic_passes_untouched() {
    let spec = two_satellites(LOSS_ONE / 10, &[], migrating, false);
    let mut network = Network::new(&spec, Streams::new(1)).unwrap();
    let overhead = install("satguard", &[("marked_flows".to_owned(), 1.0.into())].into(), &mut network, &spec).unwrap().overhead.unwrap();
    let mut out = Vec::new();
    for body in 0..2000 {
        let at = Time(u64::from(body) * MS);
        network.run_until(at, &mut out);
        network.send(Packet::new(at, 0, Direction::Down, body % 2, 500, body)).unwrap();
    }
    while let Some(at) = network.wake_at() {
        network.run_until(at, &mut out);
    }
    // Some of the marked packets come after the hold's limit.
    let lost = |flow| out.iter().filter(|(outcome, packet)| packet.flow == flow && *outcome == Outcome::Dropped(DropCause::Loss)).count();
    assert!(lost(1) > 60 && lost(0) < 20, "{} {}", lost(0), lost(1));
    assert_eq!((overhead.header_bytes.get(), out.iter().all(|(_, packet)| packet.bytes == 500 || packet.flow == 0)), (16_000, true));
}

/// At a handover a satellite gives its copies to the next one over the link between them; terminal and ground station keep theirs, in both directions.
#[test]
fn places_keep_their_copies_and_satellites_hand_them_over() {
    let spec = two_satellites(0, &[(500, 50)], migrating, false);
    let options = Options::read(&ENTRY.declared().check(&OptionValues::new()).unwrap());
    let migrates = |link: usize, direction: Direction| {
        let handovers = cache(&spec, link, direction, &options);
        assert_eq!(handovers.len(), usize::from(link.is_multiple_of(2)), "only the first satellite is left");
        handovers.first().map(|handover| (handover.rate.is_some(), handover.delay > Nanos::ZERO, handover.copy_from < handover.at))
    };
    let (user, feeder) = (0, 2);
    for (link, direction, moves) in
        [(user, Direction::Up, false), (user, Direction::Down, true), (feeder, Direction::Up, true), (feeder, Direction::Down, false)]
    {
        assert_eq!(migrates(link, direction), Some((moves, moves, moves)), "link {link}, {direction:?}");
    }
    assert_eq!(migrates(1, Direction::Up), None);
    // One hop from terminal to gateway: the gateway stands for the satellites.
    let handover = handover(500 * MS, 50, 0, 1, migrating(1));
    let hops = vec![hop("a", &side(4, 20, 0)), hop("b", &side(4, 20, 0)), hop("wire", &side(10, 0, 0))];
    let bent = profile(hops, vec![route(0, &[0, 2]), route(500 * MS, &[1, 2])], vec![handover]);
    let spec = NetworkSpec::from_profiles(&[&bent]).unwrap();
    let moves = |direction| cache(&spec, 0, direction, &options)[0].rate.is_some();
    assert_eq!(Direction::BOTH.map(moves), [false, true]);
}

fn any_fate() -> impl Strategy<Value = (u8, InFlightFate, OrderFate)> {
    (0_u8..3, prop_oneof![Just(InFlightFate::Deliver), Just(InFlightFate::Drop)], prop_oneof![Just(OrderFate::Allow), Just(OrderFate::Clamp)])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// Whatever is lost of packets, retransmissions and acknowledgements, whichever handovers come at both ends at once, and however short after each other: each packet
    /// of a host is delivered once or dropped with a cause, each flow leaves in order, and lateness of the driver changes nothing.
    #[test]
    fn packets_leave_once_and_in_order(
        loss in 0_u64..500_000_000, gaps in prop::collection::vec((1_u64..120, 0_u64..150), 0..6), (queue, in_flight, order) in any_fate(), shared in any::<bool>(),
        sends in prop::collection::vec((0_u64..400 * MS, 0_u32..3, 60_u32..1500), 1..300), late in 1_u64..5 * MS, timer in any::<bool>(),
    ) {
        let fate = |to_hop| {
            let queue = match queue {
                0 => QueueFate::Keep,
                1 => QueueFate::Drop,
                _ => migrating(to_hop).queue,
            };
            Fate { queue, in_flight, order }
        };
        let spec = two_satellites(loss, &gaps, fate, shared);
        let options = [("detection".to_owned(), (if timer { "timer" } else { "gaps" }).into())].into();
        let (out, _) = run(&spec, &options, "satguard", &sends, 0);
        prop_assert!(is_in_order(&out));
        let sorted = |mut out: Vec<(Outcome, Packet)>| {
            out.sort_by_key(|(_, packet)| packet.body);
            out
        };
        let out = sorted(out);
        prop_assert_eq!(out.iter().map(|(_, packet)| packet.body as usize).collect::<Vec<_>>(), (0..sends.len()).collect::<Vec<_>>());
        prop_assert!(out.iter().all(|(_, packet)| packet.role == Role::Host && packet.at >= packet.entered));
        prop_assert_eq!(out, sorted(run(&spec, &options, "satguard", &sends, late).0));
    }
}
