//! `bbr3-leo`: BBR version 3 for a path that is reconfigured every few seconds.
//!
//! BBR's model of such a path is often that of an earlier slot (docs/design/007-leo-controllers.md has the measurements):
//! - its bandwidth is the greatest of two probing cycles, four to six seconds in which a beam's share changes by half, so that rate and window overshoot;
//! - its minimum RTT is up to ten seconds old, its long-term bound has any age;
//! - a loss is a sign of congestion, though nine of ten come in bursts at reconfigurations and in fades, beside an empty queue.
//!
//! While the path is reconfigured regularly (a reconfiguration was detected, the learned clock is in use, or announcements are confirmed: [`super::leo`]), this controller keeps in flight
//! the current bandwidth times the base RTT plus a target queue ([`SlotPath`]). Losses are congestion only where there is a queue or where they last. It skips `PROBE_RTT`, which is not
//! needed without a standing queue. On other paths, and beside a flow that fills the queue, it is BBR version 3, which runs all the time: on a path without reconfigurations the two are
//! equal, packet by packet.
//!
//! An outage is no congestion. The first ACK after a silence that ended in a time-out finds the path as it was, or nearly so: window and rate are again what they were before it
//! ([`Outage`]). Until then the time-outs are at most `max_rto_ms` apart, and one of them comes when the next slot has begun ([`Controller::max_rto`]).

use super::bbr_parts::bw::Bw;
use super::bbr3::Bbr3;
use super::bbr3::options::Options3;
use super::bbr3::params::{Params, ratio};
use super::hints::Needs;
use super::leo::monitor::{self, Hints, Monitor};
use super::leo::path::{SlotPath, Target};
use super::registry::{Config, Entry};
use super::window::packets;
use super::{AckSample, Congestion, Controller, LostPacket, Probe, RecoveryState};
use bentpipe_profile::options::OptionValues;
use bentpipe_profile::tunables::{OptionSet, count, millis, number};
use bentpipe_profile::{Bytes, Nanos, Rate, Time};

/// `bbr3-leo` in the registry.
pub const ENTRY: Entry = Entry {
    name: "bbr3-leo",
    status: "by bentpipe, experimental",
    description: "BBR v3 with a model of the current slot, which ignores losses in handovers and fades",
    citation: "bentpipe, docs/design/007-leo-controllers.md; draft-ietf-ccwg-bbr-06",
    needs: Needs::Learned,
    options: Options::SPECS,
    build: |config, values| Box::new(Bbr3Leo::new(config, &Options::read(values))),
};

const CHOSEN: &str = "chosen here: docs/design/007-leo-controllers.md";

options! {
    /// Options of `bbr3-leo`.
    pub struct Options {
        queue: Nanos = millis("queue_ms", "target queue delay, which bridges changes of the capacity", 8.0, 1.0, 1000.0, CHOSEN),
        queue_jitters: f64 = number("queue_jitters", "multiple of the RTT's jitter added to queue_ms", 1.4, 0.0, 8.0, CHOSEN),
        queue_part: f64 = number("queue_part", "smallest target queue delay, in base RTTs", 0.25, 0.0, 2.0, CHOSEN),
        bw_rounds: u32 = count("bw_rounds", "rounds in the maximum filter of the delivery rate", 2, 1, 63, CHOSEN),
        max_rto: Nanos = millis("max_rto_ms", "longest time between two time-outs in an outage of a LEO path (kernels allow 1000 or more); 0: the host's", 1000.0, 0.0, 120_000.0, CHOSEN),
        ..monitor: monitor::Options,
        ..bbr: Options3,
    }
}

/// BBR version 3 for paths that are reconfigured regularly.
#[derive(Clone, Debug)]
pub struct Bbr3Leo {
    bbr: Bbr3,
    mss: u32,
    monitor: Monitor,
    path: SlotPath,
    /// Pacing gain while the slot model applies [1/256]: that of `PROBE_UP`, so that more capacity is found within a round.
    pacing_gain: u64,
    pacing_margin_percent: u64,
    /// Inflight limit of the slot model [packets]; `None`: BBR's window applies.
    inflight_limit: Option<u64>,
    /// After a time-out: BBR restores its window.
    refill: Option<Refill>,
    /// After a time-out in which no ACK arrived: the earlier window and rate come back.
    outage: Option<Outage>,
    /// Time at which the application last had data again after the flow was idle.
    restarted: Time,
    /// Whether lost packets are outstanding. With none in flight, what is sent then is a retransmission, or new data beside it, and no end of an idle time.
    is_repairing: bool,
    stale: Stale,
    rate: Rate,
    /// Whether the path was a LEO path at the last ACK.
    was_leo: bool,
    /// Option `max_rto_ms`; zero: the host's.
    max_rto: Nanos,
}

