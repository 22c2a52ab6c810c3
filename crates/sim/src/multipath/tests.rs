//! Properties of whole runs.

use super::spec::{PathOutlook, SchedulerKind, Write};
use super::{MultipathData, MultipathSpec, simulate};
use crate::simulation::Simulation;
use crate::testing::{experiment, flow, handover_path, interrupted_path, outage};
use bentpipe_profile::app::AppSpec;
use bentpipe_profile::{Bytes, Direction, Nanos, Profile, Time};
use std::sync::Arc;

const ALL: [SchedulerKind; 4] = [SchedulerKind::MinRtt, SchedulerKind::RoundRobin, SchedulerKind::Linger, SchedulerKind::Forecast];

fn spec(scheduler: SchedulerKind, writes: Vec<Write>, paths: usize) -> MultipathSpec {
    MultipathSpec {
        scheduler,
        controller: "cubic".to_owned(),
        seed: 1,
        direction: Direction::Down,
        start_ns: Time(0),
        duration_ns: Nanos::from_secs(10),
        writes,
        receive_buffer_bytes: Bytes(6_000_000),
        outlooks: vec![None; paths],
    }
}

fn paced() -> Vec<Write> {
    (0..400).map(|n| Write { at_ns: Nanos::from_millis(1000 + 20 * n), bytes: Bytes(5000) }).collect()
}

fn mbps(data: &MultipathData) -> f64 {
    (data.delivered[98].0.0 - data.delivered[18].0.0) as f64 * 8e-6 / 8.0
}

fn goodput(scheduler: SchedulerKind, profiles: &[Arc<Profile>]) -> f64 {
    mbps(&simulate(spec(scheduler, vec![], profiles.len()), profiles).unwrap())
}

#[test]
fn two_paths_carry_more_than_one() {
    // 20 Mbit/s, then 30 from 5 s on.
    let alone = goodput(SchedulerKind::MinRtt, &[handover_path(10, 0)]);
    assert!((18.0..26.0).contains(&alone), "{alone}");
    for scheduler in ALL {
        let both = goodput(scheduler, &[handover_path(10, 0), handover_path(10, 0)]);
        assert!(both > 1.7 * alone, "{scheduler:?}: {both} and {alone}");
    }
}

#[test]
fn all_data_arrives_in_order_with_losses_on_both_paths() {
    for scheduler in ALL {
        let data = simulate(spec(scheduler, paced(), 2), &[handover_path(10, 10_000_000), handover_path(10, 10_000_000)]).unwrap();
        assert!(data.completed.iter().all(Option::is_some), "{scheduler:?}");
        assert!(data.completed.is_sorted(), "{scheduler:?}");
    }
}

#[test]
fn a_run_is_the_same_every_time() {
    let run = || simulate(spec(SchedulerKind::RoundRobin, vec![], 2), &[handover_path(10, 1_000_000), handover_path(10, 0)]).unwrap();
    assert_eq!(run(), run());
}

#[test]
fn a_known_interruption_delays_nothing() {
    // The first path sends nothing from 4 to 6 s; it is shorter than the second, so that the default uses it.
    let short = interrupted_path(10, [9, 10], vec![outage([4, 6])]);
    let long = handover_path(10, 0);
    let late = |data: &MultipathData| {
        let delays = data.completed.iter().zip(paced()).map(|(at, write)| at.map_or(u64::MAX, |at| at.0 - write.at_ns.0));
        Nanos(delays.take(380).max().unwrap()).as_millis_f64()
    };
    let known = PathOutlook { rtts_ns: vec![], interruptions_ns: vec![(Time(3_990_000_000), Time(6_000_000_000))] };
    let mut spec = spec(SchedulerKind::Forecast, paced(), 2);
    let unknown = late(&simulate(spec.clone(), &[short.clone(), long.clone()]).unwrap());
    spec.outlooks[0] = Some(known);
    let avoided = late(&simulate(spec, &[short, long]).unwrap());
    assert!(unknown > 200.0 && avoided < 80.0, "{unknown} and {avoided} ms");
}

#[test]
fn fields_out_of_range_are_refused() {
    let path = [handover_path(10, 0)];
    let long = MultipathSpec { duration_ns: Nanos::from_secs(11), ..spec(SchedulerKind::MinRtt, vec![], 1) };
    assert!(simulate(long, &path).unwrap_err().to_string().contains("shortest Profile"));
    assert!(simulate(spec(SchedulerKind::MinRtt, vec![], 2), &path).is_err());
    let unknown = MultipathSpec { controller: "tahoe".to_owned(), ..spec(SchedulerKind::MinRtt, vec![], 1) };
    assert!(simulate(unknown, &path).is_err());
}

#[test]
fn one_subflow_does_as_well_as_a_flow() {
    let flows = vec![flow("cubic", Direction::Down, AppSpec::Bulk)];
    let mut simulation = Simulation::new(experiment(10, 1, flows), vec![handover_path(10, 0)]).unwrap();
    while simulation.run_until(Nanos::from_secs(10)).unwrap() {}
    let flow = simulation.finish().tables.samples.goodput_bytes;
    let data = simulate(spec(SchedulerKind::MinRtt, vec![], 1), &[handover_path(10, 0)]).unwrap();
    // MPTCP's options are 1.4 % of a packet.
    let ratio = data.delivered[98].0.0 as f64 / flow[98] as f64;
    assert!((0.975..0.995).contains(&ratio), "{ratio}");
}
