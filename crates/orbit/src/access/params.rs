//! Every constant of the access model: unit, value, source. [`AccessParams::default`] is the frozen table.
//!
//! *Fitted* constants come from `python tools/access_model DATA --steps N` on named windows of named pings and days of a dish (that
//! folder's README says which, and how far the search went); no site has its own. Constants of capacity are not fitted: each carries its source.
//! Data sets are named by
//! repository: *Victoria* is `clarkzjw/LEOLiveStreaming` (pings of December 2024), *Seattle* `clarkzjw/mmsys24-starlink-livestreaming-data`
//! (September 2023), *`LeoCC`* `SpaceNetLab/LeoCC`, *`FjordLink`* the dish histories of December 2024 to February 2025.

use super::error::AccessError;
use serde::{Deserialize, Serialize};

/// Distances of grant opportunities that occur [frames of 1/750 s]. Source: periodicity of reply times in Victoria.
pub const FRAME_PERIODS: [i64; 5] = [1, 2, 3, 4, 5];

/// Most episodes, or humps, that the largest load may bring [1/s]. Chosen here: one a millisecond is loss without end, and a slot of 15 s stays drawn
/// in a moment.
pub const MOST_EPISODES_PER_S: f64 = 1000.0;

/// No draw of a standard normal is larger: 53 bits of a uniform give at most √(2 ln 2⁵³) = 8.6.
const LARGEST_NORMAL: f64 = 9.0;

/// All of them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AccessParams {
    /// How busy the cell is.
    pub load: LoadParams,
    /// What delays a packet beyond propagation.
    pub delay: DelayParams,
    /// How fast the access is.
    pub capacity: CapacityParams,
    /// What it loses.
    pub loss: LossParams,
}

/// See [`super::load`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LoadParams {
    /// A: ln of the peak hour's load. Chosen here, with [`CapacityParams::load_power`]: see there.
    pub daily_log_amplitude: f64,
    /// Local solar hour of the peak. Chosen here: evening, as residential traffic has it; `FjordLink`'s delay is highest from 19 to 21 h.
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
    /// Processing and whatever else a site's RTT always holds [ms, two-way; half in each direction]. Fitted; a site may have its own.
    pub site_offset_ms: f64,
    /// Power of the load (without the slot's own factor) in every delay that depends on the load. Fitted: RTTs
    /// differ less between hours than capacity does.
    pub load_power: f64,
    /// Grant schedule.
    pub grants: GrantParams,
    /// cross traffic, within tens of milliseconds.
    pub wander: WanderParams,
    /// cross traffic, over seconds and slots.
    pub queue: QueueParams,
    /// How waiting grows and shrinks over seconds.
    pub unrest: WaitFactorParams,
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
            unrest: WaitFactorParams::default(),
            interruption: InterruptionParams::default(),
        }
    }
}

/// See [`super::grants`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct GrantParams {
    /// How often each of [`FRAME_PERIODS`] is a slot's period. Source: 108 slots of Victoria (14 % show no period: every frame).
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

/// See [`super::queueing`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct WanderParams {
    /// m: mean at load 1 [ms], where it is not cut at zero. Fitted.
    pub mean_ms: f64,
    /// c: standard deviation over mean. Fitted.
    pub relative_sigma: f64,
    /// τ: correlation time [ms]. Fitted: below the step of the wander's points, which are nearly independent then.
    pub time_ms: f64,
}

impl Default for WanderParams {
    fn default() -> Self {
        Self { mean_ms: 5.4, relative_sigma: 0.9, time_ms: 10.7 }
    }
}

/// See [`super::queueing`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct QueueParams {
    /// Mean of a slot's exponential offset at load 1 [ms]. Fitted.
    pub mean_ms: f64,
    /// Probability that a slot keeps the offset of the one before. Chosen here: runs of raised slots in Victoria are one to three long.
    pub keep_probability: f64,
    /// Probability that a slot is raised (tens of milliseconds more, for the whole slot). Fitted.
    pub raised_probability: f64,
    /// Mean of the exponential raise [ms]. Fitted.
    pub raised_mean_ms: f64,
    /// Humps begin at this rate at load 1 [1/s]. Fitted.
    pub hump_rate_per_s: f64,
    /// Mean of a hump's exponential height [ms]. Fitted.
    pub hump_mean_ms: f64,
    /// Mean of a hump's exponential length [s]. Chosen here: those of Victoria last about a second.
    pub hump_length_s: f64,
    /// No offset and no hump is larger [ms]. Chosen here: the largest floor of a slot is 150 ms above the site's in Seattle, 65 in Victoria; the
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

