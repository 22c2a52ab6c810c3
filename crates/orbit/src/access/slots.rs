//! What is drawn once a slot. Slots are numbered since 1970, and each draws from streams of its own number.

use super::load;
use super::params::{AccessParams, FRAME_PERIODS};
use crate::schedule::SlotGrid;
use bentpipe_profile::rng::Stream;
use bentpipe_profile::{Direction, Streams};

/// What chance decided about one slot.
#[derive(Clone, Debug, PartialEq)]
pub struct SlotDraw {
    /// Its number since 1970.
    pub number: i64,
    /// Load that the delay follows, relative to a median hour, > 0: the hour's and the Profile's to the power of
    /// [`super::params::DelayParams::load_power`], times the slot's own factor.
    pub load: f64,
    /// Load of the hour and the Profile, which capacity and loss follow.
    pub common_load: f64,
    /// Frames between two grant opportunities, of either direction.
    pub period_frames: i64,
    /// How long the reconfiguration at its begin stops the uplink [ns].
    pub interruption_ns: i64,
    /// How long it stops the downlink [ns], and so both directions.
    pub down_interruption_ns: i64,
    /// Delay behind the cell's queue, constant over the slot [ns].
    pub offset_ns: f64,
}

impl SlotDraw {
    /// How long the reconfiguration at its begin stops a direction [ns].
    #[must_use]
    pub const fn stopped_ns(&self, direction: Direction) -> i64 {
        match direction {
            Direction::Up => self.interruption_ns,
            Direction::Down => self.down_interruption_ns,
        }
    }
}

/// Draws slots; a pure function of their number.
#[derive(Clone, Copy, Debug)]
pub struct SlotSource<'a> {
    params: &'a AccessParams,
    streams: Streams,
    grid: SlotGrid,
    lon_deg: f64,
    /// The Profile's part of the load, drawn once.
    profile_log: f64,
}

impl<'a> SlotSource<'a> {
    /// Slots over a site at this longitude.
    #[must_use]
    pub fn new(params: &'a AccessParams, streams: Streams, grid: SlotGrid, lon_deg: f64) -> Self {
        let profile_log = load::profile_log(&params.load, streams);
        Self { params, streams, grid, lon_deg, profile_log }
    }

    /// The stream called `what` of a slot.
    #[must_use]
    pub fn stream(&self, what: &str, number: i64) -> Stream {
        self.streams.stream(&format!("{what}/slot:{number}"))
    }

    /// What chance decided about slot `number`.
    #[must_use]
    pub fn draw(&self, number: i64) -> SlotDraw {
        let common = self.common_log(number);
        let mut once = self.stream("slot", number);
        let load = libm::exp(self.params.delay.load_power * common + self.params.load.slot_log_sigma * once.normal());
        let period_frames = self.period(once.uniform());
        let interruption = &self.params.delay.interruption;
        let interruption_ms =
            once.log_normal(libm::log(interruption.median_ms.max(1e-9)), interruption.log_sigma).min(interruption.longest_ms);
        #[allow(clippy::cast_possible_truncation)] // at most `longest_ms`
        let interruption_ns = if interruption.median_ms > 0.0 { (interruption_ms * 1e6) as i64 } else { 0 };
        #[allow(clippy::cast_possible_truncation)] // a part of it
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

    fn common_log(&self, number: i64) -> f64 {
        load::daily_log(&self.params.load, self.grid.start_of(number).0, self.lon_deg) + self.profile_log
    }

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

    /// The slot's offset [ms]: drawn anew, or that of the slot before. Looks back only as far as the offset was kept.
    fn offset_ms(&self, number: i64) -> f64 {
        let q = &self.params.delay.queue;
        // A slot keeps its predecessor's offset with a probability of at most 0.9, so 500 looks back end with certainty (0.9^500 < 1e-22).
        for back in 0..500 {
            let mut stream = self.stream("offset", number - back);
            if stream.uniform() < q.keep_probability {
                continue;
            }
            let load = libm::exp(self.params.delay.load_power * self.common_log(number - back));
            let usual_ms = q.mean_ms * load * stream.exponential(1.0);
            let raised = stream.uniform() < q.raised_probability;
            let raised_ms = stream.exponential(q.raised_mean_ms);
            return (usual_ms + if raised { raised_ms } else { 0.0 }).min(q.largest_ms);
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
    fn offsets_last_as_often_as_asked() {
        let params = AccessParams::default();
        let source = SlotSource::new(&params, Streams::new(5), SlotGrid::default(), 0.0);
        let offsets: Vec<_> = (0..20_000).map(|n| source.offset_ms(n)).collect();
        let kept = offsets.windows(2).filter(|w| w[0].to_bits() == w[1].to_bits()).count() as f64 / 19_999.0;
        assert!((kept - params.delay.queue.keep_probability).abs() < 0.015, "{kept}");
        assert!(offsets.iter().all(|&ms| (0.0..=params.delay.queue.largest_ms).contains(&ms)));
    }
}
