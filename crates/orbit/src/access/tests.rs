//! Tests of whole Profiles, over artificial passes.

use super::*;
use crate::access::ground::{Fibre, GroundLeg};
use crate::access::origin::{GatewayPlace, GatewaySource, SatelliteSource};
use crate::site::Site;
use bentpipe_profile::Direction;
use bentpipe_profile::series::Cursor;
use proptest::prelude::*;

const SLOT: u64 = 15_000_000_000;
/// A Tuesday; 12 s past the minute.
const EDGE: i64 = 1_734_544_812_000_000_000;

/// Build a schedule that starts `lead_ns` before the edge [`EDGE`]. `serving[k]`: satellite and gateway of slot k.
pub(super) fn schedule(lead_ns: u64, serving: &[Option<(u64, &str)>]) -> ServingSchedule {
    let duration_ns = lead_ns + SLOT * (serving.len() as u64 - 1);
    let slots = serving.iter().enumerate().map(|(k, serving)| {
        let start_ns = if k == 0 { 0 } else { lead_ns + SLOT * (k as u64 - 1) };
        let end_ns = lead_ns + SLOT * k as u64;
        let serving = serving.map(|(norad_id, gateway)| {
            let step = 1_000_000_000;
            let n = usize::try_from((end_ns - start_ns).div_ceil(step)).unwrap() + 1;
            Serving {
                norad_id,
                name: format!("TEST-{norad_id}"),
                gateway: gateway.to_owned(),
                relays: Vec::new(),
                sample_step_ns: step,
                user_leg_km: (0..n).map(|i| 640.0 + norad_id as f64 + 3.0 * i as f64).collect(),
                gateway_leg_km: (0..n).map(|i| 900.0 - 2.0 * i as f64).collect(),
                elevation_deg: vec![58.0; n],
                azimuth_deg: vec![10.0; n],
                sunlit: true,
            }
        });
        ServingSlot { start_ns, end_ns, serving, candidates: 20 }
    });
    ServingSchedule {
        start_unix_ns: EDGE - lead_ns.cast_signed(),
        duration_ns,
        slot_period_ns: SLOT,
        slot_phase_ns: 12_000_000_000,
        site: Site::new(48.46, -123.31, 0.0).unwrap(),
        track: Vec::new(),
        min_elevation_deg: 25.0,
        policy: "test".to_owned(),
        slots: slots.collect(),
    }
}

pub(super) fn ground() -> Ground {
    let leg = |gateway_pop_ns| GroundLeg {
        pop: "SEA".to_owned(),
        gateway_pop_ns,
        pop_server_ns: 250_000,
        gateway_pop_fibre: Fibre::default(),
        pop_server_fibre: Fibre { basis: "table".to_owned(), detail: "A - B".to_owned() },
    };
    Ground { server: "test".to_owned(), gateways: [("A".to_owned(), leg(400_000)), ("B".to_owned(), leg(900_000))].into() }
}

fn origin() -> Origin {
    Origin {
        satellites: SatelliteSource::Elements {
            file: "e.tle".to_owned(),
            sha256: "00".to_owned(),
            satellites: 3,
            superseded: 0,
            first_epoch_unix_ns: EDGE,
            last_epoch_unix_ns: EDGE + 1,
        },
        gateways: Some(GatewaySource {
            file: "own.toml".to_owned(),
            sha256: "11".to_owned(),
            source: "a test".to_owned(),
            listed: 2,
            in_reach: vec![GatewayPlace { name: "A".to_owned(), lat_deg: -1.5, lon_deg: 36.5 }],
        }),
        gateway_min_elevation_deg: 25.0,
        gso_exclusion_deg: 18.0,
        isl: None,
        schedule_seed: 1,
    }
}

pub(super) fn make(schedule: &ServingSchedule, seed: u64) -> Profile {
    build("p", schedule, &ground(), &AccessParams::default(), Some(&origin()), seed).unwrap()
}

fn usual() -> Vec<Option<(u64, &'static str)>> {
    vec![Some((1, "A")), Some((1, "A")), Some((2, "A")), Some((2, "B")), None, None, Some((1, "A")), Some((3, "B"))]
}

