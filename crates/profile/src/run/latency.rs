//! Latency under load: the pings of a path and the goodput on it, while nothing else is sent and while flows run.

use crate::direction::Direction;
use crate::experiment::Experiment;
use crate::run::summary::{FlowFacts, quantile};
use crate::run::tables::Samples;
use crate::units::{Nanos, Time};
use serde::Serialize;

/// After a change of the load, what follows in this time belongs to no load. Chosen here: longer than the queues of these paths take to drain,
/// and than slow start takes to fill them.
pub const SETTLE: Nanos = Nanos::from_secs(2);

/// An echo request.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ping {
    /// When it was sent.
    pub sent: Time,
    /// What became of it.
    pub fate: PingFate,
    /// RTT of a lone small packet sent then, over empty queues [ms]; NaN: there was no path.
    pub path_ms: f64,
}

/// What became of an echo request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PingFate {
    /// It, or its reply, was still on its way at the end of the run.
    InFlight,
    /// It was lost, or its reply was.
    Lost,
    /// It was answered after this RTT.
    Answered(Nanos),
}

/// Summary of the pings over one path.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PingSummary {
    /// Role of the Profile.
    pub profile: String,
    /// Requests sent.
    pub sent: u64,
    /// Requests that were lost, or whose reply was.
    pub lost: u64,
    /// Requests that were still on their way at the end, or whose reply was.
    pub in_flight: u64,
    /// Each load that occurred, in the order `idle`, `down`, `up`, `both`.
    pub loads: Vec<LoadSummary>,
}

/// Pings and goodput while the path had one load: flows in no, one or both directions, without the first [`SETTLE`] after each change.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LoadSummary {
    /// `idle`: no flow; `down` or `up`: flows in this direction alone; `both`.
    pub load: &'static str,
    /// Time with this load [s].
    pub duration_s: f64,
    /// Requests sent.
    pub sent: u64,
    /// Those of them that were lost.
    pub lost: u64,
    /// Those of them that were still on their way at the end.
    pub in_flight: u64,
    /// Median RTT [ms]; `None`: no request was answered.
    pub rtt_p50_ms: Option<f64>,
    /// 95th percentile of the RTT [ms].
    pub rtt_p95_ms: Option<f64>,
    /// 99th percentile of the RTT [ms].
    pub rtt_p99_ms: Option<f64>,
    /// Median excess of the RTT over that of a lone small packet sent at the same time [ms]: what queues and other traffic add. Unlike the RTT it can
    /// be compared between times at which the path differs.
    pub excess_p50_ms: Option<f64>,
    /// 95th percentile of the excess [ms].
    pub excess_p95_ms: Option<f64>,
    /// RTTs per minute: one minute ÷ median RTT. `docs/guides/latency-under-load.md` says how it differs from the IETF's RPM.
    pub rtts_per_min: Option<f64>,
    /// Goodput of all flows downwards [bit/s].
    pub down_bps: f64,
    /// Goodput of all flows upwards [bit/s].
    pub up_bps: f64,
}

/// A time with one load: start, end, and whether there are flows down and up.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Span {
    from: Time,
    to: Time,
    load: [bool; 2],
}

impl PingSummary {
    /// Summarise the `pings` over the Profile with this role. `run`: start and end of the run, on the Profile's clock, as all times.
    #[must_use]
    pub fn of(profile: &str, experiment: &Experiment, flows: &[FlowFacts], samples: &Samples, run: (Time, Time), pings: &[Ping]) -> Self {
        let mine: Vec<(usize, Direction, &FlowFacts)> = (experiment.flows.iter().zip(flows).enumerate())
            .filter(|(_, (spec, _))| spec.profile == profile)
            .map(|(index, (spec, facts))| (index, spec.direction, facts))
            .collect();
        let spans = spans(&mine, run);
        let delivered: Vec<Delivered> =
            mine.iter().map(|&(index, direction, facts)| Delivered::of(index, direction, facts, samples, run.0)).collect();
        let loads = [("idle", [false, false]), ("down", [true, false]), ("up", [false, true]), ("both", [true, true])];
        Self {
            profile: profile.to_owned(),
            sent: pings.len() as u64,
            lost: count(pings, PingFate::Lost),
            in_flight: count(pings, PingFate::InFlight),
            loads: loads
                .into_iter()
                .filter_map(|(name, load)| {
                    let during: Vec<Span> = spans.iter().copied().filter(|span| span.load == load).collect();
                    (!during.is_empty()).then(|| LoadSummary::of(name, &during, &delivered, pings))
                })
                .collect(),
        }
    }
}

