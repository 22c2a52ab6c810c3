//! The Experiment that describes an emulation, and the results of a race's flows.

use crate::flows::Span;
use crate::race::{self, Progress};
use crate::result::FlowResult;
use crate::sampler::{ObservedFlow, Sampler};
use crate::spec::Spec;
use bentpipe_profile::experiment::{Experiment, FlowSpec, HostTiming, ProfileRef};
use bentpipe_profile::run::{AppSummary, Applications};
use bentpipe_profile::{Nanos, Profile, Time};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Results of the race's flows. The relay numbers flows by first packet; the ports identify them.
pub fn race_results(
    experiment: &Experiment,
    progress: &[Arc<Progress>],
    items: &Applications,
    sampler: &Sampler,
    start: Time,
) -> Vec<FlowResult> {
    let index_of = |seen: &ObservedFlow| {
        let ports = [seen.key.client.port(), seen.key.server.port()];
        let index = ports.into_iter().filter_map(|p| p.checked_sub(race::FIRST_PORT)).map(usize::from);
        index.filter(|&i| i < experiment.flows.len()).min()
    };
    let seen: BTreeMap<usize, (u32, &ObservedFlow)> =
        sampler.observed().iter().filter_map(|(&number, seen)| Some((index_of(seen)?, (number, seen)))).collect();
    let apps = AppSummary::of(items, experiment.flows.len());
    let flows = experiment.flows.iter().zip(progress).zip(apps).enumerate().map(|(index, ((flow, progress), app))| {
        let seen = seen.get(&index);
        FlowResult {
            number: seen.map(|(number, _)| *number),
            start: start + Nanos(flow.start_ns.0),
            stop: flow.stop_ns.map_or(Time::MAX, |stop| start + Nanos(stop.0)),
            completed: progress.completed(),
            delivered_bytes: progress.received_bytes(),
            is_complete: true,
            retransmits: seen.map_or(0, |(_, s)| s.retransmits),
            marks: seen.map_or(0, |(_, s)| s.marks),
            app,
        }
    });
    flows.collect()
}

/// Largest delay between a flow's start time and its first packet at the path [ms].
pub fn start_late_max_ms(flows: &[FlowResult], spans: &[Span]) -> Option<f64> {
    let first = |flow: &FlowResult| Some(spans.get(flow.number? as usize)?.first.since(flow.start).as_secs_f64() * 1e3);
    flows.iter().filter_map(first).reduce(f64::max)
}

/// The Experiment that describes a program's flows from `during.0` to `during.1`.
pub fn program_experiment(spec: &Spec, profile: &Profile, during: (Time, Time), flows: Vec<FlowSpec>) -> Experiment {
    let (start, end) = during;
    Experiment {
        name: "program".to_owned(),
        seed: spec.seed,
        duration_ns: end.since(start),
        warmup_ns: Nanos(0),
        sample_step_ns: spec.sample_step_ns,
        offset_ns: Nanos(start.0),
        profiles: vec![ProfileRef { role: spec.role.clone(), name: profile.name().to_owned(), hash: profile.content_hash() }],
        host_timing: HostTiming::default(),
        hosts: BTreeMap::new(),
        flows,
        queues: spec.queues.clone(),
        cross: Vec::new(),
    }
}
