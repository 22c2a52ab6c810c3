//! Every constant of the access model: unit, value, source. [`AccessParams::default`] is the frozen table.
//!
//! *Fitted* constants come from `python tools/access_model DATA --steps N` on named windows of named pings and days of a dish (that
//! folder's README lists them, and the extent of the search); no site has its own. Constants of capacity are not fitted: each carries its source.
//! Data sets are named by
//! repository: *Victoria* is `clarkzjw/LEOLiveStreaming` (pings of December 2024), *Seattle* `clarkzjw/mmsys24-starlink-livestreaming-data`
//! (September 2023), *`LeoCC`* `SpaceNetLab/LeoCC`, *`FjordLink`* the dish histories of December 2024 to February 2025.

use super::error::AccessError;
use serde::{Deserialize, Serialize};

/// Periods of grant opportunities that occur [frames of 1/750 s]. Source: periodicity of reply times in Victoria.
pub const FRAME_PERIODS: [i64; 5] = [1, 2, 3, 4, 5];

/// Largest rate of episodes or humps at the largest load [1/s]. Chosen here: one per millisecond is permanent loss, and drawing a slot of 15 s stays
/// fast.
pub const MAX_EPISODES_PER_S: f64 = 1000.0;

/// Bound of the draws of a standard normal: 53 bits of a uniform give at most √(2 ln 2⁵³) = 8.6.
const LARGEST_NORMAL: f64 = 9.0;

/// All parameters of the access model.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AccessParams {
    /// Load of the cell.
    pub load: LoadParams,
    /// Delay beyond propagation.
    pub delay: DelayParams,
    /// Capacity of the access.
    pub capacity: CapacityParams,
    /// Loss episodes.
    pub loss: LossParams,
}

/// Load of the cell (see [`super::load`]).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LoadParams {
    /// A: ln of the peak hour's load. Chosen here, with [`CapacityParams::load_power`]: see there.
    pub daily_log_amplitude: f64,
    /// Local solar hour of the peak. Chosen here: evening, as for residential traffic; `FjordLink`'s delay is highest from 19 to 21 h.
    pub peak_solar_hour: f64,
    /// `σ_P`: spread between Profiles. Fitted: in the delay, to [`DelayParams::load_power`], it is that of sessions and hours of one site.
    pub profile_log_sigma: f64,
    /// `σ_S`: spread between slots. Fitted.
    pub slot_log_sigma: f64,
}

impl Default for LoadParams {
    fn default() -> Self {
        Self { daily_log_amplitude: 0.307, peak_solar_hour: 20.0, profile_log_sigma: 0.42, slot_log_sigma: 0.3 }
    }
}

/// Delay beyond propagation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DelayParams {
    /// Processing and every other constant part of a site's RTT [ms, two-way; half in each direction]. Fitted; a site may have its own.
    pub site_offset_ms: f64,
    /// Power of the load (without the slot's own factor) in every delay that depends on the load. Fitted: RTTs
    /// differ less between hours than capacity does.
    pub load_power: f64,
    /// Grant schedule.
    pub grants: GrantParams,
    /// Delay behind cross traffic, varying within tens of milliseconds.
    pub wander: WanderParams,
    /// Delay behind cross traffic, varying over seconds and slots.
    pub queue: QueueParams,
    /// Variation of the waiting time over seconds. Its key in files is `unrest`.
    #[serde(rename = "unrest")]
    pub wait_factor: WaitFactorParams,
    /// Reconfiguration at slot edges.
    pub interruption: InterruptionParams,
}

impl Default for DelayParams {
    fn default() -> Self {
        Self {
            site_offset_ms: 1.6,
            load_power: 0.5,
            grants: GrantParams::default(),
            wander: WanderParams::default(),
            queue: QueueParams::default(),
            wait_factor: WaitFactorParams::default(),
            interruption: InterruptionParams::default(),
        }
    }
}

/// Grant schedule (see [`super::grants`]).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct GrantParams {
    /// Relative frequency of each of [`FRAME_PERIODS`]. Source: 108 slots of Victoria (14 % show no period: every frame).
    pub period_weights: [f64; 5],
    /// `w` up: mean wait beyond the first opportunity at load 1 [ms]. Fitted.
    pub up_wait_ms: f64,
    /// `w` down [ms]. Fitted.
    pub down_wait_ms: f64,
}

impl Default for GrantParams {
    fn default() -> Self {
        Self { period_weights: [0.14, 0.08, 0.44, 0.31, 0.03], up_wait_ms: 3.4, down_wait_ms: 1.0 }
    }
}

