//! The terrestrial legs from gateways to the server. Python computes their delays from tables of cable routes and cities.

use super::error::AccessError;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The terrestrial part of a path: a leg to the server for each gateway in the schedule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ground {
    /// The server's name (`london`, a coordinate pair), for descriptions.
    pub server: String,
    /// Gateway name → its leg.
    pub gateways: BTreeMap<String, GroundLeg>,
}

/// The leg from one gateway to the server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroundLeg {
    /// The point of presence where its traffic meets the Internet.
    pub pop: String,
    /// Gateway to `PoP`, one way [ns].
    pub gateway_pop_ns: u64,
    /// `PoP` to server, one way [ns].
    pub pop_server_ns: u64,
    /// Basis of the delay from gateway to `PoP`.
    #[serde(default)]
    pub gateway_pop_fibre: Fibre,
    /// Basis of the delay from `PoP` to server.
    #[serde(default)]
    pub pop_server_fibre: Fibre,
}

/// Basis of a delay over fibre, for readers of the Profile's provenance. Not used in computations. Empty: unknown.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fibre {
    /// `table` (published RTTs), `cable` (published lengths) or `great-circle`.
    pub basis: String,
    /// One line: cities, sources, tails.
    pub detail: String,
}

impl Ground {
    /// Return the leg of `gateway`.
    ///
    /// # Errors
    /// [`AccessError::NoGroundLeg`].
    pub fn leg(&self, gateway: &str) -> Result<&GroundLeg, AccessError> {
        self.gateways.get(gateway).ok_or_else(|| AccessError::NoGroundLeg { gateway: gateway.to_owned() })
    }

    /// Check that every `PoP` has one delay to the server.
    ///
    /// # Errors
    /// [`AccessError::PopDelay`].
    pub fn check(&self) -> Result<(), AccessError> {
        let mut pops: BTreeMap<&str, u64> = BTreeMap::new();
        for leg in self.gateways.values() {
            let first_ns = *pops.entry(&leg.pop).or_insert(leg.pop_server_ns);
            if first_ns != leg.pop_server_ns {
                return Err(AccessError::PopDelay { pop: leg.pop.clone(), first_ns, second_ns: leg.pop_server_ns });
            }
        }
        Ok(())
    }
}
