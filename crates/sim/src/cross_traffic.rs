//! The flows of cross traffic: each opens when its transfer begins and is removed when all its bytes were delivered.

use crate::error::SimError;
use crate::flow::Flow;
use bentpipe_profile::cross::Arrivals;
use bentpipe_profile::experiment::{Application, EcnMode, Experiment, FlowSpec};
use bentpipe_profile::run::CrossSummary;
use bentpipe_profile::{Nanos, Profile, Streams, Time};
use std::sync::Arc;

/// One cross-traffic source of an Experiment. Its next transfer already stands among the flows, waiting for its start time.
pub struct Source {
    arrivals: Arrivals,
    spec: FlowSpec,
    path: usize,
    streams: Streams,
    /// Index of the flow that starts next; `usize::MAX`: none.
    pub next_flow: usize,
    summary: CrossSummary,
    /// Sum of the durations of completed transfers [s].
    completed_total_s: f64,
}

impl Source {
    /// Create source number `index` of the Experiment.
    #[must_use]
    pub fn new(index: usize, experiment: &Experiment) -> Self {
        let cross = &experiment.cross[index];
        let streams = Streams::new(experiment.seed);
        Self {
            arrivals: cross.arrivals(&index.to_string(), streams),
            spec: FlowSpec {
                profile: cross.profile.clone(),
                direction: cross.direction,
                controller: cross.controller.clone(),
                options: cross.options.clone(),
                start_ns: Time::ZERO,
                stop_ns: None,
                application: Application::Bulk, // `next_transfer` sets the size of each transfer
                sender: cross.sender.clone(),
                receiver: cross.receiver.clone(),
                ecn: EcnMode::Off,
            },
            path: experiment.path_of(&cross.profile),
            streams: streams.child(&format!("cross/{index}")),
            next_flow: usize::MAX,
            completed_total_s: 0.0,
            summary: CrossSummary { controller: cross.controller.clone(), direction: cross.direction.name(), ..CrossSummary::default() },
        }
    }

    /// Return the next transfer as a flow that has not started; `None` if no more start before the run ends.
    ///
    /// # Errors
    /// An unknown controller or option.
    pub fn next_transfer(&mut self, experiment: &Experiment, profiles: &[Arc<Profile>], offset: Time) -> Result<Option<Flow>, SimError> {
        let Some((at, size)) = self.arrivals.next().filter(|(at, _)| at.0 < experiment.duration_ns.0) else {
            self.next_flow = usize::MAX;
            return Ok(None);
        };
        self.summary.transfers += 1;
        self.summary.offered_bytes += size.0;
        let spec = FlowSpec { start_ns: at, application: Application::Bytes(size), ..self.spec.clone() };
        let streams = self.streams.child(&self.summary.transfers.to_string());
        Flow::new(streams, self.path, &spec, experiment, &profiles[self.path], offset, &|_, _, _| None).map(Some)
    }

    /// Add a transfer to the summary when it is removed: it is complete, or the run is over.
    pub fn record_transfer(&mut self, flow: &Flow) {
        self.summary.delivered_bytes += flow.delivered().0;
        if let Some(completed) = flow.completed {
            self.summary.completed += 1;
            self.completed_total_s += completed.since(flow.start).as_secs_f64();
        }
    }

    /// Return the summary; `run_duration` covers the whole run.
    #[must_use]
    pub fn finish(mut self, run_duration: Nanos) -> CrossSummary {
        let summary = &mut self.summary;
        summary.goodput_bps = summary.delivered_bytes as f64 * 8.0 / run_duration.as_secs_f64();
        summary.mean_s = (summary.completed > 0).then(|| self.completed_total_s / summary.completed as f64);
        self.summary
    }
}