/// Wander of the queueing delay (see [`super::queueing`]).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct WanderParams {
    /// m: mean at load 1, before the cut at zero [ms]. Fitted.
    pub mean_ms: f64,
    /// c: standard deviation over mean. Fitted.
    pub relative_sigma: f64,
    /// τ: correlation time [ms]. Fitted: below the step of the wander's points, which are then nearly independent.
    pub time_ms: f64,
}

impl Default for WanderParams {
    fn default() -> Self {
        Self { mean_ms: 5.4, relative_sigma: 0.9, time_ms: 10.7 }
    }
}

/// Offsets and humps of the queueing delay (see [`super::queueing`]).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct QueueParams {
    /// Mean of a slot's exponential offset at load 1 [ms]. Fitted.
    pub mean_ms: f64,
    /// Probability that a slot keeps the offset of the previous one. Chosen here: runs of raised slots in Victoria are one to three long.
    pub keep_probability: f64,
    /// Probability that a slot is raised (tens of milliseconds more, for the whole slot). Fitted.
    pub raised_probability: f64,
    /// Mean of the exponential raise [ms]. Fitted.
    pub raised_mean_ms: f64,
    /// Rate at which humps start at load 1 [1/s]. Fitted.
    pub hump_rate_per_s: f64,
    /// Mean of a hump's exponential height [ms]. Fitted.
    pub hump_mean_ms: f64,
    /// Mean of a hump's exponential duration [s]. Chosen here: humps of Victoria last about a second.
    pub hump_length_s: f64,
    /// Upper limit of offsets and humps [ms]. Chosen here: the largest floor of a slot is 150 ms above the site's in Seattle, 65 in Victoria; the
    /// largest of `FjordLink`'s 9,600 slot means is 101 ms above.
    pub largest_ms: f64,
}

impl Default for QueueParams {
    fn default() -> Self {
        Self {
            mean_ms: 1.5,
            keep_probability: 0.3,
            raised_probability: 0.13,
            raised_mean_ms: 15.0,
            hump_rate_per_s: 0.085,
            hump_mean_ms: 15.2,
            hump_length_s: 0.8,
            largest_ms: 150.0,
        }
    }
}

/// Variation of the waiting time (see [`super::wait_factor`]).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct WaitFactorParams {
    /// σ of the factor's logarithm. Fitted.
    pub log_sigma: f64,
    /// Correlation time [s]. Fitted.
    pub time_s: f64,
    /// Mean of the exponential excess after a reconfiguration, when the interruption ends. Fitted.
    pub edge_excess: f64,
    /// Time constant of the excess's decay [s]. Fitted.
    pub edge_time_s: f64,
}

impl Default for WaitFactorParams {
    fn default() -> Self {
        Self { log_sigma: 0.307, time_s: 0.313, edge_excess: 0.659, edge_time_s: 0.536 }
    }
}

/// Interruption of the uplink at a slot's start, log-normal. The downlink's is a fraction of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct InterruptionParams {
    /// Median [ms]; a site may have its own. Source: largest RTT at the edge over the slot's median in the fitted windows of Victoria (57 / 63 / 78 / 117 /
    /// 139 ms at 10 / 25 / 50 / 75 / 90 %), which includes waiting after the interruption. Seattle's, a year before, are shorter (53 ms). Fitted from there.
    pub median_ms: f64,
    /// σ of its logarithm: the same quantiles.
    pub log_sigma: f64,
    /// Fraction of the interruption after which the downlink continues, 0 to 1. Source: Victoria's pings sent in the last 20 ms before an edge, of which only
    /// the replies meet it, have a median raised by 41 ms (a quarter not at all); those sent in the 20 ms after it, by 74 ms.
    pub down_share: f64,
    /// Upper limit of interruptions [ms]. Chosen here, above the largest RTT of those pings at an edge (299 ms).
    pub longest_ms: f64,
}

impl Default for InterruptionParams {
    fn default() -> Self {
        Self { median_ms: 83.8, log_sigma: 0.336, down_share: 0.5, longest_ms: 300.0 }
    }
}

