//! Which subflow carries the next data.

use super::outlook::Outlook;
use super::spec::SchedulerKind;
use bentpipe_profile::{Bytes, Nanos, Rate, Time};
use bentpipe_transport::Occupancy;

/// Payload of a full segment: 1448 bytes less an option with the mapping, 20 bytes (RFC 8684 §3.3).
pub const MSS: u32 = 1428;

/// Most bytes between two choices of [`Linger`] (`MPTCP_SEND_BURST_SIZE`).
const BURST: u64 = (1 << 16) - 20 - 40 - 40 - 8;

/// A subflow as a scheduler sees it.
#[derive(Clone, Copy, Debug)]
pub struct View {
    /// How full it is.
    pub occupancy: Occupancy,
    /// Whether its send buffer has no room (`sk_stream_memory_free`).
    pub is_buffer_full: bool,
    /// Whether its handshake is done.
    pub is_established: bool,
}

impl View {
    /// Whether a segment would leave at once (`mptcp_is_temp_unavailable` of MPTCP v0.9x).
    #[must_use]
    pub fn has_room(&self) -> bool {
        let own = &self.occupancy;
        let filled = own.in_flight.0 + own.unsent.0 + u64::from(MSS);
        self.is_established && !own.is_in_loss && filled <= own.cwnd.0.max(u64::from(MSS))
    }

    /// Rate at which it empties: a window in each smoothed RTT; zero before the first sample.
    fn rate(&self) -> Rate {
        self.occupancy.srtt.map_or(Rate(0), |srtt| Rate::of(self.occupancy.cwnd, srtt))
    }
}

/// A scheduler's choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// Put the next bytes, at most this many, on this subflow.
    Send(usize, Bytes),
    /// Send nothing before the state of a subflow changes, or before this time.
    Wait(Time),
}

/// Chooses the subflow of new data.
pub trait Scheduler: Send {
    /// Choose for the next of `backlog` bytes that wait.
    fn choose(&mut self, now: Time, subflows: &[View], backlog: Bytes) -> Choice;
}

/// Build a scheduler; `outlooks`: the forecasts of each path.
#[must_use]
pub fn scheduler(kind: SchedulerKind, outlooks: Vec<Outlook>) -> Box<dyn Scheduler> {
    match kind {
        SchedulerKind::MinRtt => Box::new(MinRtt),
        SchedulerKind::RoundRobin => Box::new(RoundRobin::default()),
        SchedulerKind::Linger => Box::new(Linger { pace: vec![Rate(0); outlooks.len()] }),
        SchedulerKind::Forecast => Box::new(Forecast { outlooks }),
    }
}

const fn segment(subflow: usize) -> Choice {
    Choice::Send(subflow, Bytes(MSS as u64))
}

/// The lowest smoothed RTT that has room: the default of MPTCP v0.9x.
struct MinRtt;

impl Scheduler for MinRtt {
    fn choose(&mut self, _now: Time, subflows: &[View], _backlog: Bytes) -> Choice {
        let open = (0..subflows.len()).filter(|&i| subflows[i].has_room());
        open.min_by_key(|&i| subflows[i].occupancy.srtt).map_or(Choice::Wait(Time::MAX), segment)
    }
}

/// In turns, segment by segment, among those with room.
#[derive(Default)]
struct RoundRobin {
    last: usize,
}

impl Scheduler for RoundRobin {
    fn choose(&mut self, _now: Time, subflows: &[View], _backlog: Bytes) -> Choice {
        let turns = (1..=subflows.len()).map(|step| (self.last + step) % subflows.len());
        let Some(next) = turns.into_iter().find(|&i| subflows[i].has_room()) else { return Choice::Wait(Time::MAX) };
        self.last = next;
        segment(next)
    }
}

/// Linux's default (`mptcp_subflow_get_send`): the shortest time to flush what is queued, at a smoothed pacing rate, as long as the send buffer has room.
struct Linger {
    /// `avg_pacing_rate` of each subflow; zero: not known.
    pace: Vec<Rate>,
}