#[test]
fn hops_routes_and_events_follow_the_schedule() {
    let p = make(&schedule(7_000_000_000, &usual()), 1);
    let names: Vec<_> = p.hops().iter().map(|h| h.name.as_str()).collect();
    assert_eq!(names, ["sat:1", "sat:2", "sat:2@B", "sat:3", "gateway:A", "pop:SEA", "gateway:B"]);
    let routes: Vec<_> = p.routes().iter().map(|r| (r.at_ns.0 / 1_000_000_000, r.hops.clone())).collect();
    assert_eq!(
        routes,
        [(0, vec![0, 4, 5]), (22, vec![1, 4, 5]), (37, vec![2, 6, 5]), (52, vec![]), (82, vec![0, 4, 5]), (97, vec![3, 6, 5])]
    );
    let kinds: Vec<_> = p
        .events()
        .iter()
        .map(|e| match &e.kind {
            EventKind::Handover { from_satellite, to_satellite, to_hop, .. } => {
                format!(
                    "{} {}>{} {}>{to_hop}",
                    e.at_ns.0 / 1_000_000_000,
                    from_satellite.as_deref().unwrap_or("-"),
                    to_satellite.as_deref().unwrap_or("-"),
                    e.hop
                )
            }
            kind => format!("{} {kind:?} {} for {}", e.at_ns.0 / 1_000_000_000, e.hop, e.interruption_ns.0 / 1_000_000_000),
        })
        .collect();
    assert_eq!(kinds, ["7 1>1 0>0", "22 1>2 0>1", "37 2>2 1>2", "52 Outage 2 for 30", "82 ->1 0>0", "97 1>3 0>3"]);
    assert!(p.events().iter().all(|e| e.interruption_ns.0 > 10_000_000));
    assert!(p.lone_packet_delays_ms(Direction::Up, &[60.0]).unwrap()[0].is_nan());
    // The series has a gap: satellite 1 is not in use from 22 to 82 s.
    let valid = p.hops()[0].up.delay.valid_intervals(p.duration());
    assert_eq!(
        valid.iter().map(|v| (v.0.0, v.1.0)).collect::<Vec<_>>(),
        [(0, 22 * 1_000_000_000), (82 * 1_000_000_000, 97 * 1_000_000_000)]
    );
}

/// Waiting packets migrate to the next hop and leave when its interruption ends. The old hop sends no more.
#[test]
fn queues_migrate_to_the_new_satellite() {
    let p = make(&schedule(7_000_000_000, &usual()), 1);
    let (mut migrated, mut kept) = (0, 0);
    for event in p.events() {
        let EventKind::Handover { to_hop, .. } = event.kind else { continue };
        for fate in [event.up, event.down] {
            assert_eq!((fate.in_flight, fate.order), (Fate::LOSSLESS.in_flight, Fate::LOSSLESS.order));
            match fate.queue {
                QueueFate::Migrate(migration) => {
                    assert_ne!(event.hop, to_hop);
                    assert_eq!((migration.to_hop, migration.delay_ns), (to_hop, Nanos::ZERO));
                    migrated += 1;
                }
                other => {
                    assert_eq!((event.hop, other), (to_hop, QueueFate::Keep));
                    kept += 1;
                }
            }
        }
    }
    assert_eq!((migrated, kept), (6, 4));
    let max_mbps = AccessParams::default().capacity.down.most_mbps;
    assert!(MIGRATION_RATE.0 as f64 > max_mbps * 1e6, "migration must not be slower than transmission");
}

/// If every reconfiguration has its episodes, packets pass in most of them. Packets pass at the ends of closures, and an episode of a few milliseconds
/// may fall between two. If no reconfiguration has one, no packet is lost at an edge.
#[test]
fn episodes_at_reconfigurations_drop_packets_before_and_after() {
    let who = [Some((1, "A")), Some((1, "A")), Some((2, "A")), Some((3, "A")), Some((2, "B")), Some((2, "B"))];
    let mut params = AccessParams::default();
    (params.loss.up.episodes_per_s, params.loss.down.episodes_per_s) = (0.0, 0.0);
    let (mut edges, mut before, mut after) = (0, 0, 0);
    for (seed, probability) in (0..20).flat_map(|seed| [(seed, 0.0), (seed, 1.0)]) {
        params.loss.reconfiguration_probability = probability;
        let p = build("p", &schedule(7_000_000_000, &who), &ground(), &params, None, seed).unwrap();
        for event in p.events() {
            let EventKind::Handover { to_hop, .. } = event.kind else { continue };
            for direction in Direction::BOTH {
                let jitter = p.hops()[to_hop].side(direction).jitter.as_ref().unwrap();
                let open = jitter.closures().map(|(from, length)| from + length).find(|&at| at > event.at_ns).unwrap();
                let lossy = |hop: usize, at| p.hops()[hop].side(direction).loss.as_ref().unwrap().at(&mut Cursor::default(), at) > 0;
                let ends =
                    |hop: usize| p.hops()[hop].side(direction).jitter.as_ref().unwrap().closures().map(|(from, length)| from + length);
                let lossy_edge = probability > 0.0;
                assert_eq!((lossy(event.hop, Time(event.at_ns.0 - 1)), lossy(to_hop, open)), (lossy_edge, lossy_edge));
                if lossy_edge {
                    edges += 1;
                    before += u32::from(ends(event.hop).filter(|&at| at < event.at_ns).last().is_some_and(|at| lossy(event.hop, at)));
                    after += u32::from(ends(to_hop).find(|&at| at > open).is_some_and(|at| lossy(to_hop, at)));
                }
            }
        }
    }
    assert!(edges == 200 && before >= 120 && after >= 120, "{before} and {after} of {edges}");
}

