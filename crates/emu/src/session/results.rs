//! The Experiment that describes an emulation, and the results of a race's flows.

use super::numbers::Numbers;
use crate::flows::Span;
use crate::race::Progress;
use crate::result::FlowResult;
use crate::sampler::Sampler;
use crate::spec::Spec;
use bentpipe_profile::experiment::{Experiment, FlowSpec, HostTiming, ProfileRef};
use bentpipe_profile::run::{AppSummary, Applications, Header, PathHeader, ROW_FORMAT};
use bentpipe_profile::{Nanos, Profile, Time};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Results of the race's flows.
pub fn race_results(
    experiment: &Experiment,
    progress: &[Arc<Progress>],
    items: &Applications,
    sampler: &Sampler,
    start: Time,
) -> Vec<FlowResult> {
    let apps = AppSummary::of(items, experiment.flows.len());
    let flows = (0..).zip(&experiment.flows).zip(progress).zip(apps).map(|(((number, flow), progress), app)| {
        let seen = sampler.observed().get(&number);
        FlowResult {
            number: seen.map(|_| number),
            start: start + Nanos(flow.start_ns.0),
            stop: flow.stop_ns.map_or(Time::MAX, |stop| start + Nanos(stop.0)),
            completed: progress.completed(),
            delivered_bytes: progress.received_bytes(),
            is_complete: true,
            retransmits: seen.map_or(0, |s| s.retransmits),
            marks: seen.map_or(0, |s| s.marks),
            app,
        }
    });
    flows.collect()
}

/// Largest delay between a flow's start time and its first packet at the path [ms]. `spans`: by the relay's numbers.
pub fn start_late_max_ms(flows: &[FlowResult], spans: &[Span], numbers: &Numbers) -> Option<f64> {
    let spans: BTreeMap<u32, &Span> = (0..).zip(spans).map(|(relay, span)| (numbers.of(relay), span)).collect();
    let first = |flow: &FlowResult| Some(spans.get(&flow.number?)?.first.since(flow.start).as_secs_f64() * 1e3);
    flows.iter().filter_map(first).reduce(f64::max)
}

/// Name of the Experiment that describes a program's flows.
const PROGRAM: &str = "program";

/// The header of a program's rows.
pub fn program_header(spec: &Spec, profile: &Profile, start: Time) -> Header {
    Header {
        format: ROW_FORMAT,
        world: "emulated",
        experiment: PROGRAM.to_owned(),
        duration_s: None,
        sample_step_s: spec.sample_step_ns.as_secs_f64(),
        paths: vec![PathHeader::new(&spec.role, profile, start)],
    }
}

/// The Experiment that describes a program's flows from `during.0` to `during.1`.
pub fn program_experiment(spec: &Spec, profile: &Profile, during: (Time, Time), flows: Vec<FlowSpec>) -> Experiment {
    let (start, end) = during;
    Experiment {
        name: PROGRAM.to_owned(),
        seed: spec.seed,
        duration_ns: end.since(start),
        warmup_ns: Nanos(0),
        sample_step_ns: spec.sample_step_ns,
        offset_ns: Nanos(start.0),
        profiles: vec![ProfileRef {
            role: spec.role.clone(),
            name: profile.name().to_owned(),
            hash: profile.content_hash(),
            network: None,
        }],
        host_timing: HostTiming::default(),
        hosts: BTreeMap::new(),
        flows,
        queues: spec.queues.clone(),
        cross: Vec::new(),
        pings: Vec::new(),
        test: None,
        recovery: spec.recovery.clone(),
    }
}
