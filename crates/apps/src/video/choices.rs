//! The choices of a player, whoever fetches the chunks: the simulated player, or one outside that reports what arrives.

use super::{Download, Observation, Policy, Video, policy};
use bentpipe_profile::video::VideoSpec;

/// Quality of the first chunk: the second lowest, as the Pensieve player's (`DEFAULT_QUALITY`).
const FIRST_QUALITY: usize = 1;

/// A video, what has arrived of it, and the policy that chooses what comes next.
pub struct Choices {
    video: Video,
    policy: Box<dyn Policy>,
    quality: usize,
    downloads: Vec<Download>,
}

impl Choices {
    /// Begin with a checked specification.
    #[must_use]
    pub fn new(spec: &VideoSpec) -> Self {
        let video = Video::new(spec);
        let quality = FIRST_QUALITY.min(video.qualities() - 1);
        Self { video, policy: policy(spec), quality, downloads: vec![] }
    }

    /// The video.
    #[must_use]
    pub const fn video(&self) -> &Video {
        &self.video
    }

    /// Return the number of the next chunk: as many have arrived.
    #[must_use]
    pub const fn next(&self) -> usize {
        self.downloads.len()
    }

    /// Record a chunk that arrived.
    pub fn arrived(&mut self, download: Download) {
        self.downloads.push(download);
    }

    /// Choose the quality of the next chunk, once for each: policies count how often they choose.
    ///
    /// `now_s` is the time since the start of the run [s], `buffer_s` the playing time in the buffer [s].
    pub fn choose(&mut self, now_s: f64, buffer_s: f64) -> usize {
        let next = self.next();
        if (1..self.video.chunks()).contains(&next) {
            let seen = Observation { video: &self.video, now_s, next, last_quality: self.quality, buffer_s, downloads: &self.downloads };
            self.quality = self.policy.choose(&seen);
        }
        self.quality
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::video::testing::spec;
    use bentpipe_profile::video::VideoPolicy;

    #[test]
    fn the_first_quality_is_fixed_and_the_next_ones_are_the_policys() {
        let mut choices = Choices::new(&spec(3, 12.0, VideoPolicy::Mpc, None));
        assert_eq!((choices.choose(0.0, 0.0), choices.next()), (FIRST_QUALITY, 0));
        choices.arrived(Download { bytes: 375e3, first_byte_s: 0.01, took_s: 0.03 });
        assert_eq!((choices.choose(0.1, 4.0), choices.next()), (5, 1), "100 Mbit/s");
    }
}
