//! Values drawn once per slot. Slots are numbered since 1970. Each slot draws from streams keyed by its number.

use super::load;
use super::params::{AccessParams, FRAME_PERIODS};
use crate::schedule::SlotGrid;
use crate::track::{self, TrackPoint};
use bentpipe_profile::rng::Stream;
use bentpipe_profile::{Direction, Streams};

/// The random values of one slot.
#[derive(Clone, Debug, PartialEq)]
pub struct SlotDraw {
    /// Number of the slot since 1970.
    pub number: i64,
    /// Load that determines the delay, relative to a median hour, > 0: load of the hour and the Profile to the power of
    /// [`super::params::DelayParams::load_power`], times the slot's own factor.
    pub load: f64,
    /// Load of the hour and the Profile, which determines capacity and loss.
    pub common_load: f64,
    /// Frames between two grant opportunities, in both directions.
    pub period_frames: i64,
    /// Interruption of the uplink by the reconfiguration at the slot's start [ns].
    pub interruption_ns: i64,
    /// Interruption of the downlink, during which both directions are interrupted [ns].
    pub down_interruption_ns: i64,
    /// Queueing delay of the cell, constant over the slot [ns].
    pub offset_ns: f64,
}

impl SlotDraw {
    /// Return the interruption of a direction by the reconfiguration at the slot's start [ns].
    #[must_use]
    pub const fn interruption_of(&self, direction: Direction) -> i64 {
        match direction {
            Direction::Up => self.interruption_ns,
            Direction::Down => self.down_interruption_ns,
        }
    }
}

/// Draws slots, as a pure function of their number.
#[derive(Clone, Copy, Debug)]
pub struct SlotSource<'a> {
    params: &'a AccessParams,
    streams: Streams,
    grid: SlotGrid,
    lon_deg: f64,
    /// Positions of a moving terminal; empty: it stays at `lon_deg`.
    track: &'a [TrackPoint],
    /// ln of the Profile's load factor, drawn stream.
    profile_log: f64,
}

impl<'a> SlotSource<'a> {
    /// Create the source of slots for a site at this longitude.
    #[must_use]
    pub fn new(params: &'a AccessParams, streams: Streams, grid: SlotGrid, lon_deg: f64) -> Self {
        let profile_log = load::profile_log(&params.load, streams);
        Self { params, streams, grid, lon_deg, track: &[], profile_log }
    }

    /// Take the longitude of each slot from a track, if it has points.
    #[must_use]
    pub const fn on_track(self, track: &'a [TrackPoint]) -> Self {
        Self { track, ..self }
    }

    /// Return the stream called `name` of a slot.
    #[must_use]
    pub fn stream(&self, name: &str, number: i64) -> Stream {
        self.streams.stream(&format!("{name}/slot:{number}"))
    }

    /// Draw the random values of slot `number`.
    #[must_use]
    pub fn draw(&self, number: i64) -> SlotDraw {
        let common = self.common_log(number);
        let mut stream = self.stream("slot", number);
        let load = libm::exp(self.params.delay.load_power * common + self.params.load.slot_log_sigma * stream.normal());
        let period_frames = self.period(stream.uniform());
        let interruption = &self.params.delay.interruption;
        let interruption_ms =
            stream.log_normal(libm::log(interruption.median_ms.max(1e-9)), interruption.log_sigma).min(interruption.longest_ms);
        #[allow(clippy::cast_possible_truncation)] // at most `longest_ms`
        let interruption_ns = if interruption.median_ms > 0.0 { (interruption_ms * 1e6) as i64 } else { 0 };
        #[allow(clippy::cast_possible_truncation)] // a fraction of it
        let down_interruption_ns = (interruption_ns as f64 * interruption.down_share) as i64;
        SlotDraw {
            number,
            load,
            common_load: libm::exp(common),
            period_frames,
            interruption_ns,
            down_interruption_ns,
            offset_ns: self.offset_ms(number) * 1e6,
        }
    }

    /// Return ln of the load of the hour and the Profile.
    fn common_log(&self, number: i64) -> f64 {
        let at = self.grid.start_of(number);
        let lon_deg = if self.track.is_empty() { self.lon_deg } else { track::position(self.track, at).lon_deg };
        load::daily_log(&self.params.load, at.0, lon_deg) + self.profile_log
    }

    /// Choose the grant period by its weight.
    fn period(&self, uniform: f64) -> i64 {
        let weights = &self.params.delay.grants.period_weights;
        let mut left = uniform * weights.iter().sum::<f64>();
        for (&frames, &weight) in FRAME_PERIODS.iter().zip(weights) {
            left -= weight;
            if left < 0.0 {
                return frames;
            }
        }
        FRAME_PERIODS[FRAME_PERIODS.len() - 1]
    }

    /// Return the slot's offset [ms]: a new draw, or that of the previous slot. Goes back as far as the offset was kept.
    fn offset_ms(&self, number: i64) -> f64 {
        let q = &self.params.delay.queue;
        // A slot keeps its predecessor's offset with a probability of at most 0.9, so 500 steps back suffice (0.9^500 < 1e-22).
        for back in 0..500 {
            let mut stream = self.stream("offset", number - back);
            if stream.uniform() < q.keep_probability {
                continue;
            }
            let load = libm::exp(self.params.delay.load_power * self.common_log(number - back));
            let base_ms = q.mean_ms * load * stream.exponential(1.0);
            let raised = stream.uniform() < q.raised_probability;
            let raised_ms = stream.exponential(q.raised_mean_ms);
            return (base_ms + if raised { raised_ms } else { 0.0 }).min(q.largest_ms);
        }
        0.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_is_a_function_of_its_number_and_the_seed() {
        let params = AccessParams::default();
        let draw = |seed, n| SlotSource::new(&params, Streams::new(seed), SlotGrid::default(), 0.0).draw(n);
        assert_eq!(draw(1, 9), draw(1, 9));
        assert_ne!(draw(1, 9), draw(2, 9));
        assert_ne!(draw(1, 9), draw(1, 10));
    }

    #[test]
    fn offsets_are_kept_with_their_probability() {
        let params = AccessParams::default();
        let source = SlotSource::new(&params, Streams::new(5), SlotGrid::default(), 0.0);
        let offsets: Vec<_> = (0..20_000).map(|n| source.offset_ms(n)).collect();
        let kept = offsets.windows(2).filter(|w| w[0].to_bits() == w[1].to_bits()).count() as f64 / 19_999.0;
        assert!((kept - params.delay.queue.keep_probability).abs() < 0.015, "{kept}");
        assert!(offsets.iter().all(|&ms| (0.0..=params.delay.queue.largest_ms).contains(&ms)));
    }
}