/// See [`super::wait_factor`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct WaitFactorParams {
    /// σ of its logarithm. Fitted.
    pub log_sigma: f64,
    /// Correlation time [s]. Fitted.
    pub time_s: f64,
    /// Mean of the exponential excess that a reconfiguration leaves when the path opens. Fitted.
    pub edge_excess: f64,
    /// Time in which that falls by e [s]. Fitted.
    pub edge_time_s: f64,
}

impl Default for WaitFactorParams {
    fn default() -> Self {
        Self { log_sigma: 0.307, time_s: 0.313, edge_excess: 0.659, edge_time_s: 0.536 }
    }
}

/// Stop of the uplink at a slot's begin, log-normal; of the downlink for a part of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct InterruptionParams {
    /// Median [ms]; a site may have its own. Source: largest RTT at the edge over the slot's median in the fitted windows of Victoria (57 / 63 / 78 / 117 /
    /// 139 ms at 10 / 25 / 50 / 75 / 90 %), which holds what waits after the opening too. Seattle's, a year before, are shorter (53 ms). Fitted from there.
    pub median_ms: f64,
    /// σ of its logarithm: the same quantiles.
    pub log_sigma: f64,
    /// The downlink opens after this share of it, 0 to 1. Source: of Victoria's pings that were sent in the last 20 ms before an edge, so that only their
    /// replies meet it, the median is raised by 41 ms (a quarter not at all), of those sent in the 20 ms after it by 74.
    pub down_share: f64,
    /// No interruption is longer [ms]. Chosen here, above the largest RTT of those pings at an edge (299 ms).
    pub longest_ms: f64,
}

impl Default for InterruptionParams {
    fn default() -> Self {
        Self { median_ms: 83.8, log_sigma: 0.336, down_share: 0.5, longest_ms: 300.0 }
    }
}

/// See [`super::capacity`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CapacityParams {
    /// Terminal to Internet.
    pub up: CapacitySide,
    /// Internet to terminal.
    pub down: CapacitySide,
    /// κ: capacity falls with this power of the load (without the slot's own factor: the variation below holds that). Chosen here: peak and quiet
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
    /// Overhead, at load 1 [Mbit/s].
    pub median_mbps: f64,
    /// Never less than this [Mbit/s].
    pub least_mbps: f64,
    /// Never more than this [Mbit/s].
    pub most_mbps: f64,
    /// Queue before it [bytes]: drop-tail.
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

/// See [`super::loss`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LossParams {
    /// Terminal to Internet.
    pub up: LossSide,
    /// Internet to terminal.
    pub down: LossSide,
    /// Probability that a reconfiguration takes the last packets before the path closes, and again that it takes the first ones after it opens, in one
    /// direction. Source under load: `SatGuard` and T3P have a burst at each handover. Source at idle: of 720 edges in the three fitted hours of
    /// `FjordLink` 0.058 bring a loss beyond the other seconds' rate, of 52 in Victoria's fitted session four bring a silence of several pings (of which
    /// one before the closing); at the other edges the pings that waited arrive. An episode meets one of 15 pings a second with probability 0.3.
    pub reconfiguration_probability: f64,
    /// Episodes come with this power of the load; those of reconfigurations do not depend on it. An assumption: no measurement at hand shows
    /// whether loss depends on the hour (an idle dish of `FjordLink` lost 0.07 to 0.22 % in five hours from 11 to 21 h, 0.16 % at 21 h, in no order).
    pub load_power: f64,
    /// Median length of an episode [ms], of a reconfiguration's too. Source, with the spread: silences of several pings in Victoria's fitted session last
    /// 48 to 67 ms, three of 50 last 90; of a second's 15 pings `FjordLink`'s dish loses one in nine of ten lossy seconds.
    pub length_median_ms: f64,
    /// σ of its logarithm. Source: the same.
    pub length_log_sigma: f64,
    /// Probability that a packet inside an episode is lost. On downloads over three quarters of loss events are of several packets (Michel et al.,
    /// IMC 2022): with independent losses that share is this probability, less what an episode's ends cut off.
    pub probability_inside: f64,
}