impl Scheduler for Linger {
    fn choose(&mut self, _now: Time, subflows: &[View], backlog: Bytes) -> Choice {
        let mut best: Option<(u128, usize)> = None;
        for (i, view) in subflows.iter().enumerate().filter(|(_, view)| view.is_established) {
            if self.pace[i].0 == 0 {
                self.pace[i] = view.occupancy.pacing_rate;
            }
            if self.pace[i].0 == 0 {
                continue;
            }
            let linger = (u128::from(view.occupancy.outstanding.0) << 32) / u128::from(self.pace[i].0);
            if best.is_none_or(|(least, _)| linger < least) {
                best = Some((linger, i));
            }
        }
        let Some((_, i)) = best.filter(|(_, i)| !subflows[*i].is_buffer_full) else { return Choice::Wait(Time::MAX) };
        let (queued, burst) = (u128::from(subflows[i].occupancy.outstanding.0), u128::from(BURST.min(backlog.0)));
        let rates = u128::from(self.pace[i].0) * queued + u128::from(subflows[i].occupancy.pacing_rate.0) * burst;
        self.pace[i] = Rate(u64::try_from(rates / (queued + burst).max(1)).unwrap_or(u64::MAX));
        Choice::Send(i, Bytes(BURST))
    }
}

/// The earliest completion by the outlook of each path, and nothing that would be on a path in an interruption.
struct Forecast {
    outlooks: Vec<Outlook>,
}

impl Forecast {
    /// Return the expected time until the last of `bytes` more on this subflow has arrived: the wait behind what is on the path and half an RTT.
    fn completion(&self, now: Time, i: usize, view: &View, bytes: u64) -> Nanos {
        let own = &view.occupancy;
        let rtt = self.outlooks[i].rtt(now).or(own.srtt).unwrap_or(Nanos::MAX);
        let rate = view.rate();
        if rate.0 == 0 {
            return Nanos(rtt.0 / 2);
        }
        let ahead = Bytes(own.in_flight.0.saturating_add(own.unsent.0).saturating_add(bytes));
        Nanos(rate.time_for(ahead).0.max(rtt.0).saturating_sub(rtt.0 / 2))
    }
}

