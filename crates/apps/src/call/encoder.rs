//! Sizes of the frames that a video encoder makes of a target rate.

use bentpipe_profile::rng::Stream;

/// A key frame has this multiple of the mean size.
const KEY_FRAME_SIZES: f64 = 4.0;
/// Frames over which an encoder makes up for one that was too large or too small.
const REPAY_FRAMES: f64 = 10.0;
/// Standard deviation of the logarithm of a frame's size around the wanted one.
const SIZE_DEVIATION: f64 = 0.15;
/// Least size of a frame [bytes].
const LEAST_BYTES: f64 = 100.0;

/// An encoder with a constant number of frames per second.
#[derive(Debug)]
pub struct Encoder {
    draws: Stream,
    /// Bytes made so far beyond the target.
    debt: f64,
    wants_key: bool,
}

/// An encoded frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Whether it needs no other frame.
    pub is_key: bool,
    /// Its size [bytes].
    pub bytes: u32,
}

impl Encoder {
    /// Create an encoder whose first frame is a key frame.
    #[must_use]
    pub const fn new(draws: Stream) -> Self {
        Self { draws, debt: 0.0, wants_key: true }
    }

    /// Make the next frame a key frame.
    pub const fn request_key_frame(&mut self) {
        self.wants_key = true;
    }

    /// Return whether the next frame is a key frame.
    #[must_use]
    pub const fn wants_key(&self) -> bool {
        self.wants_key
    }

    /// Encode a frame; `mean_bytes`: size of a frame at the target rate.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // far below 2^32, above 0
    pub fn encode(&mut self, mean_bytes: f64) -> Frame {
        let is_key = std::mem::take(&mut self.wants_key);
        let wanted = if is_key { KEY_FRAME_SIZES * mean_bytes } else { mean_bytes - self.debt / REPAY_FRAMES };
        let size = (wanted * self.draws.log_normal(0.0, SIZE_DEVIATION)).max(LEAST_BYTES);
        self.debt = (self.debt + size - mean_bytes).clamp(-REPAY_FRAMES * mean_bytes, REPAY_FRAMES * mean_bytes);
        Frame { is_key, bytes: size as u32 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bentpipe_profile::Streams;

    #[test]
    fn the_mean_rate_is_the_target_and_key_frames_are_made_up_for() {
        let mut encoder = Encoder::new(Streams::new(3).stream("call"));
        let frames: Vec<Frame> = (0..3000).map(|_| encoder.encode(5000.0)).collect();
        assert!(frames[0].is_key && frames[0].bytes > 10_000 && !frames[1].is_key);
        let mean = frames.iter().map(|frame| f64::from(frame.bytes)).sum::<f64>() / 3000.0;
        assert!((mean / 5000.0 - 1.0).abs() < 0.02, "{mean}");
        encoder.request_key_frame();
        assert!(encoder.encode(5000.0).is_key && !encoder.encode(5000.0).is_key);
    }
}