/// One direction of the loss process.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LossSide {
    /// Episodes at load 1, reconfigurations not counted [1/s].
    pub episodes_per_s: f64,
}

impl LossParams {
    /// The named loss processes: `loaded`, of a path that a flow fills, and `idle`, of one that carries pings.
    #[must_use]
    pub fn processes() -> [(&'static str, Self); 2] {
        [("loaded", Self::default()), ("idle", Self::idle())]
    }

    /// Loss of an idle path. Rates and the share of reconfigurations are fitted to the pings of `FjordLink`'s dish, which carries little traffic: its
    /// first three hours, held out the others (`losses.py` of the claim): 0.12 to 0.22 % of its pings are lost.
    #[must_use]
    pub fn idle() -> Self {
        Self {
            up: LossSide { episodes_per_s: 0.011 },
            down: LossSide { episodes_per_s: 0.009 },
            reconfiguration_probability: 0.05,
            ..Self::default()
        }
    }
}

impl Default for LossParams {
    /// Loss of a path under load, from published figures: bursts every 3 to 5 s, always one at a handover, 0.9 % of packets (`SatGuard`, WWW 2024, figure
    /// 5); 1.56 % down and 1.96 % up under bulk QUIC (Michel et al., IMC 2022), which is an episode each 1.4 s and 1.1 s at this length. The rates lie
    /// between the two, and the uplink has Michel's 1.25 times the downlink's.
    ///
    /// What comes out over hours and Profiles: `cargo test -p bentpipe-orbit the_level_over_hours -- --nocapture`. What is not met:
    /// `python/bentpipe/validation/access_model/README.md`.
    fn default() -> Self {
        Self {
            up: LossSide { episodes_per_s: 0.5 },
            down: LossSide { episodes_per_s: 0.4 },
            reconfiguration_probability: 0.5,
            load_power: 1.0,
            length_median_ms: 20.0,
            length_log_sigma: 0.7,
            probability_inside: 0.8,
        }
    }
}

impl AccessParams {
    /// That every value is in its range.
    ///
    /// # Errors
    /// [`AccessError::Parameter`] for the first that is not.
    pub fn check(&self) -> Result<(), AccessError> {
        let (load, delay, queue, grants) = (&self.load, &self.delay, &self.delay.queue, &self.delay.grants);
        let (capacity, loss) = (&self.capacity, &self.loss);
        let share = 0.0..=1.0;
        for (name, found) in [
            ("queue.raised_probability", queue.raised_probability),
            ("interruption.down_share", delay.interruption.down_share),
            ("loss.probability_inside", loss.probability_inside),
            ("loss.reconfiguration_probability", loss.reconfiguration_probability),
            ("queue.keep_probability / 0.9", queue.keep_probability / 0.9),
        ] {
            within(name, found, share.clone(), "0 to 1")?;
        }
        for (name, found) in [
            ("load.daily_log_amplitude", load.daily_log_amplitude),
            ("load.profile_log_sigma", load.profile_log_sigma),
            ("load.slot_log_sigma", load.slot_log_sigma),
            ("wander.relative_sigma", delay.wander.relative_sigma),
            ("delay.load_power", delay.load_power),
            ("unrest.log_sigma", delay.unrest.log_sigma),
            ("unrest.edge_excess / 10", delay.unrest.edge_excess / 10.0),
            ("interruption.log_sigma", delay.interruption.log_sigma),
            ("capacity.load_power", capacity.load_power),
            ("capacity.slot_log_sigma", capacity.slot_log_sigma),
            ("capacity.slow_log_sigma", capacity.slow_log_sigma),
            ("capacity.fast_log_sigma", capacity.fast_log_sigma),
            ("loss.load_power", loss.load_power),
            ("loss.length_log_sigma", loss.length_log_sigma),
        ] {
            within(name, found, 0.0..=4.0, "0 to 4")?;
        }
        for (name, found) in [
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
            within(name, found, 0.0..=2000.0, "0 to 2000 ms")?;
        }
        for (name, found) in [
            ("queue.hump_rate_per_s", queue.hump_rate_per_s),
            ("loss.up.episodes_per_s", loss.up.episodes_per_s),
            ("loss.down.episodes_per_s", loss.down.episodes_per_s),
        ] {
            within(name, found, 0.0..=50.0, "0 to 50 a second")?;
        }
        // Powers of a load that is a power itself: a rate that no slot could hold is refused here, not drawn.
        let hour_and_profile = load.daily_log_amplitude + LARGEST_NORMAL * load.profile_log_sigma;
        let any_slot = delay.load_power * hour_and_profile + LARGEST_NORMAL * load.slot_log_sigma;
        for (name, per_s, log_load) in [
            ("loss.up.episodes_per_s at the largest load", loss.up.episodes_per_s, loss.load_power * hour_and_profile),
            ("loss.down.episodes_per_s at the largest load", loss.down.episodes_per_s, loss.load_power * hour_and_profile),
            ("queue.hump_rate_per_s at the largest load", queue.hump_rate_per_s, any_slot),
        ] {
            within(name, per_s * libm::exp(log_load), 0.0..=MOST_EPISODES_PER_S, "0 to 1000 a second: lower it, or the load's spread")?;
        }
        for (name, found) in [
            ("wander.time_ms", delay.wander.time_ms),
            ("queue.hump_length_s", queue.hump_length_s),
            ("unrest.time_s", delay.unrest.time_s),
            ("unrest.edge_time_s", delay.unrest.edge_time_s),
            ("capacity.slow_time_s", capacity.slow_time_s),
            ("loss.length_median_ms", loss.length_median_ms),
        ] {
            within(name, found, 1e-3..=1e4, "0.001 to 10000")?;
        }
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

fn within(name: &'static str, found: f64, range: std::ops::RangeInclusive<f64>, expected: &'static str) -> Result<(), AccessError> {
    if range.contains(&found) { Ok(()) } else { Err(AccessError::Parameter { name, found, expected }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_in_range_and_survives_json() {
        let table = AccessParams::default();
        table.check().unwrap();
        let back: AccessParams = serde_json::from_str(&serde_json::to_string(&table).unwrap()).unwrap();
        assert_eq!(back, table);
    }

    #[test]
    fn one_value_can_be_set_and_a_misspelt_one_is_refused() {
        let one: AccessParams = serde_json::from_str(r#"{"delay": {"site_offset_ms": 3.5}}"#).unwrap();
        assert_eq!(one.delay, DelayParams { site_offset_ms: 3.5, ..DelayParams::default() });
        assert!(serde_json::from_str::<AccessParams>(r#"{"delay": {"ofset": 1}}"#).is_err());
    }

    /// Each value in its range, but together e^32 episodes a second: drawing them would never end.
    #[test]
    fn a_rate_that_no_slot_could_hold_is_refused() {
        for (what, change) in [
            ("loss.up.episodes_per_s", (|p| p.loss.load_power = 4.0) as fn(&mut AccessParams)),
            ("loss.down.episodes_per_s", |p| (p.loss.load_power, p.loss.up.episodes_per_s) = (4.0, 0.0)),
            ("queue.hump_rate_per_s", |p| p.load.slot_log_sigma = 4.0),
        ] {
            let mut table = AccessParams::default();
            (table.load.daily_log_amplitude, table.load.profile_log_sigma) = (2.0, 0.5);
            change(&mut table);
            let error = table.check().unwrap_err().to_string();
            assert!(error.starts_with(&format!("access parameter {what} at the largest load is ")), "{error}");
        }
    }

    #[test]
    fn a_value_out_of_range_is_named() {
        let mut table = AccessParams::default();
        table.delay.grants.up_wait_ms = f64::NAN;
        let error = table.check().unwrap_err().to_string();
        assert_eq!(error, "access parameter grants.up_wait_ms is NaN; expected 0 to 2000 ms");
    }
}
