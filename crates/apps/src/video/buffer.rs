//! By the buffer alone: the lowest quality below a reservoir, the highest above a cushion, linear between (Huang et al., SIGCOMM 2014, BBA-0;
//! reservoir and cushion as in Pensieve's `bb.py`).

use super::{Observation, Policy};

/// Below this buffer the lowest quality [s].
const RESERVOIR_S: f64 = 5.0;
/// Buffer from there to the highest quality [s].
const CUSHION_S: f64 = 10.0;
/// Share of the buffer cap at which the highest quality begins at the latest: Huang et al., section 4, have the upper reservoir at 90 %.
const UPPER: f64 = 0.9;

/// The policy.
#[derive(Clone, Copy, Debug)]
pub struct Buffer;

impl Policy for Buffer {
    fn choose(&mut self, seen: &Observation<'_>) -> usize {
        let highest = seen.video.qualities() - 1;
        let reservoir_s = RESERVOIR_S.min(seen.video.buffer_cap_s / 2.0);
        let cushion_s = CUSHION_S.min(UPPER * seen.video.buffer_cap_s - reservoir_s);
        let share = ((seen.buffer_s - reservoir_s) / cushion_s).clamp(0.0, 1.0);
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // 0 to the highest quality
        let quality = (share * highest as f64) as usize;
        quality.min(highest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::video::testing::video;

    #[test]
    fn quality_rises_with_the_buffer_from_lowest_to_highest() {
        for cap_s in [12.0, 60.0] {
            let video = video(12, cap_s);
            let at =
                |buffer_s| Buffer.choose(&Observation { video: &video, now_s: 0.0, next: 1, last_quality: 0, buffer_s, downloads: &[] });
            let qualities: Vec<_> = (0..=30).map(|half| at(f64::from(half) / 2.0)).collect();
            assert!(qualities.is_sorted() && qualities[8] == 0, "{qualities:?}");
            assert_eq!(at(cap_s), 5);
        }
    }
}
