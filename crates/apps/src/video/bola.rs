//! BOLA-BASIC: the quality with the most utility for its bytes, minus what the buffer has already (Spiteri, Urgaonkar and Sitaraman, INFOCOM 2016;
//! parameters as in their Sabre).

use super::{Observation, Policy};

/// Utility of a second without a stall, in utilities of quality: γp, Sabre's default.
const GAMMA_P: f64 = 5.0;

/// The policy.
#[derive(Clone, Copy, Debug)]
pub struct Bola;

impl Policy for Bola {
    fn choose(&mut self, seen: &Observation<'_>) -> usize {
        let rates = &seen.video.rates_mbps;
        let utility = |quality: usize| libm::log(rates[quality] / rates[0]);
        // V: the buffer at which the highest quality is worth as much as waiting is the cap less a chunk.
        let target_s = (seen.video.buffer_cap_s - seen.video.chunk_s).max(seen.video.chunk_s);
        let control = target_s / (utility(rates.len() - 1) + GAMMA_P);
        let score = |quality: usize| (control * (utility(quality) + GAMMA_P) - seen.buffer_s) / rates[quality];
        (0..rates.len()).fold(0, |best, quality| if score(quality) > score(best) { quality } else { best })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::video::testing::video;

    #[test]
    fn quality_rises_with_the_buffer() {
        let video = video(12, 60.0);
        let at = |buffer_s| Bola.choose(&Observation { video: &video, now_s: 0.0, next: 1, last_quality: 0, buffer_s, downloads: &[] });
        let qualities: Vec<_> = (0..=56).map(|second| at(f64::from(second))).collect();
        assert!(qualities.is_sorted() && qualities[0] == 0 && qualities[56] == 5, "{qualities:?}");
    }
}
