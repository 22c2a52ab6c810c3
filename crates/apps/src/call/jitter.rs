//! How long a receiver holds frames so that they are shown at even intervals: an estimate of their jitter after libwebrtc's, and the delay that
//! follows it slowly.

use bentpipe_profile::{Nanos, Time};

/// Slope before the first frame [ms/byte]: that of 512 kbit/s.
const FIRST_SLOPE: f64 = 8.0 / 512.0;
/// Variances of slope and offset: first, and per frame.
const FIRST_VARIANCES: [f64; 2] = [1e-4, 1e2];
const PROCESS_VARIANCES: [f64; 2] = [2.5e-10, 1e-10];
/// Weight of the old value in the average size, and decay of the largest size per frame.
const SIZE_AVERAGE: f64 = 0.97;
const LARGEST_DECAY: f64 = 0.9999;
/// Frames over which the noise is averaged at most.
const NOISE_FRAMES: f64 = 400.0;
/// Standard deviations: bound of a frame's delay, outlier in delay, outlier in size.
const DELAY_BOUND: f64 = 3.5;
const DELAY_OUTLIER: f64 = 15.0;
const SIZE_OUTLIER: f64 = 3.0;
/// Noise that the buffer covers: standard deviations less an offset [ms].
const NOISE_DEVIATIONS: f64 = 2.33;
const NOISE_OFFSET_MS: f64 = 30.0;
/// What the operating system adds [ms].
const SYSTEM_MS: f64 = 10.0;
/// From so many retransmitted frames on, within [`NACK_SPAN`], the buffer waits for a retransmission.
const NACKED_FRAMES: u32 = 3;
const NACK_SPAN: Nanos = Nanos::from_secs(60);
/// Longest delay of frames in the buffer [ms].
const LONGEST_MS: f64 = 10_000.0;
/// Change of the delay per second of video [ms/s].
const CHANGE_MS_PER_S: f64 = 100.0;

/// The delay of a receiver's frames.
#[derive(Debug)]
pub struct Jitter {
    slope: f64,
    offset_ms: f64,
    /// Covariance of both: variances and what they share.
    variances: [f64; 2],
    covariance: f64,
    average_bytes: f64,
    variance_bytes: f64,
    largest_bytes: f64,
    noise_mean_ms: f64,
    noise_variance: f64,
    noise_count: f64,
    before: Option<(Time, Time, f64)>,
    /// Whether the buffer waits for retransmissions at all.
    holds_rtt: bool,
    nacked: u32,
    last_nacked: Option<Time>,
    /// Mean of arrival less capture over the frames that were not retransmitted [ms], and their number.
    transit: (f64, f64),
    /// Present delay on top of the mean transit [ms].
    delay_ms: Option<f64>,
    last_shown: Option<Time>,
    decode_and_display_ms: f64,
}

impl Jitter {
    /// Create it. `decode_and_display`: time from leaving the buffer to the display; `holds_rtt`: whether it waits for
    /// retransmissions once there were some.
    #[must_use]
    pub fn new(decode_and_display: Nanos, holds_rtt: bool) -> Self {
        Self {
            slope: FIRST_SLOPE,
            offset_ms: 0.0,
            variances: FIRST_VARIANCES,
            covariance: 0.0,
            average_bytes: 500.0,
            variance_bytes: 100.0,
            largest_bytes: 500.0,
            noise_mean_ms: 0.0,
            noise_variance: 4.0,
            noise_count: 1.0,
            before: None,
            holds_rtt,
            nacked: 0,
            last_nacked: None,
            transit: (0.0, 0.0),
            delay_ms: None,
            last_shown: None,
            decode_and_display_ms: decode_and_display.as_millis_f64(),
        }
    }

    /// Take in a complete frame.
    pub fn on_complete(&mut self, now: Time, captured: Time, bytes: u32, was_retransmitted: bool) {
        if was_retransmitted {
            self.nacked += 1;
            self.last_nacked = Some(now);
            return; // its delay is that of the retransmission
        }
        let (sum, count) = self.transit;
        let transit_ms = now.since(captured).as_millis_f64();
        self.transit = (sum + (transit_ms - sum) / (count + 1.0), count + 1.0);
        let bytes = f64::from(bytes);
        let before = self.before.replace((now, captured, bytes));
        let Some((arrival, capture, size)) = before.filter(|(_, capture, _)| captured > *capture) else { return };
        let delay_ms = now.since(arrival).as_millis_f64() - captured.since(capture).as_millis_f64();
        self.update(delay_ms, bytes, bytes - size);
    }

    fn update(&mut self, delay_ms: f64, bytes: f64, change: f64) {
        let deviation = self.noise_variance.sqrt();
        self.average_bytes = SIZE_AVERAGE * self.average_bytes + (1.0 - SIZE_AVERAGE) * bytes;
        let from_average = bytes - self.average_bytes;
        self.variance_bytes = (SIZE_AVERAGE * self.variance_bytes + (1.0 - SIZE_AVERAGE) * from_average * from_average).max(1.0);
        self.largest_bytes = (LARGEST_DECAY * self.largest_bytes).max(bytes);
        let bound = DELAY_BOUND * deviation + 0.5;
        let delay_ms = delay_ms.clamp(-bound, bound);
        let residual = delay_ms - (self.slope * change + self.offset_ms);
        let is_large = bytes > self.average_bytes + SIZE_OUTLIER * self.variance_bytes.sqrt();
        if residual.abs() >= DELAY_OUTLIER * deviation && !is_large {
            self.add_noise(DELAY_OUTLIER.copysign(residual) * deviation);
            return;
        }
        self.add_noise(residual);
        // A frame that is much smaller than the one before it waited behind that one.
        if change > -0.25 * self.largest_bytes {
            self.update_line(delay_ms, change);
        }
    }

