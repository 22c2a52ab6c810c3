//! `bbr3-leo`: BBR version 3 that knows its path is changed every few seconds.
//!
//! What BBR believes of such a path is true of another one (docs/design/007-ours.md has the measurements):
//! - its bandwidth is the greatest of two cycles of probing, four to six seconds in which a beam's share has moved by half, so that rate and window overshoot;
//! - its minimum RTT is of up to ten seconds ago, its long-term bound of any time;
//! - a loss is a sign of congestion, though nine of ten come in bursts at reconfigurations and in fades, beside an empty queue.
//!
//! While a path shows that it is one (a reconfiguration was seen, the learned clock is believed, or announcements are borne out: [`super::leo`]), this controller keeps in flight what
//! the path delivers now over its length since it last changed, and a stated queue ([`SlotPath`]); it takes losses for congestion only where there is a queue or where they go on; and
//! it spares `PROBE_RTT`, which a flight without a standing queue does not need. Everywhere else, and beside a flow that fills the queue, it is BBR version 3, which runs along all the
//! time: on a path without reconfigurations the two do the same, packet by packet.

use super::bbr_parts::params::UNIT;
use super::bbr3::Bbr3;
use super::bbr3::params::{OPTIONS_3, Params};
use super::hints::{JITTER, MISSING, Needs, OFFSET};
use super::leo::path::{SlotPath, Target};
use super::leo::watch::{HINTS, PERIOD, Watch};
use super::registry::{Allowed, Config, Entry, OptionSpec, Options};
use super::{AckSample, Congestion, Controller, LostPacket, Probe};
use bentpipe_profile::{Bytes, Nanos, Rate, Time};

/// `bbr3-leo` in the registry.
pub const ENTRY: Entry = Entry {
    name: "bbr3-leo",
    status: "ours, an experiment",
    description: "BBR v3 that keeps a model of the present slot, and does not take its losses for congestion",
    citation: "bentpipe, docs/design/007-ours.md; draft-ietf-ccwg-bbr-06",
    needs: Needs::Learned,
    options: &OPTIONS,
    build: |config, options| Box::new(Bbr3Leo::new(config, options)),
};

const OWN: [OptionSpec; 9] = [
    OptionSpec {
        name: "queue_ms",
        unit: "ms",
        description: "queue that is kept to bridge what the capacity does",
        default: 8.0,
        allowed: Allowed::Range(1.0, 1000.0),
        source: "chosen here: docs/design/007-ours.md",
    },
    OptionSpec {
        name: "queue_jitters",
        unit: "",
        description: "and so many times the RTT's jitter",
        default: 1.4,
        allowed: Allowed::Range(0.0, 8.0),
        source: "chosen here: docs/design/007-ours.md",
    },
    OptionSpec {
        name: "queue_part",
        unit: "",
        description: "the same, at least, in RTTs",
        default: 0.25,
        allowed: Allowed::Range(0.0, 2.0),
        source: "chosen here: docs/design/007-ours.md",
    },
    OptionSpec {
        name: "bw_rounds",
        unit: "",
        description: "rounds of which the greatest delivery rate is taken",
        default: 2.0,
        allowed: Allowed::Count(1, 63),
        source: "chosen here: docs/design/007-ours.md",
    },
    HINTS,
    PERIOD,
    OFFSET,
    JITTER,
    MISSING,
];
const OPTIONS: [OptionSpec; OWN.len() + OPTIONS_3.len()] = {
    let mut all = [OWN[0]; OWN.len() + OPTIONS_3.len()];
    let mut i = 0;
    while i < all.len() {
        all[i] = if i < OWN.len() { OWN[i] } else { OPTIONS_3[i - OWN.len()] };
        i += 1;
    }
    all
};

