//! Tests of Profiles whose paths go over inter-satellite links.

use super::tests::{ground, make, schedule};
use super::*;
use crate::frames::LIGHT_KM_S;
use crate::schedule::Relay;
use bentpipe_profile::Direction;
use bentpipe_profile::series::Cursor;
use proptest::prelude::*;

/// Put relays behind the serving satellites of a schedule; slots beyond the list keep none.
fn over_lasers(mut schedule: ServingSchedule, relays: &[&[u64]]) -> ServingSchedule {
    for (slot, relays) in schedule.slots.iter_mut().zip(relays) {
        let Some(serving) = &mut slot.serving else { continue };
        let n = serving.user_leg_km.len();
        let relay = |&norad_id: &u64| Relay {
            norad_id,
            name: format!("TEST-{norad_id}"),
            link_km: (0..n).map(|i| 1900.0 + norad_id as f64 + 0.5 * i as f64).collect(),
        };
        serving.relays = relays.iter().map(relay).collect();
    }
    schedule
}

#[test]
fn every_laser_is_a_hop_and_belongs_to_the_rest_of_its_chain() {
    let serving = [Some((1, "A")), Some((1, "A")), Some((2, "A")), Some((2, "A")), Some((3, "B")), Some((1, "A"))];
    let s = over_lasers(schedule(7_000_000_000, &serving), &[&[8, 9], &[8, 9], &[8, 9], &[8], &[8, 9], &[]]);
    let p = make(&s, 1);
    let routes: Vec<Vec<&str>> = p.routes().iter().map(|r| r.hops.iter().map(|&hop| p.hops()[hop].name.as_str()).collect()).collect();
    assert_eq!(
        routes,
        [
            vec!["sat:1", "isl:1-8", "isl:8-9", "feeder:9", "gateway:A", "pop:SEA"],
            vec!["sat:2", "isl:2-8", "isl:8-9", "feeder:9", "gateway:A", "pop:SEA"],
            vec!["sat:2@A", "isl:2-8@A", "feeder:8", "gateway:A", "pop:SEA"],
            vec!["sat:3", "isl:3-8", "isl:8-9@B", "feeder:9@B", "gateway:B", "pop:SEA"],
            vec!["sat:1@A", "gateway:A", "pop:SEA"],
        ]
    );
    // After two routes part they meet once and stay together.
    for pair in p.routes().windows(2) {
        let (old, new) = (&pair[0].hops, &pair[1].hops);
        let common = old.iter().filter(|hop| new.contains(hop)).count();
        assert_eq!(old[old.len() - common..], new[new.len() - common..]);
    }
    assert!(p.provenance().description.contains("5 of them over inter-satellite links"));
    let again = reseed(&p, 1).unwrap();
    assert_eq!(again.content_hash(), p.content_hash(), "the recipe keeps the relays");
    assert_eq!(p.events().len(), 5);
    let migrations = p.events().iter().filter(|e| matches!(e.up.queue, QueueFate::Migrate(_))).count();
    assert_eq!(migrations, 4, "every change of the chain moves the queue");
}

#[test]
fn impossible_lasers_are_refused() {
    let broken = |change: fn(&mut Relay)| {
        let mut s = over_lasers(schedule(7_000_000_000, &[Some((1, "A")), Some((1, "A"))]), &[&[8], &[8]]);
        change(&mut s.slots[1].serving.as_mut().unwrap().relays[0]);
        build("p", &s, &ground(), &AccessParams::default(), None, 1).unwrap_err().to_string()
    };
    assert!(broken(|relay| relay.link_km.truncate(3)).contains("slot 1, satellite 1: 3 lengths of a link"));
    assert!(broken(|relay| relay.link_km[2] = 0.0).contains("expected ranges above 0"));
    assert!(broken(|relay| relay.link_km[2] = f64::NAN).contains("expected ranges above 0"));
}

proptest! {
    /// The delay of the links is the length of the chain behind the user link, at any time.
    #[test]
    fn the_delay_is_the_sum_of_the_legs(relays in prop::collection::vec(4_u64..90, 1..9), at in 0_u64..36_000_000_000) {
        let serving = [Some((1, "A")), Some((2, "B")), Some((1, "A")), Some((3, "A"))];
        let mut relays = relays;
        relays.sort_unstable();
        relays.dedup();
        let mut params = AccessParams::default();
        params.delay.site_offset_ms = 0.0;
        let s = over_lasers(schedule(7_000_000_000, &serving), &[&relays, &relays[..1], &relays, &relays[1..]]);
        let p = build("p", &s, &ground(), &params, None, 1).unwrap();
        let at = Time(at);
        let slot = s.slots.iter().find(|slot| at.0 < slot.end_ns).unwrap();
        let served = slot.serving.as_ref().unwrap();
        let since_s = (at.0 - slot.start_ns) as f64 / 1e9;
        let line = |km: &[f64]| {
            let last_s = (slot.end_ns - slot.start_ns) as f64 / 1e9;
            let times: Vec<f64> = (0..km.len()).map(|i| (i as f64).min(last_s)).collect();
            let i = times.partition_point(|&t| t <= since_s).clamp(1, km.len() - 1);
            km[i - 1] + (km[i] - km[i - 1]) * (since_s - times[i - 1]) / (times[i] - times[i - 1])
        };
        let km = line(&served.user_leg_km) + served.relays.iter().map(|r| line(&r.link_km)).sum::<f64>() + line(&served.gateway_leg_km);
        let leg = ground().leg(&served.gateway).unwrap().clone();
        let expected_ns = km / LIGHT_KM_S * 1e9 + (leg.gateway_pop_ns + leg.pop_server_ns) as f64;
        let route = p.routes().iter().rev().find(|route| route.at_ns <= at).unwrap();
        let delay_ns: u64 = route.hops.iter().map(|&hop| p.hops()[hop].side(Direction::Down).delay.at(&mut Cursor::default(), at)).sum();
        prop_assert!((delay_ns as f64 - expected_ns).abs() <= route.hops.len() as f64, "{} {}", delay_ns, expected_ns);
    }
}