/// An outage, and the slot model's window, rate and RTT before it. They apply again from the first ACK after it for [`RESUMED_RTTS`]; by then the model has samples from packets that were sent at
/// this rate. Each time-out during that time halves them; after [`MAX_FAILURES`] the path is not what it was.
#[derive(Clone, Copy, Debug)]
struct Outage {
    /// Time of the last ACK before it.
    began: Time,
    /// Window; zero: BBR was in charge, and restores its own.
    packets: u64,
    rate: Rate,
    rtt: Nanos,
    /// Time of the first ACK after the outage.
    since: Option<Time>,
    /// Time-outs since such an ACK.
    failures: u32,
}

/// Packets in flight at the first ACK after an outage, less those that were marked lost or arrived since. They are not on the path any more. If the sender takes the time-out for spurious (it
/// sees now which packets arrived before the outage, whose ACKs were lost), Linux does not find the others lost until the next time-out, and nothing else would leave. So they do not count.
#[derive(Clone, Copy, Debug, Default)]
struct Stale {
    packets: u64,
    since: Time,
    /// Bytes lost so far, at the last ACK.
    lost_total: Bytes,
}

impl Stale {
    fn on_ack(&mut self, ack: &AckSample, mss: u32) {
        let lost = ack.lost_total.saturating_sub(self.lost_total);
        self.lost_total = ack.lost_total;
        let are_old = ack.rtt.is_none_or(|rtt| rtt > ack.now.since(self.since));
        let arrived = if are_old { ack.acked } else { Bytes::ZERO };
        self.packets = self.packets.saturating_sub(packets(lost + arrived, mss));
    }
}

/// RTTs, with the target queue, until the model has seen the resumed rate: one until the packets arrive, one of samples, one for losses among them. Chosen here.
const RESUMED_RTTS: u64 = 3;
/// A time-out after a silence of this much more than an RTT may be an outage's; otherwise ACKs arrived, and a retransmission was lost. Chosen here: half of the least
/// RTO above an RTT (`TCP_RTO_MIN`).
const OUTAGE_AFTER: Nanos = Nanos::from_millis(100);
/// A shorter silence is no outage: after a flight lost to a full queue, the answer to the first retransmission comes sooner. Chosen here: from two time-outs on.
const LEAST_OUTAGE: Nanos = Nanos::from_millis(500);
/// Time after an expected reconfiguration at which a time-out is due. Chosen here: an interruption at a slot's edge is shorter as a rule (access model), and the
/// learned clock is off by less; a time-out that comes too early costs a second.
const PROBE_AFTER: Nanos = Nanos::from_millis(350);
/// After a longer outage nothing is resumed: the path is another one. Chosen here.
const MAX_OUTAGE: Nanos = monitor::MAX_PAUSED;
/// Time-outs during resumptions after one outage until BBR restores the window instead. The first ones come from what was in flight before it. Chosen here.
const MAX_FAILURES: u32 = 4;

/// Phase after a time-out. The window limits the delivery rate, from one packet on; a model of that rate would keep it there. BBR remembers its bandwidth and is in charge until its
/// window is the BDP again. The model applies after another [`REFILLED_RTTS`].
#[derive(Clone, Copy, Debug, Default)]
struct Refill {
    full_since: Option<Time>,
}

/// RTTs with a full window before the model applies again: the packets of the first RTT were sent with a smaller window. Chosen here.
const REFILLED_RTTS: u64 = 2;

impl Bbr3Leo {
    fn new(config: &Config, options: &Options) -> Self {
        let p = Params::version_3(&options.bbr);
        let target = Target { min: options.queue, jitter_gain: ratio(options.queue_jitters), rtt_fraction: ratio(options.queue_part) };
        Self {
            bbr: Bbr3::new(config, &p),
            mss: config.mss,
            monitor: Monitor::new(options.monitor),
            path: SlotPath::new(config.mss, target, u64::from(options.bw_rounds)),
            pacing_gain: p.up_gain,
            pacing_margin_percent: p.pacing_margin_percent,
            inflight_limit: None,
            refill: None,
            outage: None,
            restarted: Time::ZERO,
            is_repairing: false,
            stale: Stale::default(),
            rate: Rate(0),
            was_leo: false,
            max_rto: options.max_rto,
        }
    }

