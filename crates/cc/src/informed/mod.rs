//! `bbr3-leo` with knowledge that no sender has: the value of each piece of it. Not deployable.
//!
//! - `known_losses`: a packet that was dropped, but by no queue, is not lost for the controller. It sees neither the loss nor a recovery for it alone.
//! - `known_capacity`: the bandwidth of the slot model is that of the path to come, as the mean of the next RTT or as a forecast: the mean of each second, with a random
//!   error. `known_with_measured` combines it with the flow's own measurement.
//! - `known_triggers`: firings of a trigger are announcements of reconfigurations that have just happened.

mod forecast;
mod losses;
mod triggers;

use super::bbr3_leo::Bbr3Leo;
use super::hints::Needs;
use super::knowledge::Knowledge;
use super::leo::monitor::{HINTS, Hints};
use super::registry::{Config, Entry};
use super::{AckSample, Congestion, Controller, LostPacket, PathHint};
use bentpipe_profile::tunables::{OptionSet, switch};
use bentpipe_profile::{Bytes, Time};
use forecast::Expectation;
use losses::HiddenLosses;
use triggers::Triggers;

/// `informed` in the registry.
pub const ENTRY: Entry = Entry {
    name: "informed",
    status: "not deployable: for studies",
    description: "bbr3-leo that is told the capacity to come, firings of a trigger, or which losses are no congestion",
    citation: "bentpipe, docs/design/023-ceiling.md",
    needs: Needs::Future,
    options: Options::SPECS,
    build: |config, values| Box::new(Informed::new(config, Options::read(values))),
};

options! {
    /// Options of `informed`.
    pub struct Options {
        losses: bool = switch("known_losses", "drops by no queue are no losses", false, "chosen here: nothing is known"),
        hints: Hints = HINTS,
        ..forecast: forecast::Options,
        ..triggers: triggers::Options,
    }
}

/// `bbr3-leo` with knowledge of the path.
#[derive(Clone, Debug)]
pub struct Informed {
    leo: Bbr3Leo,
    mss: u32,
    hears_schedule: bool,
    expectation: Expectation,
    triggers: Triggers,
    losses: Option<HiddenLosses>,
}

impl Informed {
    fn new(config: &Config, options: Options) -> Self {
        // Firings are announcements, too: a controller that knows only them takes no others.
        let hints = if options.triggers.is_known { Hints::Schedule } else { options.hints };
        Self {
            leo: Bbr3Leo::hinted(config, hints),
            mss: config.mss,
            hears_schedule: options.hints == Hints::Schedule,
            expectation: Expectation::new(options.forecast, config.mss, config.streams),
            triggers: Triggers::new(options.triggers),
            losses: options.losses.then(HiddenLosses::default),
        }
    }
}

impl Controller for Informed {
    delegate!(
        leo: on_established, on_sent, cwnd, set_cwnd, ssthresh, pacing_rate, controls_recovery, sndbuf_factor, min_tso_segments, max_rto, observe
    );

    fn on_path_hint(&mut self, hint: &PathHint) {
        if self.hears_schedule {
            self.leo.on_path_hint(hint);
        }
    }

    fn on_knowledge(&mut self, knowledge: &Knowledge<'_>) {
        match knowledge {
            Knowledge::Capacity(steps) => self.expectation.on_capacity(steps),
            Knowledge::PingRtts(rtts) => self.triggers.on_rtts(rtts),
            Knowledge::RandomLoss(seq) => {
                if let Some(losses) = &mut self.losses {
                    losses.dropped.insert(*seq);
                }
            }
        }
    }

    fn on_ack(&mut self, ack: &AckSample) {
        let seen = self.losses.as_mut().map_or(*ack, |losses| losses.seen_ack(ack));
        while let Some(at) = self.triggers.next(ack.now) {
            self.leo.on_path_hint(&PathHint::Reconfiguration(at));
        }
        self.leo.expect_bandwidth(self.expectation.on_ack(ack));
        self.leo.on_ack(&seen);
    }

    fn on_packet_lost(&mut self, lost: &LostPacket) {
        let seen = self.losses.as_mut().map_or(Some(*lost), |losses| losses.seen(lost, self.mss));
        if let Some(seen) = seen {
            self.leo.on_packet_lost(&seen);
        }
    }

    fn on_congestion(&mut self, now: Time, event: Congestion, in_flight: Bytes) {
        if self.losses.as_mut().is_none_or(|losses| losses.sees(event)) {
            self.leo.on_congestion(now, event, in_flight);
        }
    }
}