    /// Kalman filter of the line: delay = slope × change of size + offset.
    fn update_line(&mut self, delay_ms: f64, change: f64) {
        let [a, b] = [0, 1].map(|i| self.variances[i] + PROCESS_VARIANCES[i]);
        let c = self.covariance;
        let gains = [a * change + c, c * change + b];
        let noise = (300.0 * libm::exp(-change.abs() / self.largest_bytes) + 1.0) * self.noise_variance.sqrt();
        let scale = noise.max(1.0) + change * gains[0] + gains[1];
        let gains = gains.map(|gain| gain / scale);
        let residual = delay_ms - (self.slope * change + self.offset_ms);
        self.slope = (self.slope + gains[0] * residual).max(1e-6);
        self.offset_ms += gains[1] * residual;
        self.variances = [a - gains[0] * (change * a + c), b - gains[1] * (change * c + b)];
        self.covariance = c - gains[0] * (change * c + b);
    }

    fn add_noise(&mut self, residual_ms: f64) {
        self.noise_count = (self.noise_count + 1.0).min(NOISE_FRAMES);
        let keep = (self.noise_count - 1.0) / self.noise_count;
        self.noise_mean_ms = keep * self.noise_mean_ms + (1.0 - keep) * residual_ms;
        let from_mean = residual_ms - self.noise_mean_ms;
        self.noise_variance = (keep * self.noise_variance + (1.0 - keep) * from_mean * from_mean).max(1.0);
    }

    /// Return the delay that covers the jitter [ms].
    fn wanted_ms(&mut self, now: Time, rtt: Nanos) -> f64 {
        let noise = (NOISE_DEVIATIONS * self.noise_variance.sqrt() - NOISE_OFFSET_MS).max(1.0);
        let sizes = self.slope * (self.largest_bytes - self.average_bytes);
        if self.last_nacked.is_some_and(|at| now.since(at) > NACK_SPAN) {
            self.nacked = 0;
        }
        let retransmission = if self.holds_rtt && self.nacked >= NACKED_FRAMES { rtt.as_millis_f64() } else { 0.0 };
        (sizes + noise + SYSTEM_MS + retransmission + self.decode_and_display_ms).clamp(0.0, LONGEST_MS)
    }

    /// Return when a complete frame leaves the buffer for the decoder.
    pub fn release_at(&mut self, now: Time, captured: Time, rtt: Nanos) -> Time {
        let wanted = self.wanted_ms(now, rtt);
        let delay = *self.delay_ms.get_or_insert(wanted);
        let since_capture = (self.transit.0 + delay - self.decode_and_display_ms).max(0.0);
        captured + Nanos::from_secs_f64(since_capture / 1e3).unwrap_or(Nanos::ZERO)
    }

    /// Take in that a frame left the buffer at `now`, and was to leave at `due`.
    pub fn on_release(&mut self, now: Time, due: Time, captured: Time, rtt: Nanos) {
        let wanted = self.wanted_ms(now, rtt);
        let delay = *self.delay_ms.get_or_insert(wanted);
        let video_s = self.last_shown.map_or(0.0, |before| captured.since(before).as_secs_f64());
        self.last_shown = Some(captured);
        let most = CHANGE_MS_PER_S * video_s;
        let moved = delay + (wanted - delay).clamp(-most, most);
        // A late frame moves the delay at once, as far as the jitter wants it.
        let late_ms = now.since(due).as_millis_f64();
        self.delay_ms = Some(if late_ms > 0.0 { (moved + late_ms).min(wanted).max(moved) } else { moved });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Frames of 5,000 bytes each 33 ms with these additional delays [ms]; the mean time in the buffer over the last half.
    fn held_ms(delays_ms: impl Fn(u64) -> u64, retransmitted: impl Fn(u64) -> bool, holds_rtt: bool) -> f64 {
        let mut jitter = Jitter::new(Nanos::from_millis(13), holds_rtt);
        let (mut sum, frames) = (0.0, 2000);
        for frame in 0..frames {
            let captured = Time(frame * 33_000_000);
            let arrival = captured + Nanos::from_millis(40 + delays_ms(frame));
            jitter.on_complete(arrival, captured, 5000, retransmitted(frame));
            let due = jitter.release_at(arrival, captured, Nanos::from_millis(80));
            let released = due.max(arrival);
            jitter.on_release(released, due, captured, Nanos::from_millis(80));
            sum += if frame >= frames / 2 { released.since(arrival).as_millis_f64() } else { 0.0 };
        }
        sum / (frames / 2) as f64
    }

    #[test]
    fn even_frames_wait_little_and_jitter_makes_them_wait() {
        let even = held_ms(|_| 0, |_| false, true);
        assert!((8.0..16.0).contains(&even), "{even}");
        let uneven = held_ms(|frame| frame * frame * 31 % 59, |_| false, true);
        assert!(uneven > even + 10.0, "{uneven}");
    }

    #[test]
    fn retransmitted_frames_add_an_rtt_where_the_buffer_holds_it() {
        let lossy = |holds| held_ms(|frame| if frame % 100 == 0 { 80 } else { 0 }, |frame| frame % 100 == 0, holds);
        assert!((80.0..100.0).contains(&lossy(true)), "{}", lossy(true));
        assert!(lossy(false) < 20.0, "{}", lossy(false));
    }
}
