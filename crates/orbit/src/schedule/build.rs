//! Builds a schedule: for each slot the candidates, the policy's choice, the best gateway, and the geometry of both legs.

use super::gateways::{Gateway, Gateways};
use super::policy::{Candidate, MAX_LOOK_AHEAD_S, PolicyEntry, SlotContext};
use super::slots::SlotGrid;
use super::types::{Serving, ServingSchedule, ServingSlot};
use crate::elements::Elements;
use crate::error::{OrbitError, in_range};
use crate::frames::{Observer, gmst_rad, teme_to_ecef};
use crate::propagate::Propagator;
use crate::site::Site;
use crate::sun::{is_sunlit, sun_position_km};
use crate::visibility::{GsoArc, launch_ranks};
use bentpipe_profile::{Nanos, Streams, Utc};
use rayon::prelude::*;

/// Time between geometry samples [ns]: in one second a satellite's range changes by at most 7.6 km, and linear interpolation between samples is accurate
/// to a metre.
const SAMPLE_STEP_NS: u64 = 1_000_000_000;
/// Step of the search for the end of a pass [s]. Chosen here: finer than a slot.
const LOOK_AHEAD_STEP_S: f64 = 5.0;

/// The inputs of a schedule.
#[derive(Clone, Copy)]
pub struct ScheduleRequest<'a> {
    /// The terminal.
    pub site: Site,
    /// Start of the Profile.
    pub start: Utc,
    /// Duration of the Profile.
    pub duration: Nanos,
    /// The constellation.
    pub elements: &'a [Elements],
    /// The gateways.
    pub gateways: &'a [Gateway],
    /// Lowest elevation at the terminal [deg].
    pub min_elevation_deg: f64,
    /// Smallest angle to the geostationary arc at the terminal [deg]; zero to ignore the arc. Starlink keeps 18–22° (arXiv 2307.00402).
    pub gso_exclusion_deg: f64,
    /// The slot grid.
    pub slots: SlotGrid,
    /// The scheduling policy.
    pub policy: PolicyEntry,
    /// Seed of the policy's draws.
    pub seed: u64,
}

/// Computes the slots of a schedule, in portions. It holds the state that all slots share.
pub struct Scheduler<'a> {
    request: ScheduleRequest<'a>,
    slots: std::ops::Range<i64>,
    end: Utc,
    satellites: Vec<Propagator>,
    launch_ranks: Vec<Option<f64>>,
    gateways: Gateways<'a>,
    observer: Observer,
    sin_min_elevation: f64,
    arc: GsoArc,
    key: u64,
}

impl<'a> Scheduler<'a> {
    /// Check the request and prepare the constellation.
    ///
    /// # Errors
    /// [`OrbitError::OutOfRange`] for a zero duration or more than a year, an elevation outside 0…90° or an arc exclusion outside 0…90°;
    /// [`OrbitError::NotAnOrbit`] for elements that SGP4 refuses.
    pub fn new(request: ScheduleRequest<'a>) -> Result<Self, OrbitError> {
        in_range("lowest elevation", request.min_elevation_deg, 0.0..=90.0, "0 to 90 degrees")?;
        in_range("exclusion of the geostationary arc", request.gso_exclusion_deg, 0.0..=90.0, "0 to 90 degrees")?;
        in_range("duration in seconds", request.duration.as_secs_f64(), 1e-9..=366.0 * 86_400.0, "above 0 and at most a year")?;
        let end = request.start.plus(request.duration);
        let first = request.slots.slot_at(request.start);
        Ok(Self {
            satellites: Propagator::all(request.elements)?,
            launch_ranks: launch_ranks(request.elements),
            gateways: Gateways::new(request.gateways),
            observer: Observer::new(request.site),
            sin_min_elevation: request.min_elevation_deg.to_radians().sin(),
            arc: GsoArc::new(request.site),
            key: Streams::new(request.seed).key("schedule"),
            slots: first..request.slots.slot_at(Utc(end.0 - 1)) + 1,
            end,
            request,
        })
    }

    /// Return the number of slots that overlap with the Profile.
    #[must_use]
    pub fn len(&self) -> usize {
        usize::try_from(self.slots.end - self.slots.start).unwrap_or(0)
    }

    /// Return whether there are no slots. Never true: a Profile has a duration above zero.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Compute a range of slots, by their index in the Profile, on every core.
    ///
    /// A satellite that cannot be propagated to a slot is no candidate in it; a slot without candidates is an outage.
    #[must_use]
    pub fn slots(&self, range: std::ops::Range<usize>) -> Vec<ServingSlot> {
        let numbers: Vec<i64> = self.slots.clone().skip(range.start).take(range.len()).collect();
        numbers.into_par_iter().map(|slot| self.slot(slot)).collect()
    }

    /// Assemble the schedule of these slots.
    #[must_use]
    pub fn schedule(&self, slots: Vec<ServingSlot>) -> ServingSchedule {
        ServingSchedule {
            start_unix_ns: self.request.start.0,
            duration_ns: self.request.duration.0,
            slot_period_ns: self.request.slots.period_ns,
            slot_phase_ns: self.request.slots.phase_ns,
            site: self.request.site,
            min_elevation_deg: self.request.min_elevation_deg,
            policy: self.request.policy.name.to_owned(),
            slots,
        }
    }
}