    /// Remembers window and rate if the time-out at `now` is due to an outage. After an idle period nothing shows that the path is what it was.
    fn note_outage(&mut self, now: Time) {
        if self.outage.is_some_and(|outage| outage.since.is_some_and(|since| self.restarted > since)) {
            self.outage = None; // all arrived, and the flow was idle since
        }
        if let Some(outage) = &mut self.outage {
            if outage.since.take().is_some() {
                outage.failures += 1;
                outage.packets /= 2;
                outage.rate = Rate(outage.rate.0 / 2);
            }
            if outage.failures >= MAX_FAILURES {
                self.outage = None;
            }
            return;
        }
        let Some(rtt) = self.path.queued_rtt(now) else { return };
        let began = self.monitor.last_ack();
        if self.was_leo && began >= self.restarted && now.since(began) > rtt + OUTAGE_AFTER {
            let packets = self.inflight_limit.unwrap_or(0);
            self.outage = Some(Outage { began, packets, rate: self.rate, rtt, since: None, failures: 0 });
        }
    }

    /// Takes the first ACK after an outage for the start of a slot. RTTs of packets that the path held, and BBR's minimum RTT, which has expired, say nothing about it.
    fn end_outage(&mut self, ack: &AckSample) {
        self.stale.on_ack(ack, self.mss);
        let Some(outage) = &mut self.outage else { return };
        if outage.since.is_none() {
            let silence = ack.now.since(outage.began);
            if outage.failures == 0 && silence <= outage.rtt + LEAST_OUTAGE {
                self.outage = None;
                return;
            }
            if outage.packets == 0 || silence > MAX_OUTAGE {
                self.outage = None;
            } else {
                outage.since = Some(ack.now);
                self.stale = Stale { packets: packets(ack.in_flight, self.mss), since: ack.now, lost_total: ack.lost_total };
            }
            self.path.ignore_rtts_before(ack.now);
            self.path.on_reconfiguration(ack.now);
        }
        self.bbr.postpone_probe_rtt(ack.now);
    }

    /// Resumes the window before the outage; returns whether it applies.
    fn resume(&mut self, ack: &AckSample) -> bool {
        let Some(outage) = &mut self.outage else { return false };
        let Some(since) = outage.since else { return false };
        if ack.now.since(since) > Nanos(RESUMED_RTTS * outage.rtt.0) {
            self.outage = None;
            self.refill = None;
            self.bbr.reset_path(ack);
            return false;
        }
        self.inflight_limit = Some(outage.packets);
        self.rate = outage.rate;
        true
    }

    /// Creates the controller with the default options but for its source of reconfiguration times.
    pub(super) fn hinted(config: &Config, hints: Hints) -> Self {
        let defaults = ENTRY.declared().check(&OptionValues::new()).expect("defaults are allowed");
        let options = Options::read(&defaults);
        Self::new(config, &Options { monitor: monitor::Options { hints, ..options.monitor }, ..options })
    }

    /// Replaces the measured bandwidth of the slot model until the next call; `None`: the measured one applies.
    pub(super) const fn expect_bandwidth(&mut self, bw: Option<Bw>) {
        self.path.expect_bandwidth(bw);
    }

    /// Decides whether the slot model or BBR sets the window.
    fn decide(&mut self, ack: &AckSample) {
        if self.resume(ack) {
            return;
        }
        if let Some(refill) = &mut self.refill
            && (refill.full_since.is_some() || self.bbr.is_cwnd_at_bdp())
        {
            let since = *refill.full_since.get_or_insert(ack.now);
            if ack.now.since(since) > Nanos(REFILLED_RTTS * ack.srtt.0) {
                self.refill = None;
            }
        }
        let applies = self.refill.is_none()
            && self.monitor.is_leo(ack.now)
            && self.bbr.has_left_startup()
            && !SlotPath::is_in_rto_recovery(ack)
            && !self.path.has_cross_traffic(ack.now);
        self.inflight_limit = if applies { self.path.inflight_limit(ack.now) } else { None };
        if let (Some(_), Some(bw)) = (self.inflight_limit, self.path.bw()) {
            self.rate = bw.pacing_rate(self.pacing_gain, self.mss, self.pacing_margin_percent);
            self.bbr.postpone_probe_rtt(ack.now);
        }
    }
}

