//! Builds a schedule: for each slot the candidates, the policy's choice, the best gateway, and the geometry of both legs.

use super::candidates::{Rules, position_km};
use super::gateways::{Gateway, Gateways};
use super::lasers::{Isl, Lasers};
use super::policy::{Candidate, PolicyEntry, SlotContext};
use super::slots::SlotGrid;
use super::terminal::Terminal;
use super::types::{Relay, Serving, ServingSchedule, ServingSlot};
use crate::elements::Elements;
use crate::error::{OrbitError, in_range};
use crate::frames::{gmst_rad, norm, sub, teme_to_ecef};
use crate::propagate::Propagator;
use crate::route::LinkGraph;
use crate::site::Site;
use crate::track::Track;
use crate::visibility::launch_ranks;
use bentpipe_profile::{Nanos, Streams, Utc};
use rayon::prelude::*;

/// Time between geometry samples [ns]: in one second a satellite's range changes by at most 7.6 km, and linear interpolation between samples is accurate
/// to a metre.
const SAMPLE_STEP_NS: u64 = 1_000_000_000;
/// The inputs of a schedule.
#[derive(Clone, Copy)]
pub struct ScheduleRequest<'a> {
    /// The terminal; on a track, where it is at the start.
    pub site: Site,
    /// Positions of a moving terminal.
    pub track: Option<&'a Track>,
    /// Start of the Profile.
    pub start: Utc,
    /// Duration of the Profile.
    pub duration: Nanos,
    /// The constellation.
    pub elements: &'a [Elements],
    /// The gateways.
    pub gateways: &'a [Gateway],
    /// The links between satellites.
    pub links: &'a LinkGraph,
    /// When to use them.
    pub isl: Isl,
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
    terminal: Terminal<'a>,
    sin_min_elevation: f64,
    key: u64,
}