/// BBR version 3 for paths that are changed.
#[derive(Clone, Debug)]
pub struct Bbr3Leo {
    bbr: Bbr3,
    mss: u32,
    watch: Watch,
    path: SlotPath,
    /// Rate while the slot's model holds, in its bandwidths [1/256]: `PROBE_UP`'s, so that a grown capacity is found within a round.
    pacing_gain: u64,
    pacing_margin_percent: u64,
    /// What the slot's model allows [packets]; `None`: BBR's own.
    flight: Option<u64>,
    /// After a time-out: BBR builds its flight up again.
    refill: Option<Refill>,
    rate: Rate,
}

/// What is delivered after a time-out is what the window lets out, packet by packet from one on: a model of that would keep it there. BBR remembers its bandwidth, and is
/// in charge until its flight is that of it; the model wants to have seen that for [`REFILLED_RTTS`].
#[derive(Clone, Copy, Debug, Default)]
struct Refill {
    full_since: Option<Time>,
}

/// RTTs with a full flight before a model is believed again: the packets of the first left in smaller flights. Chosen here.
const REFILLED_RTTS: u64 = 2;

impl Bbr3Leo {
    fn new(config: &Config, options: &Options) -> Self {
        let p = Params::version_3(options);
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // within the range of an option
        let (ratio, rounds) = (|name: &str| (options.get(name) * UNIT as f64) as u64, options.get("bw_rounds") as u64);
        let least = Nanos::from_secs_f64(options.get("queue_ms") / 1e3).unwrap_or(Nanos::MAX);
        let target = Target { least, jitters: ratio("queue_jitters"), part: ratio("queue_part") };
        Self {
            bbr: Bbr3::new(config, &p),
            mss: config.mss,
            watch: Watch::new(options),
            path: SlotPath::new(config.mss, target, rounds),
            pacing_gain: p.up_gain,
            pacing_margin_percent: p.pacing_margin_percent,
            flight: None,
            refill: None,
            rate: Rate(0),
        }
    }

    /// Takes the slot's model for what may be sent, or leaves it to BBR.
    fn decide(&mut self, ack: &AckSample) {
        if let Some(refill) = &mut self.refill
            && (refill.full_since.is_some() || self.bbr.is_refilled())
        {
            let since = *refill.full_since.get_or_insert(ack.now);
            if ack.now.since(since) > Nanos(REFILLED_RTTS * ack.srtt.0) {
                self.refill = None;
            }
        }
        let holds = self.refill.is_none()
            && self.watch.is_leo(ack.now)
            && self.bbr.has_started()
            && !SlotPath::is_lost(ack)
            && !self.path.is_crowded(ack.now);
        self.flight = if holds { self.path.flight(ack.now) } else { None };
        if let (Some(_), Some(bw)) = (self.flight, self.path.bw()) {
            self.rate = bw.pacing_rate(self.pacing_gain, self.mss, self.pacing_margin_percent);
            self.bbr.spare_probe_rtt(ack.now);
        }
    }
}

impl Controller for Bbr3Leo {
    delegate!(bbr: on_established, on_sent, set_cwnd, ssthresh, controls_recovery, sndbuf_factor, min_tso_segments);
    delegate!(watch: on_path_hint);

    fn on_ack(&mut self, ack: &AckSample) {
        if self.watch.on_ack(ack) {
            self.path.on_edge(ack.now);
            self.bbr.forget_path(ack);
        }
        let leo = self.watch.is_leo(ack.now);
        let near = leo && self.watch.is_near(ack.now);
        self.path.on_ack(ack, near, self.bbr.loss_threshold());
        if leo && self.path.is_another(ack.now) {
            self.path.on_edge(ack.now);
            self.bbr.forget_path(ack);
        }
        self.bbr.excuse_losses(near || (leo && self.path.excuses(ack.now)));
        self.bbr.on_ack(ack);
        self.decide(ack);
    }

    fn on_packet_lost(&mut self, lost: &LostPacket) {
        let near = self.watch.is_leo(lost.now) && self.watch.is_near(lost.now);
        self.bbr.excuse_losses(near || (self.watch.is_leo(lost.now) && self.path.excuses(lost.now)));
        self.bbr.on_packet_lost(lost);
    }

