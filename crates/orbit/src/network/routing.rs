//! Snapshot routing: for each slot the satellites of every path, by the positions at the slot's start.

use super::settings::NetworkSettings;
use crate::ephemeris::EcefBlock;
use crate::error::OrbitError;
use crate::frames::LIGHT_KM_S;
use crate::isl::{DEFAULT_LOWEST_LINK_KM, check_links};
use crate::propagate::Propagator;
use crate::route::{Distances, LinkGraph};
use crate::schedule::candidates::Rules;
use crate::schedule::terminal::Terminal;
use crate::schedule::{Candidate, PolicyEntry, SlotContext};
use bentpipe_profile::{Nanos, Streams, Utc};
use std::collections::BTreeMap;

/// Ground stations whose distances are computed together.
const LANES: usize = 8;

/// A slot of the network: its part inside the network's time, and its routes.
pub(super) struct Slot {
    /// Number since 1970.
    pub number: i64,
    /// The part inside the network's time, since its start [ns].
    pub start_ns: u64,
    pub end_ns: u64,
    /// For each path its satellites, that of the terminal first; `None`: no route.
    pub routes: Vec<Option<Vec<u32>>>,
    /// Delay over links between satellites from the satellite of the last slot to that of this one, for each path and end that changes its satellite [ns].
    pub moves: BTreeMap<(u32, u32), u64>,
}

/// Computes slots. What all slots share.
pub(super) struct Router<'a> {
    settings: &'a NetworkSettings,
    satellites: &'a [Propagator],
    links: &'a LinkGraph,
    rules: Rules<'a>,
    policy: PolicyEntry,
    terminals: Vec<Terminal<'a>>,
    /// Key of each place's draws.
    keys: Vec<u64>,
    end: Utc,
}

/// Memory that the slots of a thread reuse.
#[derive(Default)]
pub(super) struct Scratch {
    block: EcefBlock,
    distances: Distances<LANES>,
}

impl<'a> Router<'a> {
    pub(super) fn new(
        settings: &'a NetworkSettings,
        satellites: &'a [Propagator],
        launch_ranks: &'a [Option<f64>],
        links: &'a LinkGraph,
        policy: PolicyEntry,
        seed: u64,
    ) -> Self {
        let rules = Rules {
            satellites,
            launch_ranks,
            sin_min_elevation: settings.min_elevation_deg.to_radians().sin(),
            gso_exclusion_deg: settings.gso_exclusion_deg,
            needs_remaining: policy.policy.needs_remaining(),
        };
        let streams = Streams::new(seed).child("schedule");
        Self {
            settings,
            satellites,
            links,
            rules,
            policy,
            terminals: settings.places.iter().map(|place| Terminal::new(place.site, None)).collect(),
            keys: settings.places.iter().map(|place| streams.key(&place.name)).collect(),
            end: settings.start_unix_ns.plus(settings.duration_ns),
        }
    }

    /// Return the numbers of the slots that overlap with the network's time.
    pub(super) fn numbers(&self) -> std::ops::Range<i64> {
        let (slots, start) = (self.settings.slots, self.settings.start_unix_ns);
        slots.slot_at(start)..slots.slot_at(Utc(self.end.0 - 1)) + 1
    }

    /// Compute the routes of a slot.
    ///
    /// # Errors
    /// [`OrbitError::LinkThroughEarth`].
    pub(super) fn slot(&self, number: i64, scratch: &mut Scratch) -> Result<Slot, OrbitError> {
        let slots = self.settings.slots;
        let begins = slots.start_of(number);
        let ends = begins.plus(Nanos(slots.period_ns));
        scratch.block.fill(self.satellites, &[begins, ends]);
        let graph = self.measured(scratch.block.at(0))?;
        let choices = self.choices(number, (begins, ends), &scratch.block);
        let mut routes = vec![None; self.settings.pairs.len()];
        let mut stations: Vec<usize> = self.settings.pairs.iter().map(|pair| pair[1]).collect();
        stations.sort_unstable();
        stations.dedup();
        for lanes in stations.chunks(LANES) {
            let entries: [&[(u32, f64)]; LANES] = std::array::from_fn(|lane| lanes.get(lane).map_or(&[][..], |&station| &choices[station]));
            scratch.distances.run(&graph, entries);
            for (route, pair) in routes.iter_mut().zip(&self.settings.pairs) {
                let Some(lane) = lanes.iter().position(|&station| station == pair[1]) else { continue };
                *route = nearest(&scratch.distances, lane, &choices[pair[0]]).map(|satellite| {
                    let mut path = scratch.distances.path(&graph, lane, satellite);
                    path.reverse();
                    path
                });
            }
        }
        let since_start = |at: Utc| at.0.abs_diff(self.settings.start_unix_ns.0);
        let (from, to) = (begins.max(self.settings.start_unix_ns), ends.min(self.end));
        Ok(Slot { number, start_ns: since_start(from), end_ns: since_start(to), routes, moves: BTreeMap::new() })
    }