#[test]
fn a_hop_has_no_episode_after_it_is_left() {
    // Continuous episodes: all are cut at a slot's end.
    let mut params = AccessParams::default();
    params.loss.length_median_ms = 10_000.0;
    params.loss.up.episodes_per_s = 2.0;
    params.loss.down.episodes_per_s = 2.0;
    let s = schedule(7_000_000_000, &usual());
    let p = build("p", &s, &ground(), &params, None, 1).unwrap();
    let mut lossy = 0;
    for (hop, last_s) in [(0, 97), (1, 37), (2, 52), (3, 112)] {
        for direction in Direction::BOTH {
            let loss = |ns: u64| p.hops()[hop].side(direction).loss.as_ref().unwrap().at(&mut Cursor::default(), Time(ns));
            let end = last_s * 1_000_000_000;
            assert_eq!((loss(end), loss(end + SLOT)), (0, 0), "hop {hop}");
            lossy += u32::from(loss(end - 1) > 0);
        }
    }
    assert!(lossy >= 6, "{lossy}");
    // Also between its two passes.
    let up = p.hops()[0].up.loss.as_ref().unwrap();
    assert_eq!(up.at(&mut Cursor::default(), Time(60_000_000_000)), 0);
}

/// `race` reseeds Profiles during a run, which must give the same result on every machine, so this module must not use the host's libm. (Clippy's list of
/// disallowed methods applies to a whole crate, and the other modules may use it.)
#[test]
fn the_access_model_does_not_use_the_host_libm() {
    let names = "sin cos tan asin acos atan atan2 sin_cos sinh cosh tanh exp exp2 exp_m1 ln ln_1p log log2 log10 powf powi cbrt hypot";
    let mut files = 0;
    for entry in std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/src/access")).unwrap() {
        let path = entry.unwrap().path();
        let text = std::fs::read_to_string(&path).unwrap();
        for name in names.split(' ') {
            for call in [format!(".{name}("), format!("f64::{name}")] {
                let line = text.lines().position(|line| line.contains(&call));
                assert!(line.is_none(), "{}:{}: {call}; expected libm", path.display(), line.unwrap_or(0) + 1);
            }
        }
        files += 1;
    }
    assert!(files >= 15, "{files} files");
}

#[test]
fn a_schedule_without_satellites_is_one_outage() {
    let p = make(&schedule(15_000_000_000, &[None, None]), 1);
    assert_eq!(p.events().len(), 1);
    assert_eq!(p.events()[0].interruption_ns, p.duration());
    assert!(p.lone_packet_delays_ms(Direction::Down, &[3.0]).unwrap()[0].is_nan());
}

#[test]
fn the_minimum_delay_is_propagation_fibre_and_the_site_offset() {
    let s = schedule(15_000_000_000, &[Some((1, "A")), Some((1, "A"))]);
    let mut params = AccessParams::default();
    params.delay.grants =
        crate::access::params::GrantParams { up_wait_ms: 0.0, down_wait_ms: 0.0, period_weights: [1.0, 0.0, 0.0, 0.0, 0.0] };
    params.delay.queue.mean_ms = 0.0;
    params.delay.wander.mean_ms = 0.0;
    params.delay.queue.raised_probability = 0.0;
    params.delay.queue.hump_rate_per_s = 0.0;
    params.delay.wait_factor.edge_excess = 0.0;
    let p = build("p", &s, &ground(), &params, None, 1).unwrap();
    for direction in Direction::BOTH {
        // 641 + 900 km at the slot's start, 1 km more a second; 0.65 ms of fibre; half the offset; up to one frame of waiting.
        let at_s = 5.0;
        let base_ms = (1541.0 + at_s) / 299.792_458 + 0.65 + params.delay.site_offset_ms / 2.0;
        let delay_ms = p.lone_packet_delays_ms(direction, &[at_s]).unwrap()[0];
        assert!((-1e-3..=1e3 / 750.0 + 1e-3).contains(&(delay_ms - base_ms)), "{delay_ms} {base_ms}");
    }
}

