//! A video of chunks and its player, the application `bentpipe_apps::video`.

use crate::units::{Bytes, Nanos};
use serde::{Deserialize, Serialize};

/// Size of a request: a GET with the headers of a browser [bytes].
pub const VIDEO_REQUEST: Bytes = Bytes(400);

/// Least size of a chunk: the header of a message.
const LEAST_CHUNK: Bytes = Bytes(24);

/// How a player chooses qualities.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum VideoPolicy {
    /// Model predictive control with a discount by past errors.
    RobustMpc,
    /// The same without a discount.
    Mpc,
    /// The same over the quantiles of a forecast.
    MpcForecast,
    /// The same with the rates that will be.
    MpcOracle,
    /// By the buffer alone, linearly.
    Buffer,
    /// By the buffer alone, with a utility (BOLA).
    Bola,
}

/// Rates of a path to come, as a plain table: quantiles of mean rates, each over the time from when they are made on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Outlook {
    /// When each forecast is made, rising [s since the start of the run]. It holds until the next.
    pub made_s: Vec<f64>,
    /// Ends of the horizons, rising [s since the forecast was made]: each rate is a mean from then on.
    pub horizons_s: Vec<f64>,
    /// Levels of the quantiles, rising, in 0 to 1.
    pub levels: Vec<f64>,
    /// Rates [bit/s]: for each forecast, for each horizon, for each level.
    pub rates_bps: Vec<f64>,
}

/// A video and its player.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VideoSpec {
    /// Nominal bitrate of each quality, rising [bit/s].
    pub rates_bps: Vec<u64>,
    /// Sizes of the chunks, for each quality.
    pub chunk_bytes: Vec<Vec<Bytes>>,
    /// Playing time of a chunk [ns].
    pub chunk_ns: Nanos,
    /// Buffer above which the player waits before it requests a chunk [ns].
    pub buffer_ns: Nanos,
    /// How it chooses qualities.
    pub policy: VideoPolicy,
    /// Rates to come, of the policies that use them.
    #[serde(default)]
    pub outlook: Option<Outlook>,
}

fn is_rising(values: &[f64]) -> bool {
    values.iter().all(|value| value.is_finite()) && values.windows(2).all(|pair| pair[0] < pair[1])
}

impl Outlook {
    fn problem(&self) -> Option<(&'static str, &'static str)> {
        if self.made_s.is_empty() || !is_rising(&self.made_s) {
            Some(("made_s", "rising times, at least one"))
        } else if self.horizons_s.first().is_none_or(|first| *first <= 0.0) || !is_rising(&self.horizons_s) {
            Some(("horizons_s", "rising times above zero, at least one"))
        } else if self.levels.is_empty() || !is_rising(&self.levels) || self.levels.iter().any(|level| !(0.0..=1.0).contains(level)) {
            Some(("levels", "rising levels in 0 to 1, at least one"))
        } else if self.rates_bps.len() != self.made_s.len() * self.horizons_s.len() * self.levels.len() {
            Some(("rates_bps", "one rate for each forecast, horizon and level"))
        } else if self.rates_bps.iter().any(|rate| !(0.0..=1e15).contains(rate)) {
            Some(("rates_bps", "rates from 0 on"))
        } else {
            None
        }
    }
}

impl VideoSpec {
    /// Return the first invalid parameter and the expected values, if there is one.
    #[must_use]
    pub fn problem(&self) -> Option<(&'static str, &'static str)> {
        let count = self.chunk_bytes.first().map_or(0, Vec::len);
        let needs_outlook = matches!(self.policy, VideoPolicy::MpcForecast | VideoPolicy::MpcOracle);
        if self.rates_bps.is_empty() || self.rates_bps[0] == 0 || self.rates_bps.windows(2).any(|pair| pair[0] >= pair[1]) {
            Some(("rates_bps", "rising rates above zero, at least one"))
        } else if self.rates_bps.len() > 16 {
            Some(("rates_bps", "at most 16 qualities"))
        } else if self.chunk_bytes.len() != self.rates_bps.len() || self.chunk_bytes.iter().any(|sizes| sizes.len() != count) {
            Some(("chunk_bytes", "the sizes of as many chunks for each quality"))
        } else if count == 0 || self.chunk_bytes.iter().flatten().any(|bytes| *bytes < LEAST_CHUNK || bytes.0 > 1 << 40) {
            Some(("chunk_bytes", "chunks of at least 24 bytes"))
        } else if self.chunk_ns == Nanos::ZERO {
            Some(("chunk_ns", "a time above zero"))
        } else if self.buffer_ns < self.chunk_ns {
            Some(("buffer_ns", "at least the playing time of a chunk"))
        } else if needs_outlook && self.outlook.is_none() {
            Some(("outlook", "the rates to come, which this policy uses"))
        } else {
            self.outlook.as_ref().and_then(Outlook::problem)
        }
    }
}
