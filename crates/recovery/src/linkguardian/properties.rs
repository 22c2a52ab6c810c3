//! Properties of the whole scheme in a network.

use crate::testing::*;
use bentpipe_link::{Outcome, Packet, Role};
use bentpipe_profile::options::OptionValues;
use bentpipe_profile::*;
use proptest::prelude::*;

fn options(given: &[(&str, f64)]) -> OptionValues {
    given.iter().map(|&(name, value)| (name.to_owned(), value.into())).collect()
}

/// One link of 100 Mbit/s and 5 ms that loses packets of the direction down only.
fn one_link(loss: u64) -> NetworkSpec {
    let mut hop = hop("link", &side(5, 100, 0));
    hop.down.loss = Some(Series::constant(loss));
    NetworkSpec::from_profiles(&[&profile(vec![hop], vec![route(0, &[0])], vec![])]).unwrap()
}

fn lost_down(out: &[(Outcome, Packet)]) -> usize {
    out.iter().filter(|(outcome, packet)| *outcome != Outcome::Delivered && packet.direction == Direction::Down).count()
}

/// The paper's law: a packet is lost if it and its N retransmissions are, p^(N+1). Notifications come over a direction without loss. 20,000 packets, a binomial
/// interval of four standard deviations. At most one loss in 16 packets is a second one within a notification's five holes, so that the limit does not count.
#[test]
fn the_remaining_loss_is_the_power_of_the_loss() {
    let (packets, p) = (40_000_u64, 0.06_f64);
    let sends: Vec<_> = (0..packets).map(|n| (n * MS / 4, 0, 1000)).collect();
    for (copies, expected) in [(1, p * p), (2, p * p * p)] {
        let spec = one_link(60_000_000);
        let (out, overhead) = run(&spec, &options(&[("copies", f64::from(copies))]), "linkguardian", &sends, 0);
        let n = packets as f64 / 2.0;
        let deviation = (expected * (1.0 - expected) / n).sqrt();
        let lost = lost_down(&out) as f64 / n;
        assert!((lost - expected).abs() < 4.0 * deviation, "{copies} copies: {lost} instead of {expected} ± {deviation}; {overhead:?}");
        assert!(is_in_order(&out));
    }
}

#[test]
fn without_order_packets_do_not_wait_for_a_loss() {
    let spec = one_link(20_000_000);
    let held = |mode: &str| {
        let (out, overhead) = run(&spec, &[("mode".to_owned(), mode.into())].into(), "linkguardian", &steady(8000), 0);
        (is_in_order(&out), overhead.unwrap().peak_held_bytes.get(), lost_down(&out))
    };
    let (ordered, held_bytes, lost) = held("ordered");
    assert!(ordered && held_bytes > 5_000 && lost < 5, "{held_bytes} {lost}");
    let (ordered, held_bytes, lost) = held("nb");
    assert!(!ordered && held_bytes == 0 && lost < 5, "{held_bytes} {lost}");
}

/// After the last packet nothing shows its loss but dummy packets.
#[test]
fn dummy_packets_recover_the_last_packets() {
    let spec = one_link(300_000_000);
    let lost = |dummies: f64| {
        // One packet alone every 50 ms.
        let sends: Vec<_> = (0..2000).map(|n| (n * 50 * MS, 0, 1000)).collect();
        lost_down(&run(&spec, &options(&[("dummies", dummies), ("copies", 2.0)]), "linkguardian", &sends, 0).0)
    };
    let (without, with) = (lost(0.0), lost(3.0));
    assert!(without > 200 && with < 60, "{without} {with}");
}

/// At a handover the old port's copies are lost with it: there is no migration.
#[test]
fn copies_do_not_follow_a_handover() {
    let spec = two_satellites(0, &[(500, 50), (500, 50)], migrating, false);
    let (out, overhead) = run(&spec, &OptionValues::new(), "linkguardian", &steady(4000), 0);
    let lost = 4000 - delivered(&out);
    assert!(lost > 10, "{lost} {overhead:?}");
    assert_eq!(overhead.unwrap().migrated.get(), 0);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// Whatever is lost and whichever handovers come: each packet of a host leaves once, and lateness of the driver changes nothing.
    #[test]
    fn packets_leave_once(
        loss in 0_u64..500_000_000, gaps in prop::collection::vec((1_u64..120, 0_u64..150), 0..6), shared in any::<bool>(), ordered in any::<bool>(),
        sends in prop::collection::vec((0_u64..400 * MS, 0_u32..3, 60_u32..1500), 1..300), late in 1_u64..5 * MS,
    ) {
        let spec = two_satellites(loss, &gaps, migrating, shared);
        let given = [("mode".to_owned(), (if ordered { "ordered" } else { "nb" }).into())].into();
        let sorted = |mut out: Vec<(Outcome, Packet)>| {
            out.sort_by_key(|(_, packet)| packet.body);
            out
        };
        let out = sorted(run(&spec, &given, "linkguardian", &sends, 0).0);
        prop_assert_eq!(out.iter().map(|(_, packet)| packet.body as usize).collect::<Vec<_>>(), (0..sends.len()).collect::<Vec<_>>());
        prop_assert!(out.iter().all(|(_, packet)| packet.role == Role::Host && packet.at >= packet.entered));
        prop_assert_eq!(out, sorted(run(&spec, &given, "linkguardian", &sends, late).0));
    }
}
