//! A streaming code at the hosts.

use crate::RunData;
use crate::simulation::Simulation;
use crate::testing::{experiment, flow, handover_path, interrupted_path};
use bentpipe_profile::app::{AppSpec, CallSpec};
use bentpipe_profile::experiment::{Experiment, RecoverySpec};
use bentpipe_profile::options::OptionValues;
use bentpipe_profile::{Bytes, Direction, Nanos, Profile};
use std::sync::Arc;

fn run(path: &Arc<Profile>, app: &AppSpec, scheme: &str, options: &[(&str, f64)], slice: Nanos) -> RunData {
    let options: OptionValues = options.iter().map(|(name, value)| ((*name).to_owned(), (*value).into())).collect();
    let recovery = Some(RecoverySpec { scheme: scheme.to_owned(), options });
    let experiment = Experiment { recovery, ..experiment(20, 7, vec![flow("cubic", Direction::Down, app.clone())]) };
    let mut simulation = Simulation::new(experiment, vec![path.clone()]).expect("a valid experiment");
    let mut until = slice;
    while simulation.run_until(until).unwrap() {
        until += slice;
    }
    simulation.finish()
}

fn counter(data: &RunData, name: &str) -> u64 {
    let overhead = &data.summary.recovery.as_ref().expect("a Run with recovery").overhead;
    *overhead.iter().find(|(key, _)| *key == name).expect("this counter exists").1
}

/// Two Mbit/s in messages: far below what the path carries.
fn paced() -> AppSpec {
    AppSpec::Paced { write_bytes: Bytes(5000), every_ns: Nanos::from_millis(20) }
}

const WHOLE: Nanos = Nanos::from_secs(3600);

#[test]
fn single_losses_are_decoded_without_a_retransmission() {
    let path = handover_path(20, 20_000_000); // 2 % on each hop
    let none = run(&path, &paced(), "none", &[], WHOLE);
    let coded = run(&path, &paced(), "tambur", &[("share", 0.5)], WHOLE);
    let decoded = counter(&coded, "decoded");
    assert!(decoded > 40, "{decoded}");
    let owd_p99 = |data: &RunData| data.summary.flows[0].owd_p99_ms.expect("data arrived");
    assert!(owd_p99(&coded) < owd_p99(&none) - 5.0, "{} against {}", owd_p99(&coded), owd_p99(&none));
    let [without, with] = [&none, &coded].map(|data| data.summary.flows[0].app.clone().expect("messages"));
    assert!(with.completed + 3 >= without.completed, "{with:?} {without:?}");
}

#[test]
fn without_loss_there_are_reports_and_no_parities() {
    let data = run(&interrupted_path(20, [18, 19], vec![]), &paced(), "tambur", &[], WHOLE);
    assert_eq!(counter(&data, "decoded"), 0);
    // One report of 48 bytes each two seconds.
    assert_eq!(counter(&data, "control_bytes"), 9 * 48);
    assert_eq!(counter(&data, "header_bytes"), 18 * counter(&data, "protected"));
}

#[test]
fn feedback_begins_parities_after_a_loss_and_a_fixed_share_needs_none() {
    let path = handover_path(20, 5_000_000);
    let by_feedback = counter(&run(&path, &paced(), "tambur", &[], WHOLE), "control_bytes");
    let half = counter(&run(&path, &paced(), "tambur", &[("share", 0.5)], WHOLE), "control_bytes");
    let quarter = counter(&run(&path, &paced(), "tambur", &[("share", 0.25)], WHOLE), "control_bytes");
    assert!(quarter < half && by_feedback < half && by_feedback > half / 2, "{by_feedback} {quarter} {half}");
}

#[test]
fn frames_of_a_call_are_decoded() {
    let path = handover_path(20, 5_000_000);
    let data = run(&path, &AppSpec::Call(CallSpec::default()), "tambur", &[("share", 0.5)], WHOLE);
    assert!(counter(&data, "decoded") > 10);
    assert!(data.summary.flows[0].owd_p50_ms.is_some_and(|ms| ms > 15.0));
}

#[test]
fn a_coded_run_does_not_depend_on_its_slices() {
    let path = handover_path(20, 5_000_000);
    let hash = |slice| run(&path, &AppSpec::Bulk, "tambur", &[], slice).content_hash();
    assert_eq!(hash(WHOLE), hash(Nanos::from_millis(37)));
}
