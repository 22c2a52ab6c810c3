//! Cross traffic: transfers of other users on the path, drawn from the seed.
//!
//! Transfers begin as a Poisson process, as sessions of users do (Paxson and Floyd, *Wide Area Traffic: The Failure of Poisson Modeling*, 1995:
//! it holds for sessions). Their sizes follow a bounded Pareto distribution, with many short and a few long transfers (Crovella and Bestavros, *Self-Similarity in World
//! Wide Web Traffic*, 1997: tail index 1.0 to 1.3):
//!
//! ```text
//! P(size > x) = ((L/x)^α − (L/H)^α) / (1 − (L/H)^α),   L ≤ x ≤ H
//! ```
//! The offered load does not depend on the goodput: on a slow path more transfers are open at once.

use crate::direction::Direction;
use crate::error::ProfileError;
use crate::options::OptionValues;
use crate::rng::{Stream, Streams};
use crate::units::{Bytes, Nanos, Rate, Time};
use serde::{Deserialize, Serialize};

/// Limit of the expected number of transfers of one source. Chosen here: a million take the simulator hours.
pub const MAX_TRANSFERS: f64 = 1e6;

/// A source of transfers that begin and end during the Experiment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CrossTraffic {
    /// Role of the Profile that the transfers run on.
    pub profile: String,
    /// Direction of their data.
    pub direction: Direction,
    /// Controller of the transfers.
    pub controller: String,
    /// Options of the controller.
    #[serde(default)]
    pub options: OptionValues,
    /// Offered load: long-term mean of the bytes of new transfers, without headers [bit/s].
    pub offered_bps: Rate,
    /// Distribution of the sizes.
    pub sizes: TransferSizes,
    /// Name of the sending hosts' settings; `None`: the defaults.
    #[serde(default)]
    pub sender: Option<String>,
    /// Name of the receiving hosts' settings; `None`: the defaults.
    #[serde(default)]
    pub receiver: Option<String>,
}

/// A bounded Pareto distribution.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TransferSizes {
    /// L: smallest size.
    pub least_bytes: Bytes,
    /// H: largest size.
    pub most_bytes: Bytes,
    /// α: tail index. The smaller it is, the larger the share of bytes in the largest transfers.
    pub tail_index: f64,
}

impl TransferSizes {
    /// Return the mean size [bytes].
    #[must_use]
    pub fn mean_bytes(&self) -> f64 {
        let (least, most, tail) = (self.least_bytes.0 as f64, self.most_bytes.0 as f64, self.tail_index);
        if self.least_bytes >= self.most_bytes {
            return least;
        }
        let ratio = least / most;
        let inside = 1.0 - libm::pow(ratio, tail);
        if (tail - 1.0).abs() < 1e-9 {
            return least * -libm::log(ratio) / inside;
        }
        least * tail / (tail - 1.0) * (1.0 - libm::pow(ratio, tail - 1.0)) / inside
    }

    /// Return the size below which a fraction `below` of the transfers are.
    #[must_use]
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // between the bounds
    pub fn quantile(&self, below: f64) -> Bytes {
        let (least, most) = (self.least_bytes.0 as f64, self.most_bytes.0 as f64);
        let inside = 1.0 - libm::pow(least / most, self.tail_index);
        let size = least / libm::pow(1.0 - below * inside, 1.0 / self.tail_index);
        Bytes((libm::round(size) as u64).clamp(self.least_bytes.0, self.most_bytes.0))
    }
}