impl Scheduler for Forecast {
    fn choose(&mut self, now: Time, subflows: &[View], backlog: Bytes) -> Choice {
        let mut wake = Time::MAX;
        let mut usable = Vec::with_capacity(subflows.len());
        for (i, view) in subflows.iter().enumerate().filter(|(_, view)| view.is_established && !view.occupancy.is_in_loss) {
            let completion = self.completion(now, i, view, u64::from(MSS));
            match self.outlooks[i].interruption_end(now, now + completion) {
                Some(end) => wake = wake.min(end),
                None => usable.push((completion, i)),
            }
        }
        let first = usable.iter().min();
        let open = usable.iter().filter(|(_, i)| subflows[*i].has_room()).min();
        match (first, open) {
            (Some(first), Some(open)) if first != open => {
                // The best has no room. If it would be done with all that waits before the other with this segment, wait for it (ECF).
                let all = self.completion(now, first.1, &subflows[first.1], backlog.0);
                if all < open.0 { Choice::Wait(wake) } else { segment(open.1) }
            }
            (_, Some(open)) => segment(open.1),
            _ => Choice::Wait(wake),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn view(srtt_ms: u64, cwnd: u64, in_flight: u64) -> View {
        let mss = u64::from(MSS);
        let occupancy = Occupancy {
            srtt: Some(Nanos(srtt_ms * MS)),
            rto: Nanos(200 * MS),
            cwnd: Bytes(cwnd * mss),
            in_flight: Bytes(in_flight * mss),
            unsent: Bytes::ZERO,
            outstanding: Bytes(in_flight * mss),
            pacing_rate: Rate::of(Bytes(2 * cwnd * mss), Nanos(srtt_ms * MS)),
            is_in_loss: false,
        };
        View { occupancy, is_buffer_full: false, is_established: true }
    }

    fn chosen(kind: SchedulerKind, outlooks: Vec<Outlook>, subflows: &[View], backlog: u64) -> Option<usize> {
        match scheduler(kind, outlooks).choose(Time(0), subflows, Bytes(backlog)) {
            Choice::Send(subflow, _) => Some(subflow),
            Choice::Wait(_) => None,
        }
    }

    fn unknown() -> Vec<Outlook> {
        vec![Outlook::default(), Outlook::default()]
    }

    #[test]
    fn min_rtt_takes_the_shortest_that_has_room() {
        assert_eq!(chosen(SchedulerKind::MinRtt, unknown(), &[view(40, 10, 0), view(20, 10, 9)], 1), Some(1));
        assert_eq!(chosen(SchedulerKind::MinRtt, unknown(), &[view(40, 10, 0), view(20, 10, 10)], 1), Some(0));
        assert_eq!(chosen(SchedulerKind::MinRtt, unknown(), &[view(40, 10, 10), view(20, 10, 10)], 1), None);
    }

    #[test]
    fn round_robin_takes_turns() {
        let mut turns = RoundRobin::default();
        let subflows = [view(40, 10, 0), view(20, 10, 0), view(20, 10, 10)];
        let order: Vec<_> = (0..4).map(|_| turns.choose(Time(0), &subflows, Bytes(1))).collect();
        assert_eq!(order, [segment(1), segment(0), segment(1), segment(0)]);
    }

    #[test]
    fn linger_takes_the_queue_that_is_flushed_first() {
        // 10 segments at 20/40 ms and 10 at 100/20 ms: 20 ms and 2 ms.
        assert_eq!(chosen(SchedulerKind::Linger, unknown(), &[view(40, 10, 10), view(20, 50, 10)], 1), Some(1));
        let full = View { is_buffer_full: true, ..view(20, 50, 10) };
        assert_eq!(chosen(SchedulerKind::Linger, unknown(), &[view(40, 10, 10), full], 1), None, "it waits for the fast one");
    }

    #[test]
    fn forecast_leaves_a_path_before_an_interruption_and_comes_back() {
        let interruption = Outlook::new(vec![], vec![(Time(15 * MS), Time(60 * MS))]);
        let subflows = [view(20, 10, 0), view(60, 10, 0)];
        assert_eq!(chosen(SchedulerKind::Forecast, unknown(), &subflows, 1), Some(0));
        assert_eq!(
            chosen(SchedulerKind::Forecast, vec![interruption.clone(), Outlook::default()], &subflows, 1),
            Some(0),
            "it arrives before"
        );
        let near = Outlook::new(vec![], vec![(Time(5 * MS), Time(60 * MS))]);
        assert_eq!(chosen(SchedulerKind::Forecast, vec![near.clone(), Outlook::default()], &subflows, 1), Some(1));
        let mut alone = scheduler(SchedulerKind::Forecast, vec![near]);
        assert_eq!(alone.choose(Time(0), &subflows[..1], Bytes(1)), Choice::Wait(Time(60 * MS)));
    }

    #[test]
    fn forecast_waits_for_a_short_path_if_little_is_left() {
        let subflows = [view(10, 100, 100), view(100, 100, 0)];
        assert_eq!(chosen(SchedulerKind::Forecast, unknown(), &subflows, 1428), None);
        assert_eq!(chosen(SchedulerKind::Forecast, unknown(), &subflows, 10_000_000), Some(1));
    }

    #[test]
    fn forecast_prefers_a_forecast_to_what_was_measured() {
        let outlook = |ms: u64| Outlook::new(vec![(Time(0), Nanos(ms * MS))], vec![]);
        let subflows = [view(20, 1000, 0), view(30, 1000, 0)];
        assert_eq!(chosen(SchedulerKind::Forecast, vec![outlook(50), outlook(30)], &subflows, 1), Some(1));
    }
}
