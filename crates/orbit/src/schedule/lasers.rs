//! Paths over inter-satellite links: from each satellite to the point of presence, at one slot's start.

use super::gateways::Gateways;
use crate::ephemeris::EcefBlock;
use crate::error::OrbitError;
use crate::frames::LIGHT_KM_S;
use crate::isl::{DEFAULT_LOWEST_LINK_KM, check_links};
use crate::propagate::Propagator;
use crate::route::{Distances, LinkGraph};
use bentpipe_profile::Utc;

/// When a schedule uses inter-satellite links.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Isl {
    /// Never: a slot in which no candidate sees a gateway is an outage.
    #[default]
    Never,
    /// In slots in which no candidate sees a gateway.
    Auto,
    /// Wherever they shorten the path to the point of presence.
    Always,
}

impl Isl {
    /// All values with their names.
    pub const ALL: [(&'static str, Self); 3] = [("never", Self::Never), ("auto", Self::Auto), ("always", Self::Always)];

    /// Return the value called `name`.
    ///
    /// # Errors
    /// [`OrbitError::UnknownIsl`].
    pub fn named(name: &str) -> Result<Self, OrbitError> {
        let known = Self::ALL.into_iter().find(|(known, _)| *known == name);
        known.map(|(_, isl)| isl).ok_or_else(|| OrbitError::UnknownIsl { name: name.to_owned() })
    }
}

/// Shortest paths from every satellite to the point of presence. Reuses its memory.
pub(super) struct Lasers {
    graph: LinkGraph,
    links: Vec<(usize, usize)>,
    begin: EcefBlock,
    end: EcefBlock,
    distances: Distances<1>,
    /// Satellites that a gateway sees, with the length of the path from there to the point of presence [km of light in vacuum].
    exits: Vec<(u32, f64)>,
}

impl Lasers {
    pub(super) fn new(graph: &LinkGraph) -> Self {
        Self {
            links: graph.links(),
            graph: graph.clone(),
            begin: EcefBlock::default(),
            end: EcefBlock::default(),
            distances: Distances::default(),
            exits: Vec::new(),
        }
    }

    /// Compute the paths of a slot from its start on. A gateway must see the last satellite at the slot's start and end.
    ///
    /// # Errors
    /// [`OrbitError::LinkThroughEarth`].
    pub(super) fn update(&mut self, satellites: &[Propagator], gateways: &Gateways<'_>, begins: Utc, ends: Utc) -> Result<(), OrbitError> {
        self.begin.fill(satellites, &[begins]);
        self.end.fill(satellites, &[ends]);
        if !self.graph.cuts_low_links() {
            check_links(&self.links, self.begin.at(0), satellites, DEFAULT_LOWEST_LINK_KM)?;
        }
        self.exits.clear();
        for (satellite, (&begin_km, &end_km)) in (0_u32..).zip(self.begin.at(0).iter().zip(self.end.at(0))) {
            if let Some((_, delay_ms)) = gateways.best(begin_km, end_km) {
                self.exits.push((satellite, delay_ms / 1000.0 * LIGHT_KM_S));
            }
        }
        self.graph.measure(self.begin.at(0));
        if self.graph.cuts_low_links() {
            self.graph.cut_low_links(self.begin.at(0), DEFAULT_LOWEST_LINK_KM);
        }
        self.distances.run(&self.graph, [&self.exits]);
        Ok(())
    }

    /// Return the delay from a satellite to the point of presence [ms]; `None`: there is no path.
    #[allow(clippy::cast_possible_truncation)] // a LinkGraph has fewer satellites than 2^32
    pub(super) fn delay_ms(&self, satellite: usize) -> Option<f64> {
        let km = self.distances.km(0, satellite as u32);
        km.is_finite().then(|| km / LIGHT_KM_S * 1000.0)
    }

    /// Return the satellites from `satellite` to the one that a gateway sees, and that gateway. There must be a path.
    #[allow(clippy::cast_possible_truncation)]
    pub(super) fn path(&self, satellite: usize, gateways: &Gateways<'_>) -> Option<(Vec<usize>, usize)> {
        let mut path: Vec<usize> = self.distances.path(&self.graph, 0, satellite as u32).into_iter().map(|s| s as usize).collect();
        let last = path[0];
        path.reverse();
        gateways.best(self.begin.at(0)[last], self.end.at(0)[last]).map(|(gateway, _)| (path, gateway))
    }
}
