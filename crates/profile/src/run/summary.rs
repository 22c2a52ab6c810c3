//! The summary of a Run.

use crate::experiment::Experiment;
use crate::run::{Applications, PingSummary, Samples};
use crate::units::Time;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Totals of a flow at the end of a run, which its samples do not contain.
#[derive(Clone, Debug, PartialEq)]
pub struct FlowFacts {
    /// When the flow started.
    pub start: Time,
    /// When it stopped sending; `Time::MAX`: not before the end.
    pub stop: Time,
    /// When all data had arrived; `None`: it had not.
    pub completed: Option<Time>,
    /// Bytes delivered in order to the receiving application.
    pub delivered_bytes: u64,
    /// Segments retransmitted.
    pub retransmits: u64,
    /// Segments marked lost.
    pub losses: u64,
    /// Retransmission timeouts (RTO).
    pub timeouts: u64,
    /// Data packets that arrived with a CE mark; 0 if unknown.
    pub marks: u64,
    /// Median RTT [ms]; NaN: unknown.
    pub rtt_median_ms: f64,
    /// 95th percentile of the RTT [ms]; NaN: unknown.
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
    /// One for each of the Experiment's pings.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub pings: Vec<PingSummary>,
    /// Recovery of losses inside the network; `None`: the Experiment has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recovery: Option<RecoverySummary>,
    /// Packets delivered, including acknowledgements and pings.
    pub packets: u64,
    /// Packets dropped because there was no route.
    pub no_route: NoRoute,
    /// Whether the Run is valid: its values can be trusted. A simulation always is.
    pub valid: bool,
    /// Why the Run is invalid; `None`: it is valid.
    pub why_invalid: Option<String>,
}

/// A scheme of loss recovery in a Run, and what it cost.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecoverySummary {
    /// Name of the scheme.
    pub scheme: String,
    /// Its counters, by name; empty: it has none.
    pub overhead: BTreeMap<String, u64>,
}

/// Packets dropped because there was no route, by direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NoRoute {
    /// Terminal to Internet.
    pub up: u64,
    /// Internet to terminal.
    pub down: u64,
}

/// Summary of a source of cross traffic.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct CrossSummary {
    /// Controller of its transfers.
    pub controller: String,
    /// `up` or `down`.
    pub direction: &'static str,
    /// Transfers that began.
    pub transfers: u64,
    /// Transfers that were complete at the end.
    pub completed: u64,
    /// Total size of the transfers that began [bytes].
    pub offered_bytes: u64,
    /// Bytes delivered in order.
    pub delivered_bytes: u64,
    /// `delivered_bytes` over the duration of the run [bit/s].
    pub goodput_bps: f64,
    /// Mean duration of the complete transfers [s]; `None`: none was complete.
    pub mean_s: Option<f64>,
}

/// Summary of a flow. Counters and RTTs cover the whole run; the start-up phase is summarised separately.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FlowSummary {
    /// Controller of the flow.
    pub controller: String,
    /// `up` or `down`.
    pub direction: &'static str,
    /// Steady-state goodput [bit/s]: bytes delivered in order from the end of the flow's warm-up (counted from its start) until its stop, its completion or the
    /// end of the run. For a flow that ended during its warm-up, the same as `whole_run_bps`.
    pub goodput_bps: f64,
    /// Goodput from the start of the flow on, as iperf3 reports it [bit/s].
    pub whole_run_bps: f64,
    /// Median of all RTT samples [ms]; `None`: there were none.
    pub rtt_median_ms: Option<f64>,
    /// 95th percentile of all RTT samples [ms].
    pub rtt_p95_ms: Option<f64>,
    /// Median one-way delay of the data [ms]: from the first transmission of a segment to its first arrival. `None`: the Experiment has no recovery.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owd_p50_ms: Option<f64>,
    /// 99th percentile of the one-way delay [ms].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owd_p99_ms: Option<f64>,
    /// Segments retransmitted.
    pub retransmits: u64,
    /// Segments marked lost.
    pub losses: u64,
    /// Retransmission timeouts (RTO).
    pub timeouts: u64,
    /// Data packets that arrived with a CE mark.
    pub marks: u64,
    /// The start-up phase.
    pub startup: Startup,
    /// Flow completion time, from its start [s]; `None`: not complete, or unlimited.
    pub completed_s: Option<f64>,
    /// Items of its application; `None`: it has none, as a bulk flow.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub app: Option<AppSummary>,
}

/// Summary of the items of a flow's application. Durations are from the start of an item to its completion, over the complete ones.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AppSummary {
    /// Items that began.
    pub items: u64,
    /// Items that were complete at the end.
    pub completed: u64,
    /// Mean duration [s]; `None`: no item was complete.
    pub mean_s: Option<f64>,
    /// Median duration [s].
    pub median_s: Option<f64>,
    /// 95th percentile of the duration [s].
    pub p95_s: Option<f64>,
    /// Median time to the first byte [s].
    pub first_byte_median_s: Option<f64>,
}

impl AppSummary {
    /// Summarise the items of each of `flows` flows.
    #[must_use]
    pub fn of(items: &Applications, flows: usize) -> Vec<Option<Self>> {
        let mut rows = vec![Vec::new(); flows];
        for row in 0..items.flow.len() {
            if let Some(flow) = usize::try_from(items.flow[row]).ok().and_then(|flow| rows.get_mut(flow)) {
                flow.push(row);
            }
        }
        rows.iter().map(|rows| (!rows.is_empty()).then(|| Self::of_rows(items, rows))).collect()
    }

