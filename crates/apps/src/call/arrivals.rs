//! When a frame is expected: a line through the arrivals of frames over their capture times, by recursive least squares without forgetting, as
//! libwebrtc's `TimestampExtrapolator`. A lasting change of the delay gives its offset a new start.

use bentpipe_profile::Time;

/// Variance of the slope at the start, and of the offset at the start and after a change of the delay, in ticks of 1/90 ms.
const FIRST_SLOPE_VARIANCE: f64 = 1.0;
const FIRST_OFFSET_VARIANCE: f64 = 1e10;
/// Ticks in a millisecond.
const TICKS: f64 = 90.0;
/// CUSUM detector of a change [ticks]: a deviation counts up to `LARGEST`, less `DRIFT`, and both sums raise the alarm at `ALARM`.
const DRIFT: f64 = 6600.0;
const LARGEST: f64 = 7000.0;
const ALARM: f64 = 60_000.0;
/// Frames before the line is used.
const FIRST_FRAMES: u32 = 2;

/// The line: capture time in ticks = slope × arrival in ms + offset, both since the first frame.
#[derive(Debug, Default)]
pub struct ArrivalLine {
    first: Option<(Time, Time)>,
    newest_capture: Time,
    newest_arrival: Time,
    slope: f64,
    offset: f64,
    /// Variances of slope and offset, and their covariance.
    variances: [f64; 2],
    covariance: f64,
    count: u32,
    above: f64,
    below: f64,
}

impl ArrivalLine {
    /// Take in a frame's arrival.
    pub fn add(&mut self, arrival: Time, captured: Time) {
        let (first_arrival, first_capture) = *self.first.get_or_insert_with(|| {
            self.slope = TICKS;
            self.variances = [FIRST_SLOPE_VARIANCE, FIRST_OFFSET_VARIANCE];
            (arrival, captured)
        });
        if captured < self.newest_capture || captured < first_capture || arrival < first_arrival {
            return;
        }
        let at_ms = arrival.since(first_arrival).as_millis_f64();
        let residual = captured.since(first_capture).as_millis_f64() * TICKS - (self.slope * at_ms + self.offset);
        if self.has_changed(residual) && self.count >= FIRST_FRAMES {
            self.variances[1] = FIRST_OFFSET_VARIANCE;
        }
        let [a, b] = self.variances;
        let c = self.covariance;
        let gains = [a * at_ms + c, c * at_ms + b];
        let scale = 1.0 + at_ms * gains[0] + gains[1];
        let gains = gains.map(|gain| gain / scale);
        self.slope += gains[0] * residual;
        self.offset += gains[1] * residual;
        self.variances = [a - gains[0] * (at_ms * a + c), b - gains[1] * (at_ms * c + b)];
        self.covariance = c - gains[0] * (at_ms * c + b);
        self.newest_capture = captured;
        self.newest_arrival = arrival;
        self.count = (self.count + 1).min(FIRST_FRAMES);
    }

    fn has_changed(&mut self, residual: f64) -> bool {
        let deviation = residual.clamp(-LARGEST, LARGEST);
        self.above = (self.above + deviation - DRIFT).max(0.0);
        self.below = (self.below + deviation + DRIFT).min(0.0);
        let is_alarm = self.above > ALARM || self.below < -ALARM;
        if is_alarm {
            (self.above, self.below) = (0.0, 0.0);
        }
        is_alarm
    }

    /// Return when a frame is expected, in milliseconds after its capture; `None`: nothing arrived.
    #[must_use]
    pub fn expected_ms(&self, captured: Time) -> Option<f64> {
        let (first_arrival, first_capture) = self.first?;
        let base_ms = first_arrival.since(first_capture).as_millis_f64();
        if self.count < FIRST_FRAMES || self.slope < 1e-3 {
            return Some(self.newest_arrival.since(self.newest_capture).as_millis_f64());
        }
        let since_ms = captured.since(first_capture).as_millis_f64();
        Some(base_ms + (since_ms * TICKS - self.offset) / self.slope - since_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bentpipe_profile::Nanos;

    fn line(delays_ms: impl Fn(u64) -> u64, frames: u64) -> f64 {
        let mut line = ArrivalLine::default();
        for frame in 0..frames {
            let captured = Time(frame * 33_333_333);
            line.add(captured + Nanos::from_millis(delays_ms(frame)), captured);
        }
        line.expected_ms(Time(frames * 33_333_333)).expect("frames arrived")
    }

    #[test]
    fn the_line_goes_through_the_mean_of_arrivals() {
        assert!((line(|_| 40, 300) - 40.0).abs() < 0.01);
        let uneven = line(|frame| 40 + frame % 2 * 10, 1000);
        assert!((uneven - 45.0).abs() < 0.5, "{uneven}");
    }

    #[test]
    fn a_lasting_change_is_followed_and_a_small_one_only_slowly() {
        // 90 ms more exceed the detector's drift of 73 ms; 20 ms do not.
        let large = line(|frame| if frame < 900 { 40 } else { 140 }, 1500);
        assert!((large - 140.0).abs() < 20.0, "{large}");
        let small = line(|frame| if frame < 900 { 40 } else { 60 }, 930);
        assert!(small > 40.0 && small < 50.0, "{small}");
    }
}