    fn on_congestion(&mut self, now: Time, event: Congestion, in_flight: Bytes) {
        match event {
            Congestion::Timeout | Congestion::TimeoutAgain => {
                self.flight = None;
                self.refill = Some(Refill::default());
            }
            // It fills what there is. A loss in a smaller window says nothing of that.
            Congestion::Loss if self.bbr.is_refilled() => self.refill = None,
            // There was no time-out.
            Congestion::Undo => self.refill = None,
            Congestion::Loss | Congestion::Ecn | Congestion::TailLoss | Congestion::RecoveryEnd | Congestion::Restart(_) => {}
        }
        self.bbr.on_congestion(now, event, in_flight);
    }

    fn cwnd(&self) -> Bytes {
        self.flight.map_or_else(|| self.bbr.cwnd(), |packets| Bytes(packets.saturating_mul(u64::from(self.mss))))
    }

    fn pacing_rate(&self) -> Option<Rate> {
        if self.flight.is_some() { Some(self.rate) } else { self.bbr.pacing_rate() }
    }

    fn observe(&self, probe: &mut dyn Probe) {
        self.bbr.observe(probe);
        if let Some(beat) = self.watch.beat() {
            probe.value("clock_period_s", beat.period.as_secs_f64());
            probe.value("clock_confidence", beat.confidence());
        }
        if self.flight.is_some() {
            probe.state("slot");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Driver, controller, state_of};
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

    /// Everything sent for a while is lost, and a time-out finds it: what one packet an RTT delivers is no model of the path.
    #[test]
    fn after_a_time_out_the_flight_is_built_up_as_bbr_does() {
        let flights = |name: &str| {
            let mut driver = Driver::new(controller(name), RTT, 100, 400);
            for ms in 0..90_000 {
                driver.ack_batch = (ms % 15_000 >= 7_000 && ms % 15_000 < 7_080).then_some(Nanos::from_millis(80));
                driver.run(Time(ms * 1_000_000));
            }
            let before = driver.state();
            // Three time-outs, one after the other: one packet an RTT, and no more of it than the model remembers.
            for _ in 0..3 {
                driver.time_out(driver.now() + RTT + RTT);
                driver.run(driver.now() + RTT + Nanos::from_millis(8));
            }
            // One lost by chance, long before the flight is built up.
            driver.drop.insert(driver.transmissions() + 20);
            (before, driver.trace(RTT, 24))
        };
        let ((_, parent), (before, ours)) = (flights("bbr3"), flights("bbr3-leo"));
        assert_eq!(before, "slot");
        let full = |sizes: &[u64]| sizes.iter().position(|&packets| packets >= 90);
        assert!(full(&ours).is_some() && full(&ours) <= full(&parent).map(|n| n + 1), "{ours:?} {parent:?}");
    }

    /// A bottleneck that stands still for 80 ms every 15 s: ACKs come late by as much.
    fn interrupted(name: &str, seconds: u64) -> (u64, Vec<&'static str>) {
        let mut driver = Driver::new(controller(name), RTT, 100, 400);
        let (mut most, mut states) = (0, Vec::new());
        for ms in 0..seconds * 1000 {
            driver.ack_batch = (ms % 15_000 >= 7_000 && ms % 15_000 < 7_080).then_some(Nanos::from_millis(80));
            driver.run(Time(ms * 1_000_000));
            if ms > 30_000 {
                most = most.max(driver.controller.cwnd().0);
            }
            let state = state_of(driver.controller.as_ref());
            if states.last() != Some(&state) {
                states.push(state);
            }
        }
        (most, states)
    }

    #[test]
    fn on_a_path_that_is_changed_it_keeps_its_flight_short() {
        let ((parent, _), (ours, states)) = (interrupted("bbr3", 60), interrupted("bbr3-leo", 60));
        assert!(states.contains(&"slot"), "{states:?}");
        assert!(ours < parent, "{ours} {parent}");
    }
}
