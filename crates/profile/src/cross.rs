//! Cross traffic: cross traffic on a path, drawn one after the other.
//!
//! Transfers begin as a Poisson process, as sessions of users do (Paxson and Floyd, *Wide Area Traffic: The Failure of Poisson Modeling*, 1995: of
//! sessions it holds), and their sizes are Pareto between two bounds, many short and a few long ones (Crovella and Bestavros, *Self-Similarity in World
//! Wide Web Traffic*, 1997: tail index 1.0 to 1.3):
//!
//! ```text
//! P(size > x) = ((L/x)^α − (L/H)^α) / (1 − (L/H)^α),   L ≤ x ≤ H
//! ```
//! What they offer does not depend on what they get: when a path serves them badly, more of them are open at once.

use crate::error::ProfileError;
use crate::experiment::Experiment;
use crate::path::Direction;
use crate::rng::{Stream, Streams};
use crate::units::{Bytes, Nanos, Rate, Time};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Most transfers that one source may be expected to begin. Chosen here: a million take a simulator hours.
pub const MOST_TRANSFERS: f64 = 1e6;

/// A source of transfers that begin and end while the Experiment runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CrossTraffic {
    /// Role of the Profile they run on.
    pub profile: String,
    /// The way their data goes.
    pub direction: Direction,
    /// Their controller.
    pub controller: String,
    /// Its options.
    #[serde(default)]
    pub options: BTreeMap<String, f64>,
    /// Mean over long times of the bytes that new transfers bring [bit/s], without headers.
    pub offered_bps: Rate,
    /// How large they are.
    pub sizes: TransferSizes,
    /// Name of the sending hosts' settings; `None`: the defaults.
    #[serde(default)]
    pub sender: Option<String>,
    /// Name of the receiving hosts' settings.
    #[serde(default)]
    pub receiver: Option<String>,
}

/// A Pareto distribution between two bounds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TransferSizes {
    /// L: none is smaller.
    pub least_bytes: Bytes,
    /// H: none is larger.
    pub most_bytes: Bytes,
    /// α: the smaller, the more of the bytes are in the largest transfers.
    pub tail_index: f64,
}

impl TransferSizes {
    /// Mean size [bytes].
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

    /// The size that a fraction `below` of transfers are smaller than.
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
    /// That it can be drawn and belongs to the Experiment.
    ///
    /// # Errors
    /// The first field that is wrong; `index` is its place in the Experiment.
    pub fn check(&self, index: usize, experiment: &Experiment) -> Result<(), ProfileError> {
        let bad = |name: &str, found: String, wanted: &str| {
            Err(ProfileError::Experiment { field: format!("cross[{index}].{name}"), found, wanted: wanted.to_owned() })
        };
        if !experiment.profiles.iter().any(|p| p.role == self.profile) {
            return bad("profile", self.profile.clone(), "the role of one of the Experiment's Profiles");
        }
        for (what, host) in [("sender", &self.sender), ("receiver", &self.receiver)] {
            if let Some(name) = host.as_ref().filter(|n| !experiment.hosts.contains_key(*n)) {
                return bad(what, name.clone(), "a name in hosts");
            }
        }
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
        let transfers = experiment.duration_ns.as_secs_f64() / self.mean_gap_s();
        if transfers > MOST_TRANSFERS {
            return bad("offered_bps", format!("{transfers:.3e} transfers"), "at most a million in a run: larger transfers, or fewer");
        }
        Ok(())
    }

    /// When its transfers begin and how large they are; `name` keeps it apart from other sources of the Experiment.
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

/// Transfers without end: when each begins (since the run's beginning) and its size.
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
            options: BTreeMap::new(),
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
            // The distribution's own quantiles: a mean without the noise of draws.
            let mean = (0..n).map(|i| sizes.quantile((f64::from(i) + 0.5) / f64::from(n)).0 as f64).sum::<f64>() / f64::from(n);
            assert!((mean / sizes.mean_bytes() - 1.0).abs() < 0.01, "{tail_index}: {mean} {}", sizes.mean_bytes());
            assert_eq!((sizes.quantile(0.0), sizes.quantile(1.0)), (Bytes(20_000), Bytes(10_000_000)));
        }
        let same = TransferSizes { most_bytes: Bytes(20_000), ..source(1.2).sizes };
        assert!((same.mean_bytes() - 20_000.0).abs() < 1e-9 && same.quantile(0.7) == Bytes(20_000));
    }

    #[test]
    fn what_arrives_is_what_is_offered_and_a_name_keeps_sources_apart() {
        let offered = |name| {
            let arrivals = source(1.2).arrivals(name, Streams::new(3)).take_while(|(at, _)| *at < Time(300_000_000_000));
            arrivals.map(|(_, size)| size.0 as f64 * 8.0).sum::<f64>() / 300.0
        };
        assert!((offered("0") / 80e6 - 1.0).abs() < 0.1, "{}", offered("0"));
        assert!((offered("0") - offered("0")).abs() < 1e-9 && (offered("0") - offered("1")).abs() > 1.0);
    }
}
