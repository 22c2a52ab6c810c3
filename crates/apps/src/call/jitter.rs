//! How long a receiver holds frames so that they are shown at even intervals: an estimate of their jitter, and a delay that late frames raise up to
//! it, both after libwebrtc (`JitterEstimator`, `VCMTiming`, `VideoStreamBufferController`).

use super::arrivals::ArrivalLine;
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
/// Standard deviations: bound of a frame's delay, outlier in delay, outlier in size, and size up to which a frame counts for the average.
const DELAY_BOUND: f64 = 3.5;
const DELAY_OUTLIER: f64 = 15.0;
const SIZE_OUTLIER: f64 = 3.0;
const SIZE_AVERAGED: f64 = 2.0;
/// Noise that the buffer covers: standard deviations less an offset [ms].
const NOISE_DEVIATIONS: f64 = 2.33;
const NOISE_OFFSET_MS: f64 = 30.0;
/// What the operating system adds, and the time from decoder to display that the target contains [ms].
const SYSTEM_MS: f64 = 10.0;
const RENDER_MS: f64 = 10.0;
/// From so many retransmitted frames on, within [`NACK_SPAN`], the target contains this share of the RTT, and at most [`MOST_RTT_MS`].
/// (`RttMultExperiment`. It takes the place of the older rule that FEC on the connection sets the share to zero.)
const NACKED_FRAMES: u32 = 3;
const NACK_SPAN: Nanos = Nanos::from_secs(60);
const RTT_SHARE: f64 = 0.9;
const MOST_RTT_MS: f64 = 200.0;
/// Longest delay of frames in the buffer [ms].
const LONGEST_MS: f64 = 10_000.0;

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
    arrivals: ArrivalLine,
    /// Present delay of the display after the expected arrival [ms].
    delay_ms: Option<f64>,
    decode_ms: f64,
}

/// What a released frame tells.
#[derive(Clone, Copy, Debug)]
pub struct Released {
    /// When it was captured.
    pub captured: Time,
    /// When it was complete.
    pub complete: Time,
    /// Its size [bytes].
    pub bytes: u32,
    /// Whether a packet of it had been asked for again.
    pub was_retransmitted: bool,
}