/// Capacity (see [`super::capacity`]).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CapacityParams {
    /// Terminal to Internet.
    pub up: CapacitySide,
    /// Internet to terminal.
    pub down: CapacitySide,
    /// κ: capacity falls with this power of the load (without the slot's own factor, which the variation below includes). Chosen here: peak and quiet
    /// hours then differ by 1.8; Huston, *A Transport Protocol's View of Starlink* (2024), has 3 to 4 for CUBIC and less for BBR.
    pub load_power: f64,
    /// Signal-to-noise ratio at the zenith [dB], for the fall towards the horizon. Chosen here: by Shannon 4 bit/s/Hz overhead, of which 56 % are
    /// left at 25° of elevation.
    pub zenith_snr_db: f64,
    /// Spread between slots (ln). Source: `LeoCC`'s example trace, with the two below: variance 0.086 in 100 ms bins, correlation 0.8 / 0.57 / 0.26
    /// after 0.1 / 1 / 5 s.
    pub slot_log_sigma: f64,
    /// Slow variation within a slot (ln).
    pub slow_log_sigma: f64,
    /// Its correlation time [s].
    pub slow_time_s: f64,
    /// Variation from step to step (ln).
    pub fast_log_sigma: f64,
}

/// One direction of the capacity.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CapacitySide {
    /// Median at the zenith, at load 1 [Mbit/s].
    pub median_mbps: f64,
    /// Lower limit [Mbit/s].
    pub least_mbps: f64,
    /// Upper limit [Mbit/s].
    pub most_mbps: f64,
    /// Size of its drop-tail queue [bytes].
    pub queue_bytes: u64,
}

impl Default for CapacityParams {
    /// Medians: down 120 (8 months of 4-hourly tests, 10 to 370; Huston 2024), 178 (Belgium 2022, at most 386; Michel et al., IMC 2022), 286 (moving
    /// vehicle, Osnabrück 2024): 200 at load 1 lies between. Up 15 (5 to 50), 17 (at most 64) and 16.9. Queues: chosen here, 100 ms down and 200 ms
    /// up at those rates: deep, as Huston infers from the delay at handovers.
    fn default() -> Self {
        Self {
            up: CapacitySide { median_mbps: 17.0, least_mbps: 2.0, most_mbps: 64.0, queue_bytes: 425_000 },
            down: CapacitySide { median_mbps: 200.0, least_mbps: 10.0, most_mbps: 386.0, queue_bytes: 2_500_000 },
            load_power: 1.0,
            zenith_snr_db: 12.0,
            slot_log_sigma: 0.10,
            slow_log_sigma: 0.24,
            slow_time_s: 4.0,
            fast_log_sigma: 0.14,
        }
    }
}

/// Loss episodes (see [`super::loss`]).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LossParams {
    /// Terminal to Internet.
    pub up: LossSide,
    /// Internet to terminal.
    pub down: LossSide,
    /// Probability that a reconfiguration drops the last packets before its interruption, and independently the first ones after it, in one
    /// direction. Source: `SatGuard` and T3P have a burst at each handover.
    pub reconfiguration_probability: f64,
    /// The rate of episodes is proportional to this power of the load. Episodes at reconfigurations do not depend on it. An assumption: no measurement at hand shows
    /// whether loss depends on the hour (an idle dish of `FjordLink` lost 0.07 to 0.22 % in five hours from 11 to 21 h, 0.16 % at 21 h, in no order).
    pub load_power: f64,
    /// Least time between the starts of two episodes of a slot, and between an episode and the slot's edges [s]; those at reconfigurations come all the
    /// same. 0: episodes start independently. With a gap the mean time between starts is the gap plus the inverse of the rate.
    #[serde(skip_serializing_if = "is_zero")]
    pub least_gap_s: f64,
    /// Median duration of an episode [ms]. Source, with the spread: gaps of several pings in Victoria's fitted session last
    /// 48 to 67 ms, three of 50 last 90; of a second's 15 pings `FjordLink`'s dish loses one in nine of ten lossy seconds.
    pub length_median_ms: f64,
    /// Median duration of an episode at a reconfiguration [ms]; `None`: that of the others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reconfiguration_length_median_ms: Option<f64>,
    /// σ of its logarithm. Source: the same.
    pub length_log_sigma: f64,
    /// Probability that a packet inside an episode is lost. On downloads over three quarters of loss events are of several packets (Michel et al.,
    /// IMC 2022): with independent losses that share is this probability, less the share that falls beyond an episode's ends.
    pub probability_inside: f64,
}

/// One direction of the loss process.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LossSide {
    /// Rate of episodes at load 1, without those at reconfigurations [1/s].
    pub episodes_per_s: f64,
}

/// Whether a parameter has its default of 0. Left out of a recipe, it leaves the hashes of Profiles as they were before it existed.
#[allow(clippy::trivially_copy_pass_by_ref)] // serde calls it
fn is_zero(value: &f64) -> bool {
    *value == 0.0
}