    /// Add the delays of the moves from one slot to the next.
    pub(super) fn add_moves(&self, before: &Slot, after: &mut Slot) -> Result<(), OrbitError> {
        let mut moves: Vec<(u32, u32)> = Vec::new();
        for (old, new) in before.routes.iter().zip(&after.routes) {
            let (Some(old), Some(new)) = (old, new) else { continue };
            moves.extend([(old[0], new[0]), (old[old.len() - 1], new[new.len() - 1])]);
        }
        moves.retain(|(old, new)| old != new);
        moves.sort_unstable();
        moves.dedup();
        if moves.is_empty() {
            return Ok(());
        }
        let mut block = EcefBlock::default();
        block.fill(self.satellites, &[self.settings.slots.start_of(after.number)]);
        let graph = self.measured(block.at(0))?;
        let mut distances = Distances::<LANES>::default();
        for lanes in moves.chunks(LANES) {
            let starts: Vec<[(u32, f64); 1]> = lanes.iter().map(|&(old, _)| [(old, 0.0)]).collect();
            distances.run(&graph, std::array::from_fn(|lane| starts.get(lane).map_or(&[][..], |start| &start[..])));
            for (lane, &(old, new)) in lanes.iter().enumerate() {
                let km = distances.km(lane, new);
                if km.is_finite() {
                    after.moves.insert((old, new), delay_ns(km));
                }
            }
        }
        Ok(())
    }

    /// Return the links between satellites with their lengths at these positions.
    fn measured(&self, positions: &[[f64; 3]]) -> Result<LinkGraph, OrbitError> {
        let mut graph = self.links.clone();
        if !graph.cuts_low_links() {
            check_links(&graph.links(), positions, self.satellites, DEFAULT_LOWEST_LINK_KM)?;
        }
        graph.measure(positions);
        if graph.cuts_low_links() {
            graph.cut_low_links(positions, DEFAULT_LOWEST_LINK_KM);
        }
        Ok(graph)
    }

    /// Return for each place the satellites that it may use, with their ranges [km]: the one that the policy chooses, or all for the shortest routes.
    #[allow(clippy::cast_possible_truncation)] // a LinkGraph has fewer satellites than 2^32
    fn choices(&self, number: i64, times: (Utc, Utc), block: &EcefBlock) -> Vec<Vec<(u32, f64)>> {
        let position = |time: usize| move |index: usize| Some(block.at(time)[index]).filter(|position| !position[0].is_nan());
        let entry = |candidate: &Candidate| (candidate.index as u32, candidate.range_km);
        let places = self.terminals.iter().zip(&self.keys).zip(&self.settings.places);
        let choices = places.map(|((terminal, &key), place)| {
            let candidates = self.rules.candidates(terminal, times, position(0), position(1), |_, _, _| Some(0.0));
            if candidates.is_empty() || self.policy.name == LEAST_DELAY {
                return candidates.iter().map(entry).collect();
            }
            let context = SlotContext { key, slot: number, site_lat_deg: place.site.lat_deg };
            vec![entry(&candidates[self.policy.policy.choose(&context, &candidates)])]
        });
        choices.collect()
    }
}

/// The policy that needs the route, not only the place.
const LEAST_DELAY: &str = "least-delay";

/// Return the satellite among `entries` from which the path of `lane` is shortest.
fn nearest(distances: &Distances<LANES>, lane: usize, entries: &[(u32, f64)]) -> Option<u32> {
    let lengths = entries.iter().map(|&(satellite, range)| (satellite, distances.km(lane, satellite) + range));
    lengths.filter(|(_, km)| km.is_finite()).min_by(|a, b| a.1.total_cmp(&b.1).then(a.0.cmp(&b.0))).map(|(satellite, _)| satellite)
}

/// Return the delay of light over a distance [ns].
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // lengths within a constellation
pub(super) fn delay_ns(km: f64) -> u64 {
    (km / LIGHT_KM_S * 1e9).round() as u64
}