impl Controller for Bbr3Leo {
    delegate!(bbr: on_established, on_sent, set_cwnd, ssthresh, controls_recovery, sndbuf_factor, min_tso_segments);
    delegate!(monitor: on_path_hint);

    fn on_ack(&mut self, ack: &AckSample) {
        let is_reconfigured = self.monitor.on_ack(ack);
        self.end_outage(ack);
        // Packets that the path held during an outage are no sign of a reconfiguration.
        if is_reconfigured && self.outage.is_none() {
            self.path.on_reconfiguration(ack.now);
            self.bbr.reset_path(ack);
        }
        let is_leo = self.monitor.is_leo(ack.now);
        let is_near = is_leo && self.monitor.is_near(ack.now);
        self.path.on_ack(ack, is_near, self.bbr.loss_threshold());
        if is_leo && self.path.is_stale(ack.now) {
            self.path.on_reconfiguration(ack.now);
            self.bbr.reset_path(ack);
        }
        self.bbr.ignore_losses(is_near || (is_leo && self.path.ignores_losses(ack.now)));
        self.bbr.on_ack(ack);
        self.decide(ack);
        self.was_leo = is_leo;
        self.is_repairing = matches!(ack.recovery, RecoveryState::Recovery | RecoveryState::Loss);
    }

    fn on_packet_lost(&mut self, lost: &LostPacket) {
        let is_near = self.monitor.is_leo(lost.now) && self.monitor.is_near(lost.now);
        self.bbr.ignore_losses(is_near || (self.monitor.is_leo(lost.now) && self.path.ignores_losses(lost.now)));
        self.bbr.on_packet_lost(lost);
    }

    fn on_congestion(&mut self, now: Time, event: Congestion, in_flight: Bytes) {
        match event {
            Congestion::Timeout | Congestion::TimeoutAgain => {
                self.note_outage(now);
                self.is_repairing = true;
                self.inflight_limit = None;
                self.stale.packets = 0; // they are marked lost now
                self.refill = Some(Refill::default());
            }
            // The window is full already. A loss in a smaller window does not show that.
            Congestion::Loss if self.bbr.is_cwnd_at_bdp() => self.refill = None,
            // The time-out was spurious.
            Congestion::Undo => self.refill = None,
            Congestion::Loss | Congestion::Ecn | Congestion::TailLoss | Congestion::RecoveryEnd => {}
            Congestion::Restart(_) if self.is_repairing => {}
            Congestion::Restart(_) => self.restarted = now,
        }
        self.bbr.on_congestion(now, event, in_flight);
    }

    fn cwnd(&self) -> Bytes {
        self.inflight_limit
            .map_or_else(|| self.bbr.cwnd(), |limit| Bytes(limit.saturating_add(self.stale.packets).saturating_mul(u64::from(self.mss))))
    }

    fn pacing_rate(&self) -> Option<Rate> {
        if self.inflight_limit.is_some() { Some(self.rate) } else { self.bbr.pacing_rate() }
    }

    fn max_rto(&self, now: Time) -> Option<Nanos> {
        let longest = self.outage.filter(|_| self.max_rto > Nanos::ZERO).map(|outage| self.max_rto.max(outage.rtt + outage.rtt))?;
        let until_probe = self.monitor.next_expected(now).map(|at| (at + PROBE_AFTER).since(now));
        // The last time-out before the slot's edge is followed by one just after it.
        Some(until_probe.filter(|&wait| wait >= longest && wait.0 < 2 * longest.0).unwrap_or(longest))
    }

