//! What a Run comes to.

use crate::experiment::Experiment;
use crate::run::Samples;
use crate::units::Time;
use serde::{Deserialize, Serialize};

/// What a driver knows of a flow at the end beside its samples.
#[derive(Clone, Debug, PartialEq)]
pub struct FlowFacts {
    /// When it opened.
    pub start: Time,
    /// When it stopped sending; `Time::MAX`: not before the end.
    pub stop: Time,
    /// When everything had arrived.
    pub completed: Option<Time>,
    /// Delivered in order to the receiving application [bytes].
    pub delivered_bytes: u64,
    /// Segments retransmitted.
    pub retransmits: u64,
    /// Segments marked lost.
    pub losses: u64,
    /// Time-outs.
    pub timeouts: u64,
    /// Data packets that arrived marked (`CE`), where that is known.
    pub marks: u64,
    /// Median RTT [ms]; NaN: none known.
    pub rtt_median_ms: f64,
    /// 95th percentile [ms].
    pub rtt_p95_ms: f64,
}

/// Summary of a Run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Summary {
    /// One per flow, in the Experiment's order.
    pub flows: Vec<FlowSummary>,
    /// One per source of cross traffic.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub cross: Vec<CrossSummary>,
    /// Packets delivered, acknowledgements included.
    pub packets: u64,
    /// Packets that found no route.
    pub no_route: NoRoute,
    /// Whether the Run can be trusted; a simulation always can.
    pub valid: bool,
    /// Why not.
    pub why_invalid: Option<String>,
}

/// Packets that found no route, by direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NoRoute {
    /// Terminal to Internet.
    pub up: u64,
    /// Internet to terminal.
    pub down: u64,
}

/// What a source of cross traffic came to.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct CrossSummary {
    /// Controller of its transfers.
    pub controller: String,
    /// `up` or `down`.
    pub direction: &'static str,
    /// How many began.
    pub transfers: u64,
    /// How many of them were complete at the end.
    pub completed: u64,
    /// What those that began brought with them.
    pub offered_bytes: u64,
    /// What arrived, in order.
    pub delivered_bytes: u64,
    /// That over the whole run [bit/s].
    pub goodput_bps: f64,
    /// Mean time that a complete transfer took [s]; `None`: none was.
    pub mean_s: Option<f64>,
}

/// Summary of a flow. The start-up is reported apart; counters and RTTs are of the whole run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FlowSummary {
    /// Its controller.
    pub controller: String,
    /// `up` or `down`.
    pub direction: &'static str,
    /// In-order bytes to the application after its warm-up (counted from its start), until its stop, its completion or the end of the run [bit/s]; of a flow that ended
    /// before, the same as `whole_run_bps`.
    pub goodput_bps: f64,
    /// The same from its start on, as iperf3 has it [bit/s].
    pub whole_run_bps: f64,
    /// Median over all ACKs that gave a RTT; `None`: none did.
    pub rtt_median_ms: Option<f64>,
    /// 95th percentile.
    pub rtt_p95_ms: Option<f64>,
    /// Segments retransmitted.
    pub retransmits: u64,
    /// Segments marked lost.
    pub losses: u64,
    /// Time-outs.
    pub timeouts: u64,
    /// Data packets that arrived marked (`CE`).
    pub marks: u64,
    /// How it began.
    pub startup: Startup,
    /// When everything had arrived, after its start [s]; `None`: it had not, or had no end.
    pub completed_s: Option<f64>,
}

/// The part before the warm-up ends.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Startup {
    /// When one second's goodput first reached 90 % of the steady rate, after the flow's start [s]; `None`: never.
    pub time_to_90_s: Option<f64>,
    /// Largest amount in flight before the warm-up ends ÷ the steady median of it; `None`: not known.
    pub overshoot: Option<f64>,
    /// Segments retransmitted before the warm-up ends.
    pub retransmits: u64,
}