impl Default for LossParams {
    /// Loss of a path under load, from published figures: bursts every 3 to 5 s, always one at a handover, 0.9 % of packets (`SatGuard`, WWW 2024, figure
    /// 5); 1.56 % down and 1.96 % up under bulk QUIC (Michel et al., IMC 2022), which is an episode each 1.4 s and 1.1 s at this length. The rates lie
    /// between the two, and the uplink has Michel's 1.25 times the downlink's. It is the loss environment `busy`; the others are data
    /// (`python/bentpipe/scenarios/loss.toml`).
    ///
    /// To print the resulting loss rates over hours and Profiles: `cargo test -p bentpipe-orbit the_level_over_hours -- --nocapture`. Known deviations:
    /// `python/bentpipe/validation/access_model/README.md`.
    fn default() -> Self {
        Self {
            up: LossSide { episodes_per_s: 0.5 },
            down: LossSide { episodes_per_s: 0.4 },
            reconfiguration_probability: 0.5,
            load_power: 1.0,
            least_gap_s: 0.0,
            length_median_ms: 20.0,
            reconfiguration_length_median_ms: None,
            length_log_sigma: 0.7,
            probability_inside: 0.8,
        }
    }
}

impl AccessParams {
    /// Check that every value is in its range.
    ///
    /// # Errors
    /// [`AccessError::Parameter`] for the first value out of range.
    pub fn check(&self) -> Result<(), AccessError> {
        let (load, delay, queue, grants) = (&self.load, &self.delay, &self.delay.queue, &self.delay.grants);
        let (capacity, loss) = (&self.capacity, &self.loss);
        let share = 0.0..=1.0;
        for (name, value) in [
            ("queue.raised_probability", queue.raised_probability),
            ("interruption.down_share", delay.interruption.down_share),
            ("loss.probability_inside", loss.probability_inside),
            ("loss.reconfiguration_probability", loss.reconfiguration_probability),
            ("queue.keep_probability / 0.9", queue.keep_probability / 0.9),
        ] {
            within(name, value, share.clone(), "0 to 1")?;
        }
        for (name, value) in [
            ("load.daily_log_amplitude", load.daily_log_amplitude),
            ("load.profile_log_sigma", load.profile_log_sigma),
            ("load.slot_log_sigma", load.slot_log_sigma),
            ("wander.relative_sigma", delay.wander.relative_sigma),
            ("delay.load_power", delay.load_power),
            ("unrest.log_sigma", delay.wait_factor.log_sigma),
            ("unrest.edge_excess / 10", delay.wait_factor.edge_excess / 10.0),
            ("interruption.log_sigma", delay.interruption.log_sigma),
            ("capacity.load_power", capacity.load_power),
            ("capacity.slot_log_sigma", capacity.slot_log_sigma),
            ("capacity.slow_log_sigma", capacity.slow_log_sigma),
            ("capacity.fast_log_sigma", capacity.fast_log_sigma),
            ("loss.load_power", loss.load_power),
            ("loss.length_log_sigma", loss.length_log_sigma),
        ] {
            within(name, value, 0.0..=4.0, "0 to 4")?;
        }
        for (name, value) in [
            ("delay.site_offset_ms", delay.site_offset_ms),
            ("grants.up_wait_ms", grants.up_wait_ms),
            ("grants.down_wait_ms", grants.down_wait_ms),
            ("wander.mean_ms", delay.wander.mean_ms),
            ("queue.mean_ms", queue.mean_ms),
            ("queue.raised_mean_ms", queue.raised_mean_ms),
            ("queue.hump_mean_ms", queue.hump_mean_ms),
            ("queue.largest_ms", queue.largest_ms),
            ("interruption.median_ms", delay.interruption.median_ms),
            ("interruption.longest_ms", delay.interruption.longest_ms),
        ] {
            within(name, value, 0.0..=2000.0, "0 to 2000 ms")?;
        }
        for (name, value) in [
            ("queue.hump_rate_per_s", queue.hump_rate_per_s),
            ("loss.up.episodes_per_s", loss.up.episodes_per_s),
            ("loss.down.episodes_per_s", loss.down.episodes_per_s),
        ] {
            within(name, value, 0.0..=50.0, "0 to 50 a second")?;
        }
        // The rates grow exponentially with the load's spread. A rate too large to draw is refused here.
        let hour_and_profile = load.daily_log_amplitude + LARGEST_NORMAL * load.profile_log_sigma;
        let any_slot = delay.load_power * hour_and_profile + LARGEST_NORMAL * load.slot_log_sigma;
        for (name, per_s, log_load) in [
            ("loss.up.episodes_per_s at the largest load", loss.up.episodes_per_s, loss.load_power * hour_and_profile),
            ("loss.down.episodes_per_s at the largest load", loss.down.episodes_per_s, loss.load_power * hour_and_profile),
            ("queue.hump_rate_per_s at the largest load", queue.hump_rate_per_s, any_slot),
        ] {
            within(name, per_s * libm::exp(log_load), 0.0..=MAX_EPISODES_PER_S, "0 to 1000 a second: lower it, or the load's spread")?;
        }
        for (name, value) in [
            ("wander.time_ms", delay.wander.time_ms),
            ("queue.hump_length_s", queue.hump_length_s),
            ("unrest.time_s", delay.wait_factor.time_s),
            ("unrest.edge_time_s", delay.wait_factor.edge_time_s),
            ("capacity.slow_time_s", capacity.slow_time_s),
            ("loss.length_median_ms", loss.length_median_ms),
            ("loss.reconfiguration_length_median_ms", loss.reconfiguration_length_median_ms.unwrap_or(loss.length_median_ms)),
        ] {
            within(name, value, 1e-3..=1e4, "0.001 to 10000")?;
        }
        within("loss.least_gap_s", loss.least_gap_s, 0.0..=7.5, "0 to 7.5 s, half a slot")?;
        within("load.peak_solar_hour", load.peak_solar_hour, 0.0..=24.0, "0 to 24")?;
        within("capacity.zenith_snr_db", capacity.zenith_snr_db, -20.0..=40.0, "-20 to 40 dB")?;
        for &weight in &grants.period_weights {
            within("grants.period_weights", weight, 0.0..=1e6, "weights from 0, not all 0")?;
        }
        within("sum of grants.period_weights", grants.period_weights.iter().sum(), 1e-9..=1e7, "weights from 0, not all 0")?;
        for side in [&capacity.up, &capacity.down] {
            within("capacity median_mbps", side.median_mbps, 1e-3..=1e6, "0.001 to 1000000 Mbit/s")?;
            within("capacity least_mbps", side.least_mbps, 1e-3..=side.most_mbps, "0.001 to most_mbps")?;
            within("capacity most_mbps", side.most_mbps, 1e-3..=1e6, "0.001 to 1000000 Mbit/s")?;
            within("capacity queue_bytes", side.queue_bytes as f64, 1500.0..=1e12, "at least one packet of 1500 bytes")?;
        }
        Ok(())
    }
}

