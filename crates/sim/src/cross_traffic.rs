//! The flows of cross traffic: each opens when its transfer begins and is let go when everything arrived.

use crate::error::SimError;
use crate::flow::Flow;
use bentpipe_profile::cross::Arrivals;
use bentpipe_profile::experiment::{Application, EcnMode, Experiment, FlowSpec};
use bentpipe_profile::run::CrossSummary;
use bentpipe_profile::{Nanos, Profile, Streams, Time};
use std::sync::Arc;

/// One source of an Experiment, with its newest transfer: that waits for its beginning among the flows, as every flow does.
pub struct Source {
    arrivals: Arrivals,
    spec: FlowSpec,
    path: usize,
    streams: Streams,
    /// Number of the flow that begins next.
    pub newest: usize,
    summary: CrossSummary,
    /// How long the complete ones took, together [s].
    took_s: f64,
}

impl Source {
    /// The source number `index` of the Experiment.
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
                application: Application::Bulk, // of each its own size: `next`
                sender: cross.sender.clone(),
                receiver: cross.receiver.clone(),
                ecn: EcnMode::Off,
            },
            path: experiment.path_of(&cross.profile),
            streams: streams.child(&format!("cross/{index}")),
            newest: usize::MAX,
            took_s: 0.0,
            summary: CrossSummary { controller: cross.controller.clone(), direction: cross.direction.name(), ..CrossSummary::default() },
        }
    }

    /// The next transfer as a flow, not begun yet; `None`: none begins before the run's end.
    ///
    /// # Errors
    /// An unknown controller or option.
    pub fn next(&mut self, experiment: &Experiment, profiles: &[Arc<Profile>], offset: Time) -> Result<Option<Flow>, SimError> {
        let Some((at, size)) = self.arrivals.next().filter(|(at, _)| at.0 < experiment.duration_ns.0) else {
            self.newest = usize::MAX;
            return Ok(None);
        };
        self.summary.transfers += 1;
        self.summary.offered_bytes += size.0;
        let spec = FlowSpec { start_ns: at, application: Application::Bytes(size), ..self.spec.clone() };
        let streams = self.streams.child(&self.summary.transfers.to_string());
        Flow::new(streams, self.path, &spec, experiment, &profiles[self.path], offset, &|_, _, _| None).map(Some)
    }

    /// A transfer is let go: it is complete, or the run is over.
    pub fn count_gone(&mut self, flow: &Flow) {
        self.summary.delivered_bytes += flow.receiver.delivered().0;
        if let Some(completed) = flow.completed {
            self.summary.completed += 1;
            self.took_s += completed.since(flow.start).as_secs_f64();
        }
    }

    /// What it comes to; `lasted` is the run.
    #[must_use]
    pub fn finish(mut self, lasted: Nanos) -> CrossSummary {
        let summary = &mut self.summary;
        summary.goodput_bps = summary.delivered_bytes as f64 * 8.0 / lasted.as_secs_f64();
        summary.mean_s = (summary.completed > 0).then(|| self.took_s / summary.completed as f64);
        self.summary
    }
}