impl<'a> Scheduler<'a> {
    /// Check the request and prepare the constellation.
    ///
    /// # Errors
    /// [`OrbitError::OutOfRange`] for a zero duration or more than a year, an elevation outside 0…90° or an arc exclusion outside 0…90°;
    /// [`OrbitError::NotAnOrbit`] for elements that SGP4 refuses; [`OrbitError::TrackSpan`] for a track that does not cover the Profile.
    pub fn new(request: ScheduleRequest<'a>) -> Result<Self, OrbitError> {
        in_range("lowest elevation", request.min_elevation_deg, 0.0..=90.0, "0 to 90 degrees")?;
        in_range("exclusion of the geostationary arc", request.gso_exclusion_deg, 0.0..=90.0, "0 to 90 degrees")?;
        in_range("duration in seconds", request.duration.as_secs_f64(), 1e-9..=366.0 * 86_400.0, "above 0 and at most a year")?;
        let end = request.start.plus(request.duration);
        request.track.map_or(Ok(()), |track| track.check_span(request.start, end))?;
        let first = request.slots.slot_at(request.start);
        Ok(Self {
            satellites: Propagator::all(request.elements)?,
            launch_ranks: launch_ranks(request.elements),
            gateways: Gateways::new(request.gateways),
            terminal: Terminal::new(request.site, request.track),
            sin_min_elevation: request.min_elevation_deg.to_radians().sin(),
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
    ///
    /// # Errors
    /// [`OrbitError::LinkThroughEarth`] in the first slot that needs inter-satellite links while one passes too low.
    pub fn slots(&self, range: std::ops::Range<usize>) -> Result<Vec<ServingSlot>, OrbitError> {
        let numbers: Vec<i64> = self.slots.clone().skip(range.start).take(range.len()).collect();
        numbers.into_par_iter().map_init(|| None, |lasers, slot| self.slot(slot, lasers)).collect()
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
            track: self.request.track.map_or_else(Vec::new, |track| track.points().to_vec()),
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
    let slots = scheduler.slots(0..scheduler.len())?;
    Ok(scheduler.schedule(slots))
}

impl Scheduler<'_> {
    /// Compute one slot. `lasers`: paths over inter-satellite links, whose memory the slots of a thread reuse.
    fn slot(&self, slot: i64, lasers: &mut Option<Lasers>) -> Result<ServingSlot, OrbitError> {
        let begins = self.request.slots.start_of(slot);
        let ends = begins.plus(Nanos(self.request.slots.period_ns));
        let mut candidates = if self.request.isl == Isl::Always { Vec::new() } else { self.candidates(begins, ends, None) };
        let over_lasers = candidates.is_empty() && self.request.isl != Isl::Never;
        if over_lasers {
            let lasers = lasers.get_or_insert_with(|| Lasers::new(self.request.links));
            lasers.update(&self.satellites, &self.gateways, begins, ends)?;
            candidates = self.candidates(begins, ends, Some(lasers));
        }
        let lasers = lasers.as_ref().filter(|_| over_lasers);
        let site_lat_deg = self.request.track.map_or(self.request.site, |track| track.at(begins)).lat_deg;
        let context = SlotContext { key: self.key, slot, site_lat_deg };
        let from = begins.max(self.request.start);
        let to = ends.min(self.end);
        let serving = (!candidates.is_empty()).then(|| {
            let chosen = &candidates[self.request.policy.policy.choose(&context, &candidates)];
            let (path, gateway) = match lasers {
                None => (vec![chosen.index], self.gateway(&self.satellites[chosen.index], begins, ends)?),
                Some(lasers) => lasers.path(chosen.index, &self.gateways)?,
            };
            self.serving(chosen.sunlit, &path, gateway, from, to)
        });
        let since_start = |at: Utc| at.0.abs_diff(self.request.start.0);
        Ok(ServingSlot {
            start_ns: since_start(from),
            end_ns: since_start(to),
            serving: serving.flatten(),
            candidates: u32::try_from(candidates.len()).unwrap_or(u32::MAX),
        })
    }

    /// Return the satellites that can serve from `begins` to `ends`: with `lasers` those with any path, otherwise those that see a gateway.
    fn candidates(&self, begins: Utc, ends: Utc, lasers: Option<&Lasers>) -> Vec<Candidate> {
        let rules = Rules {
            satellites: &self.satellites,
            launch_ranks: &self.launch_ranks,
            sin_min_elevation: self.sin_min_elevation,
            gso_exclusion_deg: self.request.gso_exclusion_deg,
            needs_remaining: self.request.policy.policy.needs_remaining(),
        };
        let position = |at: Utc| {
            let gmst = gmst_rad(at);
            move |index: usize| self.satellites[index].state(at).ok().map(|state| teme_to_ecef(state.position_km, gmst))
        };
        rules.candidates(&self.terminal, (begins, ends), position(begins), position(ends), |index, begin_km, end_km| match lasers {
            None => self.gateways.best(begin_km, end_km).map(|(_, delay_ms)| delay_ms),
            Some(lasers) => lasers.delay_ms(index),
        })
    }

    /// Return the best gateway that sees a satellite from `begins` to `ends`.
    fn gateway(&self, satellite: &Propagator, begins: Utc, ends: Utc) -> Option<usize> {
        let [begin_km, end_km] = [begins, ends].map(|at| position_km(satellite, at));
        self.gateways.best(begin_km?, end_km?).map(|(gateway, _)| gateway)
    }

    /// Compute the lengths of all links of a path from `from` to `to`; `None`: a satellite cannot be propagated in between. `path`: the satellites, the
    /// serving one first.
    fn serving(&self, sunlit: bool, path: &[usize], gateway: usize, from: Utc, to: Utc) -> Option<Serving> {
        let satellites: Vec<&Propagator> = path.iter().map(|&index| &self.satellites[index]).collect();
        let relay =
            |satellite: &&Propagator| Relay { norad_id: satellite.norad_id(), name: satellite.name().to_owned(), link_km: Vec::new() };
        let span_ns = to.0.abs_diff(from.0);
        let whole_steps = span_ns.div_ceil(SAMPLE_STEP_NS);
        let mut serving = Serving {
            norad_id: satellites[0].norad_id(),
            name: satellites[0].name().to_owned(),
            gateway: self.gateways.name(gateway).to_owned(),
            relays: satellites[1..].iter().map(relay).collect(),
            sample_step_ns: SAMPLE_STEP_NS,
            user_leg_km: Vec::new(),
            gateway_leg_km: Vec::new(),
            elevation_deg: Vec::new(),
            azimuth_deg: Vec::new(),
            sunlit,
        };
        for step in 0..=whole_steps {
            let at = from.plus(Nanos((step * SAMPLE_STEP_NS).min(span_ns)));
            let mut position = position_km(satellites[0], at)?;
            let look = self.terminal.observer(at).look(position);
            serving.user_leg_km.push(look.range_km);
            serving.elevation_deg.push(look.elevation_deg);
            serving.azimuth_deg.push(look.azimuth_deg);
            for (satellite, relay) in satellites[1..].iter().zip(&mut serving.relays) {
                let next = position_km(satellite, at)?;
                relay.link_km.push(norm(sub(next, position)));
                position = next;
            }
            serving.gateway_leg_km.push(self.gateways.range_km(gateway, position));
        }
        Some(serving)
    }
}
