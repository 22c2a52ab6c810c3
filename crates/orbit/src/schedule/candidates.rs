//! The satellites that can serve a place in a slot.

use super::policy::{Candidate, MAX_LOOK_AHEAD_S};
use super::terminal::Terminal;
use crate::frames::{LIGHT_KM_S, Observer, gmst_rad, teme_to_ecef};
use crate::propagate::Propagator;
use crate::sun::{is_sunlit, sun_position_km};
use crate::visibility::GsoArc;
use bentpipe_profile::{Nanos, Utc};

/// Step of the search for the end of a pass [s]. Chosen here: finer than a slot.
const LOOK_AHEAD_STEP_S: f64 = 5.0;

/// The rules by which satellites are candidates, with the constellation.
#[derive(Clone, Copy)]
pub(crate) struct Rules<'a> {
    pub satellites: &'a [Propagator],
    pub launch_ranks: &'a [Option<f64>],
    pub sin_min_elevation: f64,
    /// Smallest angle to the geostationary arc [deg]; zero: none.
    pub gso_exclusion_deg: f64,
    /// Whether to compute [`Candidate::remaining_s`].
    pub needs_remaining: bool,
}

impl Rules<'_> {
    /// Return the satellites that can serve from `begins` to `ends`. `begin_km` and `end_km`: a satellite's Earth-fixed position at these times, `None` if it
    /// has none. `onward_ms`: the delay behind a satellite at these positions, `None` if nothing leads on from it.
    pub(crate) fn candidates(
        &self,
        terminal: &Terminal<'_>,
        (begins, ends): (Utc, Utc),
        begin_km: impl Fn(usize) -> Option<[f64; 3]>,
        end_km: impl Fn(usize) -> Option<[f64; 3]>,
        onward_ms: impl Fn(usize, [f64; 3], [f64; 3]) -> Option<f64>,
    ) -> Vec<Candidate> {
        let [(observer, arc), (observer_end, arc_end)] = [begins, ends].map(|at| (terminal.observer(at), terminal.arc(at)));
        let near_arc = |observer: &Observer, arc: &GsoArc, position_km| {
            self.gso_exclusion_deg > 0.0 && arc.separation_deg(observer.position_km(), position_km) < self.gso_exclusion_deg
        };
        let sun = sun_position_km(begins);
        let mut candidates = Vec::new();
        for (index, satellite) in self.satellites.iter().enumerate() {
            let Some(begin_km) = begin_km(index) else { continue };
            if observer.sin_elevation_and_range(begin_km).0 < self.sin_min_elevation {
                continue;
            }
            let Some(end_km) = end_km(index) else { continue };
            if observer_end.sin_elevation_and_range(end_km).0 < self.sin_min_elevation
                || near_arc(&observer, &arc, begin_km)
                || near_arc(&observer_end, &arc_end, end_km)
            {
                continue;
            }
            let Some(onward_ms) = onward_ms(index, begin_km, end_km) else { continue };
            let Ok(state) = satellite.state(begins) else { continue };
            let look = observer.look(begin_km);
            candidates.push(Candidate {
                index,
                norad_id: satellite.norad_id(),
                elevation_deg: look.elevation_deg,
                azimuth_deg: look.azimuth_deg,
                range_km: look.range_km,
                path_ms: look.range_km / LIGHT_KM_S * 1000.0 + onward_ms,
                sunlit: is_sunlit(state.position_km, sun),
                launch_rank: self.launch_ranks[index],
                remaining_s: if self.needs_remaining { self.remaining_s(satellite, terminal, begins) } else { 0.0 },
            });
        }
        candidates
    }

    /// Return how long a satellite stays above the mask from `at` on [s].
    fn remaining_s(&self, satellite: &Propagator, terminal: &Terminal<'_>, at: Utc) -> f64 {
        let observer = terminal.observer(at);
        let mut seconds = 0.0;
        while seconds < MAX_LOOK_AHEAD_S {
            let later = Nanos::from_secs_f64(seconds).map_or(at, |span| at.plus(span));
            let Some(position) = position_km(satellite, later) else { break };
            if observer.sin_elevation_and_range(position).0 < self.sin_min_elevation {
                break;
            }
            seconds += LOOK_AHEAD_STEP_S;
        }
        seconds
    }
}

/// Return a satellite's Earth-fixed position; `None`: it cannot be propagated.
pub(crate) fn position_km(satellite: &Propagator, at: Utc) -> Option<[f64; 3]> {
    satellite.state(at).ok().map(|state| teme_to_ecef(state.position_km, gmst_rad(at)))
}