impl Summary {
    /// From what was recorded.
    #[must_use]
    pub fn of(experiment: &Experiment, flows: &[FlowFacts], samples: &Samples, start: Time, end: Time, packets: u64) -> Self {
        let flows = flows
            .iter()
            .zip(&experiment.flows)
            .enumerate()
            .map(|(index, (flow, _))| summarise(index, flow, experiment, samples, (start, end)))
            .collect();
        Self { flows, cross: Vec::new(), packets, no_route: NoRoute::default(), valid: true, why_invalid: None }
    }
}

/// A flow's row in the samples: time, bytes delivered, in flight, retransmits.
struct Row {
    t_s: f64,
    bytes: u64,
    inflight: u64,
    retransmits: u64,
}

fn summarise(index: usize, flow: &FlowFacts, experiment: &Experiment, samples: &Samples, run: (Time, Time)) -> FlowSummary {
    let (start, end) = run;
    let spec = &experiment.flows[index];
    let until = flow.completed.unwrap_or(end).min(flow.stop).min(end);
    let delivered = flow.delivered_bytes;
    let rows: Vec<Row> = (0..samples.t_s.len())
        .filter(|&i| samples.flow[i] == index as u64)
        .map(|i| Row {
            t_s: samples.t_s[i],
            bytes: samples.goodput_bytes[i],
            inflight: samples.inflight_bytes[i],
            retransmits: samples.retransmits[i],
        })
        .collect();
    // A flow's own warm-up: one that starts late begins cold.
    let from_s = flow.start.since(start).as_secs_f64() + experiment.warmup_ns.as_secs_f64();
    let until_s = until.since(start).as_secs_f64();
    let split = rows.partition_point(|r| r.t_s <= from_s);
    let at_split = split.checked_sub(1).map(|i| &rows[i]);
    let (split_s, split_bytes, split_retransmits) = at_split.map_or((from_s, 0, 0), |r| (r.t_s, r.bytes, r.retransmits));
    let whole_run_bps = per_second(delivered, until.since(flow.start).as_secs_f64());
    let steady_s = until_s - split_s;
    let goodput_bps = if steady_s > 0.0 { per_second(delivered.saturating_sub(split_bytes), steady_s) } else { whole_run_bps };
    let known = |ms: f64| ms.is_finite().then_some(ms);
    FlowSummary {
        controller: spec.controller.clone(),
        direction: spec.direction.name(),
        goodput_bps,
        whole_run_bps,
        rtt_median_ms: known(flow.rtt_median_ms),
        rtt_p95_ms: known(flow.rtt_p95_ms),
        retransmits: flow.retransmits,
        losses: flow.losses,
        timeouts: flow.timeouts,
        marks: flow.marks,
        startup: Startup {
            time_to_90_s: time_to_90(&rows, goodput_bps).map(|t_s| t_s - flow.start.since(start).as_secs_f64()),
            overshoot: overshoot(&rows[..split], &rows[split..]),
            retransmits: split_retransmits,
        },
        completed_s: flow.completed.map(|at| at.since(flow.start).as_secs_f64()),
    }
}

/// Bytes over seconds as bit/s; zero over no time.
fn per_second(bytes: u64, seconds: f64) -> f64 {
    if seconds > 0.0 { bytes as f64 * 8.0 / seconds } else { 0.0 }
}

fn time_to_90(rows: &[Row], steady_bps: f64) -> Option<f64> {
    if steady_bps <= 0.0 {
        return None;
    }
    let mut back = 0;
    rows.iter().find_map(|row| {
        while row.t_s - rows[back].t_s > 1.0 + 1e-9 {
            back += 1;
        }
        let over = row.t_s - rows[back].t_s;
        let rate = per_second(row.bytes.saturating_sub(rows[back].bytes), over);
        (over > 0.5 && rate >= 0.9 * steady_bps).then_some(row.t_s)
    })
}

fn overshoot(before: &[Row], after: &[Row]) -> Option<f64> {
    let mut steady: Vec<u64> = after.iter().map(|r| r.inflight).collect();
    steady.sort_unstable();
    let median = *steady.get(steady.len() / 2)?;
    let peak = before.iter().map(|r| r.inflight).max()?;
    (median > 0).then(|| peak as f64 / median as f64)
}
