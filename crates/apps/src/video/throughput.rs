//! The mean of past throughputs and its errors, as in the `RobustMPC` that comes with Pensieve (`mpc.py`).

use super::Download;

/// Chunks that count: `S_LEN` and `MPC_FUTURE_CHUNK_COUNT` of Pensieve, 5 in Yin et al., section 7.1.
pub const PAST: usize = 5;

/// Return the harmonic mean of the last throughputs [bit/s]; `None` before the first chunk.
#[must_use]
pub fn harmonic_bps(downloads: &[Download]) -> Option<f64> {
    let last = &downloads[downloads.len().saturating_sub(PAST)..];
    let inverses: f64 = last.iter().map(|each| 1.0 / each.throughput_bps()).sum();
    (!last.is_empty()).then(|| last.len() as f64 / inverses)
}

/// Predictions and their largest error of late.
#[derive(Clone, Debug, Default)]
pub struct Errors {
    predicted_bps: Option<f64>,
    relative: Vec<f64>,
}

impl Errors {
    /// Compare the last prediction with the last throughput, and make the next. Returns it and the largest of the last errors, |predicted − actual| / actual.
    pub fn next(&mut self, downloads: &[Download]) -> Option<(f64, f64)> {
        let actual = downloads.last()?.throughput_bps();
        let error = self.predicted_bps.map_or(0.0, |predicted| (predicted - actual).abs() / actual);
        self.relative.push(error);
        let predicted = harmonic_bps(downloads)?;
        self.predicted_bps = Some(predicted);
        let last = &self.relative[self.relative.len().saturating_sub(PAST)..];
        Some((predicted, last.iter().fold(0.0, |most, error| error.max(most))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(mbps: f64) -> Download {
        Download { bytes: mbps * 1e6 / 8.0, first_byte_s: 0.1, took_s: 1.0 }
    }

    #[test]
    fn the_mean_is_harmonic_and_of_the_last_five() {
        assert_eq!(harmonic_bps(&[]), None);
        let downloads: Vec<_> = [9.0, 1.0, 2.0, 1.0, 2.0, 1.0].map(at).to_vec();
        assert!((harmonic_bps(&downloads).unwrap() - 1.25e6).abs() < 1.0, "5 / (3 / 1 + 2 / 2)");
    }

    #[test]
    fn an_error_counts_for_five_chunks() {
        let (mut errors, mut downloads, mut most) = (Errors::default(), vec![at(2.0)], vec![]);
        errors.next(&downloads);
        for mbps in [1.0, 2.0, 2.0, 2.0, 2.0, 2.0, 2.0] {
            downloads.push(at(mbps));
            most.push(errors.next(&downloads).unwrap().1);
        }
        assert!((most[0] - 1.0).abs() < 1e-9, "2 predicted, 1 came");
        assert!(most[4] >= 1.0 - 1e-9 && most[5] < 0.5, "{most:?}");
    }
}