impl CrossTraffic {
    /// Check that the source can be drawn in a run of this duration.
    ///
    /// # Errors
    /// The first invalid field. `index`: position of the source in the Experiment.
    pub fn check(&self, index: usize, duration: Nanos) -> Result<(), ProfileError> {
        let bad = |name: &str, value: String, expected: &str| {
            Err(ProfileError::Experiment { field: format!("cross[{index}].{name}"), value, expected: expected.to_owned() })
        };
        let sizes = &self.sizes;
        if sizes.least_bytes == Bytes(0) || sizes.most_bytes < sizes.least_bytes {
            return bad("sizes", format!("{} to {} bytes", sizes.least_bytes.0, sizes.most_bytes.0), "bounds from 1 byte, in order");
        }
        if !(0.1..=10.0).contains(&sizes.tail_index) {
            return bad("sizes.tail_index", sizes.tail_index.to_string(), "0.1 to 10");
        }
        if self.offered_bps == Rate(0) {
            return bad("offered_bps", "0".to_owned(), "a rate above zero");
        }
        let transfers = duration.as_secs_f64() / self.mean_gap_s();
        if transfers > MAX_TRANSFERS {
            return bad("offered_bps", format!("{transfers:.3e} transfers"), "at most a million in a run: larger transfers, or fewer");
        }
        Ok(())
    }

    /// Draw the start times and sizes of the transfers. `name`: random stream of this source, different for each source.
    #[must_use]
    pub fn arrivals(&self, name: &str, streams: Streams) -> Arrivals {
        Arrivals {
            stream: streams.stream(&format!("cross/{name}")),
            mean_gap_ns: self.mean_gap_s() * 1e9,
            sizes: self.sizes.clone(),
            last: Time::ZERO,
        }
    }

    fn mean_gap_s(&self) -> f64 {
        self.sizes.mean_bytes() * 8.0 / self.offered_bps.0 as f64
    }
}

/// An endless sequence of transfers: start (since the start of the run) and size.
#[derive(Clone, Debug)]
pub struct Arrivals {
    stream: Stream,
    mean_gap_ns: f64,
    sizes: TransferSizes,
    last: Time,
}

impl Iterator for Arrivals {
    type Item = (Time, Bytes);

    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // at most 37 times a gap that `check` bounds below
    fn next(&mut self) -> Option<Self::Item> {
        self.last = self.last + Nanos(self.stream.exponential(self.mean_gap_ns) as u64);
        Some((self.last, self.sizes.quantile(self.stream.uniform())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(tail_index: f64) -> CrossTraffic {
        CrossTraffic {
            profile: "path".to_owned(),
            direction: Direction::Down,
            controller: "cubic".to_owned(),
            options: OptionValues::new(),
            offered_bps: Rate(80_000_000),
            sizes: TransferSizes { least_bytes: Bytes(20_000), most_bytes: Bytes(10_000_000), tail_index },
            sender: None,
            receiver: None,
        }
    }

    #[test]
    fn sizes_stay_in_their_bounds_and_have_the_stated_mean() {
        for tail_index in [0.5, 1.0, 1.2, 2.5] {
            let sizes = source(tail_index).sizes;
            let n = 200_000;
            // Quantiles of the distribution give a mean without sampling noise.
            let mean = (0..n).map(|i| sizes.quantile((f64::from(i) + 0.5) / f64::from(n)).0 as f64).sum::<f64>() / f64::from(n);
            assert!((mean / sizes.mean_bytes() - 1.0).abs() < 0.01, "{tail_index}: {mean} {}", sizes.mean_bytes());
            assert_eq!((sizes.quantile(0.0), sizes.quantile(1.0)), (Bytes(20_000), Bytes(10_000_000)));
        }
        let same = TransferSizes { most_bytes: Bytes(20_000), ..source(1.2).sizes };
        assert!((same.mean_bytes() - 20_000.0).abs() < 1e-9 && same.quantile(0.7) == Bytes(20_000));
    }

    #[test]
    fn the_drawn_load_is_the_offered_load_and_each_name_has_its_own_stream() {
        let offered = |name| {
            let arrivals = source(1.2).arrivals(name, Streams::new(3)).take_while(|(at, _)| *at < Time(300_000_000_000));
            arrivals.map(|(_, size)| size.0 as f64 * 8.0).sum::<f64>() / 300.0
        };
        assert!((offered("0") / 80e6 - 1.0).abs() < 0.1, "{}", offered("0"));
        assert!((offered("0") - offered("0")).abs() < 1e-9 && (offered("0") - offered("1")).abs() > 1.0);
    }
}