/// Compute a whole schedule.
///
/// A slot's result does not depend on where the Profile starts and ends, since it is decided at the slot's own start and from its own draws.
///
/// # Errors
/// As [`Scheduler::new`].
pub fn schedule(request: ScheduleRequest<'_>) -> Result<ServingSchedule, OrbitError> {
    let scheduler = Scheduler::new(request)?;
    let slots = scheduler.slots(0..scheduler.len());
    Ok(scheduler.schedule(slots))
}

impl Scheduler<'_> {
    /// Compute one slot.
    fn slot(&self, slot: i64) -> ServingSlot {
        let begins = self.request.slots.start_of(slot);
        let ends = begins.plus(Nanos(self.request.slots.period_ns));
        let (candidates, gateways) = self.candidates(begins, ends);
        let context = SlotContext { key: self.key, slot, site_lat_deg: self.request.site.lat_deg };
        let from = begins.max(self.request.start);
        let to = ends.min(self.end);
        let serving = (!candidates.is_empty()).then(|| {
            let chosen = self.request.policy.policy.choose(&context, &candidates);
            self.serving(&candidates[chosen], gateways[chosen], from, to)
        });
        let since_start = |at: Utc| at.0.abs_diff(self.request.start.0);
        ServingSlot {
            start_ns: since_start(from),
            end_ns: since_start(to),
            serving: serving.flatten(),
            candidates: u32::try_from(candidates.len()).unwrap_or(u32::MAX),
        }
    }

    /// Return the satellites that can serve from `begins` to `ends`, and the gateway of each.
    fn candidates(&self, begins: Utc, ends: Utc) -> (Vec<Candidate>, Vec<usize>) {
        let (gmst_begin, gmst_end) = (gmst_rad(begins), gmst_rad(ends));
        let sun = sun_position_km(begins);
        let mut candidates = Vec::new();
        let mut gateways = Vec::new();
        for (index, satellite) in self.satellites.iter().enumerate() {
            let Ok(state) = satellite.state(begins) else { continue };
            let begin_km = teme_to_ecef(state.position_km, gmst_begin);
            if self.observer.sin_elevation_and_range(begin_km).0 < self.sin_min_elevation {
                continue;
            }
            let Ok(state_end) = satellite.state(ends) else { continue };
            let end_km = teme_to_ecef(state_end.position_km, gmst_end);
            if self.observer.sin_elevation_and_range(end_km).0 < self.sin_min_elevation || self.near_arc(begin_km) || self.near_arc(end_km)
            {
                continue;
            }
            let Some(gateway) = self.gateways.best(begin_km, end_km) else { continue };
            let look = self.observer.look(begin_km);
            candidates.push(Candidate {
                index,
                norad_id: satellite.norad_id(),
                elevation_deg: look.elevation_deg,
                azimuth_deg: look.azimuth_deg,
                range_km: look.range_km,
                sunlit: is_sunlit(state.position_km, sun),
                launch_rank: self.launch_ranks[index],
                remaining_s: if self.request.policy.policy.needs_remaining() { self.remaining_s(satellite, begins) } else { 0.0 },
            });
            gateways.push(gateway);
        }
        (candidates, gateways)
    }

    /// Return whether a satellite is too near to the geostationary arc.
    fn near_arc(&self, position_km: [f64; 3]) -> bool {
        self.request.gso_exclusion_deg > 0.0
            && self.arc.separation_deg(self.observer.position_km(), position_km) < self.request.gso_exclusion_deg
    }

    /// Return how long a satellite stays above the mask from `at` on [s].
    fn remaining_s(&self, satellite: &Propagator, at: Utc) -> f64 {
        let mut seconds = 0.0;
        while seconds < MAX_LOOK_AHEAD_S {
            let later = Nanos::from_secs_f64(seconds).map_or(at, |span| at.plus(span));
            let Ok(state) = satellite.state(later) else { break };
            let position = teme_to_ecef(state.position_km, gmst_rad(later));
            if self.observer.sin_elevation_and_range(position).0 < self.sin_min_elevation {
                break;
            }
            seconds += LOOK_AHEAD_STEP_S;
        }
        seconds
    }

    /// Compute both legs from `from` to `to`; `None`: the satellite cannot be propagated in between.
    fn serving(&self, candidate: &Candidate, gateway: usize, from: Utc, to: Utc) -> Option<Serving> {
        let satellite = &self.satellites[candidate.index];
        let span_ns = to.0.abs_diff(from.0);
        let whole_steps = span_ns.div_ceil(SAMPLE_STEP_NS);
        let mut serving = Serving {
            norad_id: candidate.norad_id,
            name: satellite.name().to_owned(),
            gateway: self.gateways.name(gateway).to_owned(),
            sample_step_ns: SAMPLE_STEP_NS,
            user_leg_km: Vec::new(),
            gateway_leg_km: Vec::new(),
            elevation_deg: Vec::new(),
            azimuth_deg: Vec::new(),
            sunlit: candidate.sunlit,
        };
        for step in 0..=whole_steps {
            let at = from.plus(Nanos((step * SAMPLE_STEP_NS).min(span_ns)));
            let position = teme_to_ecef(satellite.state(at).ok()?.position_km, gmst_rad(at));
            let look = self.observer.look(position);
            serving.user_leg_km.push(look.range_km);
            serving.gateway_leg_km.push(self.gateways.range_km(gateway, position));
            serving.elevation_deg.push(look.elevation_deg);
            serving.azimuth_deg.push(look.azimuth_deg);
        }
        Some(serving)
    }
}