impl LoadSummary {
    fn of(load: &'static str, spans: &[Span], delivered: &[Delivered], pings: &[Ping]) -> Self {
        let is_during = |ping: &Ping| spans.iter().any(|span| span.from <= ping.sent && ping.sent < span.to);
        let sent: Vec<Ping> = pings.iter().copied().filter(is_during).collect();
        let answered = |ping: &Ping| if let PingFate::Answered(rtt) = ping.fate { Some(rtt.as_millis_f64()) } else { None };
        let mut rtts: Vec<f64> = sent.iter().filter_map(answered).collect();
        rtts.sort_by(f64::total_cmp);
        // Rounded to the nanosecond, in which RTTs are counted.
        let excess = |ping: &Ping| answered(ping).map(|ms| ((ms - ping.path_ms) * 1e6).round() / 1e6).filter(|ms| ms.is_finite());
        let mut excesses: Vec<f64> = sent.iter().filter_map(excess).collect();
        excesses.sort_by(f64::total_cmp);
        let median = quantile(&rtts, 50);
        let duration_s: f64 = spans.iter().map(|span| span.to.since(span.from).as_secs_f64()).sum();
        let bps = |direction: Direction| {
            let flows = delivered.iter().filter(|flow| flow.direction == direction);
            flows.map(|flow| spans.iter().map(|span| flow.at(span.to) - flow.at(span.from)).sum::<f64>()).sum::<f64>() * 8.0 / duration_s
        };
        Self {
            load,
            duration_s,
            sent: sent.len() as u64,
            lost: count(&sent, PingFate::Lost),
            in_flight: count(&sent, PingFate::InFlight),
            rtt_p50_ms: median,
            rtt_p95_ms: quantile(&rtts, 95),
            rtt_p99_ms: quantile(&rtts, 99),
            excess_p50_ms: quantile(&excesses, 50),
            excess_p95_ms: quantile(&excesses, 95),
            rtts_per_min: median.map(|ms| 60_000.0 / ms),
            down_bps: bps(Direction::Down),
            up_bps: bps(Direction::Up),
        }
    }
}

fn count(pings: &[Ping], fate: PingFate) -> u64 {
    pings.iter().filter(|ping| ping.fate == fate).count() as u64
}

/// Return the times with one load, without what follows each change within [`SETTLE`].
fn spans(flows: &[(usize, Direction, &FlowFacts)], run: (Time, Time)) -> Vec<Span> {
    let (start, end) = run;
    let until = |facts: &FlowFacts| facts.completed.unwrap_or(end).min(facts.stop).min(end);
    let mut edges: Vec<Time> = flows.iter().flat_map(|(_, _, facts)| [facts.start, until(facts)]).chain([start, end]).collect();
    edges.retain(|at| (start..=end).contains(at));
    edges.sort_unstable();
    edges.dedup();
    let mut spans: Vec<Span> = Vec::new();
    for pair in edges.windows(2) {
        let runs = |direction| flows.iter().any(|&(_, own, facts)| own == direction && facts.start <= pair[0] && until(facts) > pair[0]);
        let load = [runs(Direction::Down), runs(Direction::Up)];
        match spans.last_mut().filter(|last| last.load == load) {
            Some(last) => last.to = pair[1],
            None => spans.push(Span { from: pair[0], to: pair[1], load }),
        }
    }
    // Nothing was sent before the run: flows that start with it are a change, an idle beginning is none.
    let is_change = |(number, span): &(usize, &mut Span)| *number > 0 || span.load != [false; 2];
    spans.iter_mut().enumerate().filter(is_change).for_each(|(_, span)| span.from = span.from + SETTLE);
    spans.retain(|span| span.from < span.to);
    spans
}

/// Bytes that a flow had delivered, over time.
struct Delivered {
    direction: Direction,
    /// Times on the Profile's clock [ns] and bytes so far.
    rows: Vec<(f64, f64)>,
}