#[test]
fn the_seed_determines_the_draws_and_not_the_geometry() {
    let s = schedule(7_000_000_000, &usual());
    let (one, two) = (make(&s, 1), make(&s, 2));
    assert_eq!(one, make(&s, 1));
    assert_ne!(one.hops(), two.hops());
    assert_eq!(reseed(&one, 2).unwrap(), two);
    assert_eq!(one.routes(), two.routes());
}

/// A reseeded Profile still states its satellites, the scheduling rules and the basis of its fibre delays.
#[test]
fn reseeding_keeps_the_origin_of_the_geometry() {
    let one = make(&schedule(7_000_000_000, &usual()), 1);
    for p in [&one, &reseed(&one, 9).unwrap()] {
        let recipe = &p.provenance().recipe;
        assert_eq!(serde_json::from_value::<Origin>(recipe["origin"].clone()).unwrap(), origin());
        assert_eq!(recipe["ground"]["gateways"]["A"]["pop_server_fibre"]["basis"], "table");
    }
}

#[test]
fn draws_do_not_depend_on_the_start_of_the_profile() {
    let who = [Some((1, "A")), Some((2, "A")), Some((1, "A"))];
    let (early, late) = (make(&schedule(9_000_000_000, &who), 3), make(&schedule(4_000_000_000, &who), 3));
    let shift = 5_000_000_000;
    let side = |p: &Profile| p.hops()[1].up.jitter.clone().unwrap();
    let shifted: Vec<_> = side(&late).closures().map(|(t, l)| (t + Nanos(shift), l)).collect();
    assert_eq!(side(&early).closures().collect::<Vec<_>>(), shifted);
    let capacity = |p: &Profile, at: u64| p.hops()[0].down.capacity.as_ref().unwrap().at(&mut Cursor::default(), Time(at));
    assert_eq!(capacity(&early, 8_950_000_000), capacity(&late, 3_950_000_000));
}

#[test]
fn a_profile_of_another_maker_cannot_be_reseeded() {
    let p = make(&schedule(15_000_000_000, &[Some((1, "A")), None]), 1);
    let mut provenance = p.provenance().clone();
    provenance.recipe = serde_json::Value::Null;
    let other = Profile::new(
        "q".to_owned(),
        p.start(),
        p.duration(),
        p.basis(),
        provenance,
        p.hops().to_vec(),
        p.routes().to_vec(),
        p.events().to_vec(),
    )
    .unwrap();
    let error = reseed(&other, 2).unwrap_err().to_string();
    assert!(error.contains("\"q\" was not made by the access model"), "{error}");
}

#[test]
fn invalid_schedules_are_refused() {
    let refused = |change: &dyn Fn(&mut ServingSchedule)| {
        let mut s = schedule(15_000_000_000, &[Some((1, "A")), Some((2, "A"))]);
        change(&mut s);
        build("p", &s, &ground(), &AccessParams::default(), None, 1).unwrap_err().to_string()
    };
    assert!(refused(&|s| s.slots[1].start_ns += 1).starts_with("schedule: slot 1 is from 15.000000001"));
    assert!(refused(&|s| s.slots.clear()).contains("expected slots in order"));
    assert!(refused(&|s| s.slots[0].serving.as_mut().unwrap().user_leg_km[1] = f64::NAN).contains("expected ranges above 0"));
    assert!(refused(&|s| s.slots[0].serving.as_mut().unwrap().elevation_deg.clear()).contains("0 elevations"));
    assert!(refused(&|s| s.slots[0].serving.as_mut().unwrap().gateway = "C".to_owned()).contains("no ground leg for gateway \"C\""));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// A dense flow and a sparse ping see the same process: without queues, packets of a flow leave in order of arrival.
    #[test]
    fn no_packet_overtakes_another_on_a_hop(seed in 0_u64..10_000, from_s in 0.0_f64..35.0) {
        let p = make(&schedule(7_000_000_000, &[Some((1, "A")), Some((1, "A")), Some((1, "A")), Some((1, "A"))]), seed);
        for direction in Direction::BOTH {
            let times: Vec<f64> = (0..40_000).map(|i| from_s + f64::from(i) * 1e-4).collect();
            let delays = p.lone_packet_delays_ms(direction, &times).unwrap();
            let out: Vec<f64> = times.iter().zip(&delays).map(|(t, d)| t * 1e3 + d).collect();
            // 2 ns: rounding of seconds to nanoseconds and of delays to integers.
            prop_assert!(out.windows(2).all(|w| w[1] >= w[0] - 2e-6));
        }
    }
}
