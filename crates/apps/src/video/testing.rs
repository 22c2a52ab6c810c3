//! Videos and paths for this module's tests.

use super::observation::Video;
use bentpipe_profile::video::{Outlook, VideoPolicy, VideoSpec};
use bentpipe_profile::{Bytes, Nanos};

/// Qualities of the Pensieve video [bit/s].
const RATES_BPS: [u64; 6] = [300_000, 750_000, 1_200_000, 1_850_000, 2_850_000, 4_300_000];

/// A player of chunks of 4 s at constant bitrates.
pub fn spec(chunks: usize, cap_s: f64, policy: VideoPolicy, outlook: Option<Outlook>) -> VideoSpec {
    VideoSpec {
        rates_bps: RATES_BPS.to_vec(),
        chunk_bytes: RATES_BPS.iter().map(|bps| vec![Bytes(bps / 2); chunks]).collect(),
        chunk_ns: Nanos::from_secs(4),
        buffer_ns: Nanos::from_secs_f64(cap_s).unwrap(),
        policy,
        outlook,
    }
}

/// The video of [`spec`].
pub fn video(chunks: usize, cap_s: f64) -> Video {
    Video::new(&spec(chunks, cap_s, VideoPolicy::Mpc, None))
}