/// Check that a value is in its range.
fn within(name: &'static str, value: f64, range: std::ops::RangeInclusive<f64>, expected: &'static str) -> Result<(), AccessError> {
    if range.contains(&value) { Ok(()) } else { Err(AccessError::Parameter { name, value, expected }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_parameters_are_in_range_and_equal_after_json() {
        let table = AccessParams::default();
        table.check().unwrap();
        let back: AccessParams = serde_json::from_str(&serde_json::to_string(&table).unwrap()).unwrap();
        assert_eq!(back, table);
    }

    #[test]
    fn a_single_value_can_be_set_and_a_misspelt_one_is_refused() {
        let one: AccessParams = serde_json::from_str(r#"{"delay": {"site_offset_ms": 3.5}}"#).unwrap();
        assert_eq!(one.delay, DelayParams { site_offset_ms: 3.5, ..DelayParams::default() });
        assert!(serde_json::from_str::<AccessParams>(r#"{"delay": {"ofset": 1}}"#).is_err());
    }

    /// Each value is in its range, but together they give e^32 episodes per second, which cannot be drawn.
    #[test]
    fn a_rate_too_large_to_draw_is_refused() {
        for (name, change) in [
            ("loss.up.episodes_per_s", (|p| p.loss.load_power = 4.0) as fn(&mut AccessParams)),
            ("loss.down.episodes_per_s", |p| (p.loss.load_power, p.loss.up.episodes_per_s) = (4.0, 0.0)),
            ("queue.hump_rate_per_s", |p| p.load.slot_log_sigma = 4.0),
        ] {
            let mut table = AccessParams::default();
            (table.load.daily_log_amplitude, table.load.profile_log_sigma) = (2.0, 0.5);
            change(&mut table);
            let error = table.check().unwrap_err().to_string();
            assert!(error.starts_with(&format!("access parameter {name} at the largest load is ")), "{error}");
        }
    }

    #[test]
    fn a_value_out_of_range_is_refused_with_its_name() {
        let mut table = AccessParams::default();
        table.delay.grants.up_wait_ms = f64::NAN;
        let error = table.check().unwrap_err().to_string();
        assert_eq!(error, "access parameter grants.up_wait_ms is NaN; expected 0 to 2000 ms");
    }
}