impl Delivered {
    fn of(index: usize, direction: Direction, facts: &FlowFacts, samples: &Samples, start: Time) -> Self {
        let begin = start.0 as f64;
        let mine = (0..samples.t_s.len()).filter(|&row| samples.flow[row] == index as u64);
        let sampled = mine.map(|row| (begin + samples.t_s[row] * 1e9, samples.goodput_bytes[row] as f64));
        Self { direction, rows: std::iter::once((facts.start.0 as f64, 0.0)).chain(sampled).collect() }
    }

    /// Return the bytes at a time, linear between samples.
    fn at(&self, time: Time) -> f64 {
        let at = time.0 as f64;
        let next = self.rows.partition_point(|&(t, _)| t <= at);
        match (next.checked_sub(1).map(|last| self.rows[last]), self.rows.get(next)) {
            (Some((t0, before)), Some(&(t1, after))) => before + (after - before) * (at - t0) / (t1 - t0),
            (Some((_, last)), None) => last,
            (None, _) => 0.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    fn facts(start_s: u64, stop_s: u64) -> FlowFacts {
        FlowFacts {
            start: Time(start_s * S),
            stop: Time(stop_s * S),
            completed: None,
            delivered_bytes: 0,
            retransmits: 0,
            losses: 0,
            timeouts: 0,
            marks: 0,
            rtt_median_ms: f64::NAN,
            rtt_p95_ms: f64::NAN,
        }
    }

    #[test]
    fn a_load_begins_two_seconds_after_a_change_and_ends_with_the_next() {
        // Down from 5 to 15 s by two flows that follow each other, up from 10 to 16 s: two seconds down, both, one second up, idle.
        let [first, second, up] = [facts(5, 9), facts(9, 15), facts(10, 16)];
        let flows = [(0, Direction::Down, &first), (1, Direction::Down, &second), (2, Direction::Up, &up)];
        let of = |from, to, load| Span { from: Time(from * S), to: Time(to * S), load };
        let expected = [of(0, 5, [false; 2]), of(7, 10, [true, false]), of(12, 15, [true; 2]), of(18, 20, [false; 2])];
        assert_eq!(spans(&flows, (Time(0), Time(20 * S))), expected);
    }

    #[test]
    fn flows_that_start_with_the_run_settle_too() {
        let down = facts(100, 120);
        let expected = [Span { from: Time(102 * S), to: Time(110 * S), load: [true, false] }];
        assert_eq!(spans(&[(0, Direction::Down, &down)], (Time(100 * S), Time(110 * S))), expected);
    }

    #[test]
    #[allow(clippy::float_cmp)] // small integers, which are exact
    fn goodput_and_rtts_of_a_load_are_those_of_its_time() {
        let run = (Time(100 * S), Time(120 * S));
        let flow = facts(105, 115);
        let samples = Samples {
            t_s: vec![6.0, 8.0, 15.0],
            flow: vec![0; 3],
            goodput_bytes: vec![1_000, 3_000, 17_000], // 2 kB/s from the 7th second on
            ..Samples::default()
        };
        let delivered = [Delivered::of(0, Direction::Down, &flow, &samples, run.0)];
        assert_eq!(delivered[0].at(Time(107 * S)), 2_000.0);
        assert_eq!((delivered[0].at(Time(104 * S)), delivered[0].at(Time(119 * S))), (0.0, 17_000.0));
        let during = spans(&[(0, Direction::Down, &flow)], run);
        let ping = |at: u64, fate: PingFate| Ping { sent: Time(at * S), fate, path_ms: 15.0 };
        let answered = |at: u64, ms: u64| ping(at, PingFate::Answered(Nanos::from_millis(ms)));
        let [lost, late] = [ping(108, PingFate::Lost), ping(114, PingFate::InFlight)];
        let pings = [answered(101, 20), answered(106, 500), answered(107, 80), lost, answered(110, 60), late];
        let down = LoadSummary::of("down", &during[1..2], &delivered, &pings);
        assert_eq!((down.duration_s, down.down_bps, down.up_bps), (8.0, 15_000.0, 0.0));
        assert_eq!((down.sent, down.lost, down.in_flight), (4, 1, 1));
        assert_eq!((down.rtt_p50_ms, down.rtt_p99_ms), (Some(60.0), Some(80.0)));
        assert_eq!((down.excess_p50_ms, down.excess_p95_ms), (Some(45.0), Some(65.0)));
        assert_eq!(down.rtts_per_min, Some(1_000.0));
    }
}