impl Jitter {
    /// Create it. `decode`: time to decode a frame; `holds_rtt`: whether it waits for retransmissions once there were some.
    #[must_use]
    pub fn new(decode: Nanos, holds_rtt: bool) -> Self {
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
            arrivals: ArrivalLine::default(),
            delay_ms: None,
            decode_ms: decode.as_millis_f64(),
        }
    }

    /// Take in a complete frame. The arrival of a retransmitted one says nothing about the path's delay.
    pub fn on_complete(&mut self, now: Time, captured: Time, was_retransmitted: bool) {
        if !was_retransmitted {
            self.arrivals.add(now, captured);
        }
    }

    fn add_frame(&mut self, frame: Released) {
        let bytes = f64::from(frame.bytes);
        let before = self.before.replace((frame.complete, frame.captured, bytes));
        let Some((arrival, capture, size)) = before.filter(|(_, capture, _)| frame.captured > *capture) else { return };
        let delay_ms = frame.complete.0 as f64 / 1e6 - arrival.0 as f64 / 1e6 - frame.captured.since(capture).as_millis_f64();
        self.update(delay_ms, bytes, bytes - size);
    }

    fn update(&mut self, delay_ms: f64, bytes: f64, change: f64) {
        let deviation = self.noise_variance.sqrt();
        let average = SIZE_AVERAGE * self.average_bytes + (1.0 - SIZE_AVERAGE) * bytes;
        if bytes < self.average_bytes + SIZE_AVERAGED * self.variance_bytes.sqrt() {
            self.average_bytes = average;
        }
        let from_average = bytes - average;
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
        // A frame that is much smaller than the one before it waited behind that one.
        if change > -0.25 * self.largest_bytes {
            self.add_noise(residual);
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
    fn jitter_ms(&mut self, now: Time, rtt: Nanos) -> f64 {
        let noise = (NOISE_DEVIATIONS * self.noise_variance.sqrt() - NOISE_OFFSET_MS).max(1.0);
        let sizes = self.slope * (self.largest_bytes - self.average_bytes);
        if self.last_nacked.is_some_and(|at| now.since(at) > NACK_SPAN) {
            self.nacked = 0;
        }
        let waits = self.holds_rtt && self.nacked >= NACKED_FRAMES;
        let retransmission = if waits { (RTT_SHARE * rtt.as_millis_f64()).min(MOST_RTT_MS) } else { 0.0 };
        ((sizes + noise).clamp(1.0, LONGEST_MS) + SYSTEM_MS + retransmission).min(LONGEST_MS)
    }

    /// Return when a complete frame leaves the buffer for the decoder.
    #[must_use]
    pub fn release_at(&self, now: Time, captured: Time) -> Time {
        let expected_ms = self.arrivals.expected_ms(captured).unwrap_or_else(|| now.since(captured).as_millis_f64());
        let since_capture = (expected_ms + self.delay_ms.unwrap_or(0.0) - self.decode_ms - RENDER_MS).max(0.0);
        captured + Nanos::from_secs_f64(since_capture / 1e3).unwrap_or(Nanos::ZERO)
    }

    /// Take in that a frame left the buffer at `now`, and was to leave at `due`. A late one raises the delay, as far as the target.
    pub fn on_release(&mut self, now: Time, due: Time, frame: Released, rtt: Nanos) {
        if frame.was_retransmitted {
            self.nacked += 1;
            self.last_nacked = Some(now);
            return;
        }
        self.add_frame(frame);
        let jitter = self.jitter_ms(now, rtt);
        let target = jitter + self.decode_ms + RENDER_MS;
        let delay = *self.delay_ms.get_or_insert(jitter);
        if now >= due {
            self.delay_ms = Some((delay + now.since(due).as_millis_f64()).min(target));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Frames of 5,000 bytes each 33 ms with these additional delays [ms], decoded in order; the mean time in the buffer over the last half.
    fn held_ms(delays_ms: impl Fn(u64) -> u64, retransmitted: impl Fn(u64) -> bool, holds_rtt: bool) -> f64 {
        let mut jitter = Jitter::new(Nanos::from_millis(3), holds_rtt);
        let (mut sum, frames, mut free) = (0.0, 2000, Time::ZERO);
        for frame in 0..frames {
            let captured = Time(frame * 33_000_000);
            let arrival = captured + Nanos::from_millis(40 + delays_ms(frame));
            jitter.on_complete(arrival, captured, retransmitted(frame));
            let due = jitter.release_at(arrival, captured);
            let released = due.max(arrival).max(free);
            free = released;
            let shown = Released { captured, complete: arrival, bytes: 5000, was_retransmitted: retransmitted(frame) };
            jitter.on_release(released, due, shown, Nanos::from_millis(80));
            sum += if frame >= frames / 2 { released.since(arrival).as_millis_f64() } else { 0.0 };
        }
        sum / (frames / 2) as f64
    }

    #[test]
    fn even_frames_wait_little_and_jitter_makes_them_wait() {
        let even = held_ms(|_| 0, |_| false, true);
        assert!(even < 12.0, "{even}");
        let uneven = held_ms(|frame| frame * frame * 31 % 59, |_| false, true);
        assert!(uneven > even + 10.0, "{uneven}");
    }

    #[test]
    fn frames_that_wait_behind_a_retransmission_raise_the_delay_up_to_the_rtt() {
        let lossy = |holds| held_ms(|frame| if frame % 50 == 0 { 80 } else { 0 }, |frame| frame % 50 == 0, holds);
        let (held, not_held) = (lossy(true), lossy(false));
        // The first frame behind it is 80 - 33 ms late.
        assert!((40.0..60.0).contains(&held), "{held}");
        assert!(not_held < 20.0, "{not_held}");
    }

    #[test]
    fn retransmitted_frames_alone_do_not_raise_the_delay() {
        // They are in time, as after a repair: the target contains the RTT, and no frame is late.
        let repaired = held_ms(|_| 0, |frame| frame % 50 == 0, true);
        assert!(repaired < 12.0, "{repaired}");
    }
}
