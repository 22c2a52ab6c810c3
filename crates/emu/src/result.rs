//! Result of an emulation. The emulator stores no samples, so that its memory does not grow with the run. At the end it sends the result of each
//! flow; the parent, which has the samples, makes the summary.

use bentpipe_profile::Time;
use bentpipe_profile::experiment::Experiment;
use bentpipe_profile::run::{AppSummary, FlowFacts, NoRoute, RecoverySummary, Samples, Summary};
use serde::{Deserialize, Serialize};

/// The emulator's part of the summary.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EmulationResult {
    /// The Experiment.
    pub experiment: Experiment,
    /// Its flows, in the Experiment's order.
    pub flows: Vec<FlowResult>,
    /// Profile time at the start.
    pub start: Time,
    /// Profile time at the end.
    pub end: Time,
    /// Packets delivered.
    pub packets: u64,
    /// Packets dropped because there was no route.
    #[serde(default)]
    pub no_route: NoRoute,
    /// Loss recovery on the path and its counters; `None`: there was none.
    #[serde(default)]
    pub recovery: Option<RecoverySummary>,
}

/// Result of one flow. Fields as in [`FlowFacts`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs)] // see there
pub struct FlowResult {
    /// Its number in the tables as sent; `None`: no packet. In the Run its number is its index in the Experiment.
    pub number: Option<u32>,
    pub start: Time,
    pub stop: Time,
    pub completed: Option<Time>,
    pub delivered_bytes: u64,
    /// Whether `delivered_bytes` is complete: its sockets were observed until they closed, or until the end.
    pub is_complete: bool,
    pub retransmits: u64,
    /// CE marks echoed, as the sender's kernel counts them.
    pub marks: u64,
    #[serde(default)]
    pub app: Option<AppSummary>,
}

impl EmulationResult {
    /// Makes the summary. `samples` number flows as the Experiment does; RTTs are the smoothed ones, since the kernel stores no others.
    #[must_use]
    pub fn summary(&self, samples: &Samples) -> Summary {
        let facts: Vec<FlowFacts> = (0_u64..)
            .zip(&self.flows)
            .map(|(index, flow)| {
                let mine = samples.flow.iter().zip(&samples.rtt_smoothed_ms).filter(|(flow, _)| **flow == index);
                let mut rtts_ms: Vec<f64> = mine.map(|(_, &rtt_ms)| rtt_ms).collect();
                rtts_ms.sort_by(f64::total_cmp);
                FlowFacts {
                    start: flow.start,
                    stop: flow.stop,
                    completed: flow.completed,
                    delivered_bytes: flow.delivered_bytes,
                    retransmits: flow.retransmits,
                    losses: 0,
                    timeouts: 0,
                    marks: flow.marks,
                    rtt_median_ms: quantile(&rtts_ms, 0.5),
                    rtt_p95_ms: quantile(&rtts_ms, 0.95),
                }
            })
            .collect();
        let mut summary = Summary::of(&self.experiment, &facts, samples, self.start, self.end, self.packets);
        summary.no_route = self.no_route;
        summary.recovery.clone_from(&self.recovery);
        for (flow, summary) in self.flows.iter().zip(&mut summary.flows) {
            summary.app.clone_from(&flow.app);
            if !flow.is_complete || flow.stop <= flow.start {
                // Bytes or duration unknown; NaN becomes null.
                (summary.goodput_bps, summary.whole_run_bps) = (f64::NAN, f64::NAN);
            }
        }
        summary
    }
}

/// A quantile of sorted values; NaN if there are none.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // a rank
fn quantile(sorted: &[f64], q: f64) -> f64 {
    let rank = (sorted.len().saturating_sub(1) as f64 * q) as usize;
    sorted.get(rank).copied().unwrap_or(f64::NAN)
}