    fn of_rows(items: &Applications, rows: &[usize]) -> Self {
        let spans = |ends: &[f64]| {
            let mut spans: Vec<f64> = rows.iter().map(|&row| ends[row] - items.start_s[row]).filter(|span| span.is_finite()).collect();
            spans.sort_by(f64::total_cmp);
            spans
        };
        let durations = spans(&items.completed_s);
        Self {
            items: rows.len() as u64,
            completed: rows.iter().filter(|&&row| items.completed_s[row].is_finite()).count() as u64,
            mean_s: (!durations.is_empty()).then(|| durations.iter().sum::<f64>() / durations.len() as f64),
            median_s: quantile(&durations, 50),
            p95_s: quantile(&durations, 95),
            first_byte_median_s: quantile(&spans(&items.first_byte_s), 50),
        }
    }
}

/// Summary of a flow's start-up phase: from its start to the end of its warm-up.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Startup {
    /// Time from the flow's start until its goodput over one second first reached 90 % of `goodput_bps` [s]; `None`: never.
    pub time_to_90_s: Option<f64>,
    /// Peak bytes in flight during the warm-up ÷ median bytes in flight after it; `None`: unknown.
    pub overshoot: Option<f64>,
    /// Segments retransmitted during the warm-up.
    pub retransmits: u64,
}

impl Summary {
    /// Summarise a run from its flows' totals and samples, without its applications. `start`, `end`: of the run, on the Profile's clock.
    #[must_use]
    pub fn of(experiment: &Experiment, flows: &[FlowFacts], samples: &Samples, start: Time, end: Time, packets: u64) -> Self {
        let flows = flows
            .iter()
            .zip(&experiment.flows)
            .enumerate()
            .map(|(index, (flow, _))| summarise(index, flow, experiment, samples, (start, end)))
            .collect();
        Self {
            flows,
            cross: Vec::new(),
            pings: Vec::new(),
            recovery: None,
            packets,
            no_route: NoRoute::default(),
            valid: true,
            why_invalid: None,
        }
    }
}

/// A sample of one flow: time, bytes delivered, bytes in flight, retransmits.
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
    // Each flow has its own warm-up, since a flow that starts late also starts slowly.
    let from_s = flow.start.since(start).as_secs_f64() + experiment.warmup_ns.as_secs_f64();
    let until_s = until.since(start).as_secs_f64();
    let split = rows.partition_point(|r| r.t_s <= from_s);
    let at_split = split.checked_sub(1).map(|i| &rows[i]);
    let (split_s, split_bytes, split_retransmits) = at_split.map_or((from_s, 0, 0), |r| (r.t_s, r.bytes, r.retransmits));
    let whole_run_bps = per_second(delivered, until.since(flow.start).as_secs_f64());
    let steady_s = until_s - split_s;
    // A flow that completes within its warm-up has no steady state.
    let goodput_bps = if until_s > from_s { per_second(delivered.saturating_sub(split_bytes), steady_s) } else { whole_run_bps };
    let known = |ms: f64| ms.is_finite().then_some(ms);
    FlowSummary {
        controller: spec.controller.clone(),
        direction: spec.direction.name(),
        goodput_bps,
        whole_run_bps,
        rtt_median_ms: known(flow.rtt_median_ms),
        rtt_p95_ms: known(flow.rtt_p95_ms),
        owd_p50_ms: None,
        owd_p99_ms: None,
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
        app: None,
    }
}

/// Return the smallest value that at least this share of the sorted values does not exceed; `None`: there is no value.
pub(crate) fn quantile(sorted: &[f64], percent: usize) -> Option<f64> {
    sorted.get((sorted.len() * percent).div_ceil(100).saturating_sub(1)).copied()
}

/// Return bytes over seconds as bit/s; zero for an empty span.
fn per_second(bytes: u64, seconds: f64) -> f64 {
    if seconds > 0.0 { bytes as f64 * 8.0 / seconds } else { 0.0 }
}

/// Return the time at which the goodput over one second first reaches 90 % of `steady_bps`.
fn time_to_90(rows: &[Row], steady_bps: f64) -> Option<f64> {
    if steady_bps <= 0.0 {
        return None;
    }
    let mut back = 0;
    rows.iter().find_map(|row| {
        while row.t_s - rows[back].t_s > 1.0 + 1e-9 {
            back += 1;
        }
        let span_s = row.t_s - rows[back].t_s;
        let rate = per_second(row.bytes.saturating_sub(rows[back].bytes), span_s);
        (span_s > 0.5 && rate >= 0.9 * steady_bps).then_some(row.t_s)
    })
}

/// Return the peak bytes in flight before the split ÷ the median after it.
fn overshoot(before: &[Row], after: &[Row]) -> Option<f64> {
    let mut steady: Vec<u64> = after.iter().map(|r| r.inflight).collect();
    steady.sort_unstable();
    let median = *steady.get(steady.len() / 2)?;
    let peak = before.iter().map(|r| r.inflight).max()?;
    (median > 0).then(|| peak as f64 / median as f64)
}