    fn observe(&self, probe: &mut dyn Probe) {
        self.bbr.observe(probe);
        if let Some(timing) = self.monitor.timing() {
            probe.value("clock_period_s", timing.period.as_secs_f64());
            probe.value("clock_confidence", timing.confidence());
        }
        if self.inflight_limit.is_some() {
            probe.state(if self.outage.is_some() { "resume" } else { "slot" });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Driver, ack_at, controller, in_bytes, state_of};
    use super::*;

    const RTT: Nanos = Nanos::from_millis(40);

    #[test]
    fn without_a_reconfiguration_it_is_bbr3() {
        let trace = |name: &str| {
            let mut driver = Driver::new(controller(name), RTT, 100, 100);
            driver.drop.extend([1000, 5000, 5001]);
            driver.trace(RTT, 300)
        };
        assert_eq!(trace("bbr3-leo"), trace("bbr3"));
    }

    /// Everything sent for a while is lost, and time-outs follow: the rate of one packet per RTT is no model of the path.
    #[test]
    fn after_a_time_out_the_window_is_restored_as_fast_as_by_bbr() {
        let windows = |name: &str| {
            let mut driver = Driver::new(controller(name), RTT, 100, 400);
            for ms in 0..90_000 {
                driver.ack_batch = (ms % 15_000 >= 7_000 && ms % 15_000 < 7_080).then_some(Nanos::from_millis(80));
                driver.run(Time(ms * 1_000_000));
            }
            let before = driver.state();
            // Three time-outs, one after the other: one packet per RTT, until the model remembers nothing else.
            for _ in 0..3 {
                driver.time_out(driver.now() + RTT + RTT);
                driver.run(driver.now() + RTT + Nanos::from_millis(8));
            }
            // One random loss, long before the window is restored.
            driver.drop.insert(driver.transmissions() + 20);
            (before, driver.trace(RTT, 24))
        };
        let ((_, parent), (before, leo)) = (windows("bbr3"), windows("bbr3-leo"));
        assert_eq!(before, "slot");
        let full = |sizes: &[u64]| sizes.iter().position(|&packets| packets >= 90);
        assert!(full(&leo).is_some() && full(&leo) <= full(&parent).map(|n| n + 1), "{leo:?} {parent:?}");
    }

    /// No ACK arrives for 14 s: the window is whole from the first one on, and time-outs are a second apart but for the last before the slot's edge.
    #[test]
    fn after_an_outage_the_earlier_window_is_resumed_and_an_edge_is_probed() {
        let mut driver = interrupted("bbr3-leo", 82_500).0;
        let (before, controller) = (driver.cwnd(), &mut driver.controller);
        assert_eq!(state_of(controller.as_ref()), "slot");
        let at = |ms: u64| Time(ms * 1_000_000);
        for second in 83..96 {
            controller.on_congestion(
                at(second * 1000),
                if second > 83 { Congestion::TimeoutAgain } else { Congestion::Timeout },
                Bytes::ZERO,
            );
            assert!(controller.cwnd() <= in_bytes(2));
        }
        assert_eq!(controller.max_rto(at(94_000)), Some(Nanos::from_secs(1)));
        let probe = at(95_800) + controller.max_rto(at(95_800)).expect("a LEO path");
        assert!(probe.0.abs_diff(at(97_400).0) < 100_000_000, "{probe:?}");
        controller.on_ack(&AckSample { in_flight: in_bytes(before), recovery: RecoveryState::Loss, ..ack_at(at(97_450)) });
        assert_eq!(state_of(controller.as_ref()), "resume");
        assert_eq!(controller.cwnd(), in_bytes(2 * before), "what is in flight is lost");
        controller.on_ack(&AckSample { lost_total: in_bytes(before), recovery: RecoveryState::Loss, ..ack_at(at(97_460)) });
        assert_eq!(controller.cwnd(), in_bytes(before));
        // A flight is lost a few times: half of it is next, and in the end BBR restores its window.
        for second in 0..4 {
            assert_eq!((state_of(controller.as_ref()), controller.cwnd()), ("resume", in_bytes(before >> second)));
            controller.on_congestion(at(98_000 + 1000 * second), Congestion::TimeoutAgain, Bytes::ZERO);
            controller.on_ack(&AckSample { recovery: RecoveryState::Loss, ..ack_at(at(98_500 + 1000 * second)) });
        }
        assert_ne!(state_of(controller.as_ref()), "resume");
        assert!(controller.cwnd() < in_bytes(before / 2));
    }

    /// What the path held arrives after the outage, or is lost in the end. New packets' ACKs say nothing about it.
    #[test]
    fn packets_of_before_an_outage_count_until_they_arrive_or_are_lost() {
        let at = |ms: u64| Time(ms * 1_000_000);
        let mut stale = Stale { packets: 10, since: at(1000), lost_total: Bytes::ZERO };
        let mut left = |ms, rtt_ms: u64, acked, lost| {
            let ack =
                AckSample { rtt: Some(Nanos::from_millis(rtt_ms)), acked: in_bytes(acked), lost_total: in_bytes(lost), ..ack_at(at(ms)) };
            stale.on_ack(&ack, 1448);
            stale.packets
        };
        assert_eq!([left(1050, 40, 2, 0), left(1060, 9000, 3, 0), left(1070, 40, 1, 4), left(1080, 40, 1, 4)], [10, 7, 3, 3]);
    }

    /// The first packets after an idle period are lost: that is no outage, and the window of before is not resumed.
    #[test]
    fn a_time_out_after_an_idle_period_is_no_outage() {
        for idle in [false, true] {
            let mut driver = interrupted("bbr3-leo", 82_500).0;
            let controller = &mut driver.controller;
            if idle {
                // The same holds after an outage.
                controller.on_congestion(Time(83_500_000_000), Congestion::Timeout, Bytes::ZERO);
                controller.on_ack(&ack_at(Time(83_600_000_000)));
                assert!(controller.max_rto(Time(83_600_000_000)).is_some());
                controller.on_congestion(Time(83_700_000_000), Congestion::Restart(Nanos::from_millis(500)), Bytes::ZERO);
            }
            let at = Time(84_000_000_000);
            controller.on_congestion(at, Congestion::Timeout, Bytes::ZERO);
            assert_eq!(controller.max_rto(at).is_some(), !idle);
        }
    }

    /// Nothing is in flight after a time-out, and then a retransmission is sent: no idle time ends there. An outage whose first time-out came soon after the last ACK
    /// is seen at the next one, and one whose first resumed flight is lost goes on with half of it.
    #[test]
    fn a_retransmission_does_not_end_an_idle_time() {
        let (restart, at) = (Congestion::Restart(Nanos::from_millis(100)), |ms: u64| Time(ms * 1_000_000));
        for begin in [82_560, 83_000] {
            let controller = &mut interrupted("bbr3-leo", 82_500).0.controller;
            for (ms, event) in [(begin, Congestion::Timeout), (begin, restart), (84_000, Congestion::TimeoutAgain), (84_000, restart)] {
                controller.on_congestion(at(ms), event, Bytes::ZERO);
            }
            assert!(controller.max_rto(at(84_000)).is_some(), "{begin}");
            controller.on_ack(&AckSample { recovery: RecoveryState::Loss, ..ack_at(at(90_000)) });
            let resumed = controller.cwnd().0 / in_bytes(1).0;
            controller.on_congestion(at(90_001), restart, Bytes::ZERO);
            controller.on_congestion(at(90_300), Congestion::TimeoutAgain, Bytes::ZERO);
            controller.on_ack(&AckSample { recovery: RecoveryState::Loss, ..ack_at(at(91_000)) });
            let is_resumed = (state_of(controller.as_ref()), controller.cwnd()) == ("resume", in_bytes(resumed / 2));
            assert_eq!(is_resumed, begin == 83_000, "else the window of before the first time-out is not known");
        }
    }

    /// Runs a flow over a bottleneck that pauses for 80 ms every 15 s, so that ACKs are as late; returns it, the largest window after 30 s, and the states.
    fn interrupted(name: &str, end_ms: u64) -> (Driver, u64, Vec<&'static str>) {
        let mut driver = Driver::new(controller(name), RTT, 100, 400);
        let (mut max_cwnd, mut states) = (0, Vec::new());
        for ms in 0..end_ms {
            driver.ack_batch = (ms % 15_000 >= 7_000 && ms % 15_000 < 7_080).then_some(Nanos::from_millis(80));
            driver.run(Time(ms * 1_000_000));
            if ms > 30_000 {
                max_cwnd = max_cwnd.max(driver.controller.cwnd().0);
            }
            let state = state_of(driver.controller.as_ref());
            if states.last() != Some(&state) {
                states.push(state);
            }
        }
        (driver, max_cwnd, states)
    }

    #[test]
    fn on_a_reconfigured_path_its_window_is_smaller_than_bbr3s() {
        let ((_, parent, _), (_, leo, states)) = (interrupted("bbr3", 60_000), interrupted("bbr3-leo", 60_000));
        assert!(states.contains(&"slot"), "{states:?}");
        assert!(leo < parent, "{leo} {parent}");
    }
}
