//! From the gateway to the server: fibre, computed elsewhere (cable routes and city tables are data, and data live in Python).

use super::error::AccessError;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The terrestrial part of a path: for each gateway that the schedule uses, its way to the server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ground {
    /// The server's name (`london`, a coordinate pair), for descriptions.
    pub server: String,
    /// Gateway name → its leg.
    pub gateways: BTreeMap<String, GroundLeg>,
}

/// One gateway's way to the server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroundLeg {
    /// The point of presence where its traffic meets the Internet.
    pub pop: String,
    /// Gateway to `PoP`, one way [ns].
    pub gateway_pop_ns: u64,
    /// `PoP` to server, one way [ns].
    pub pop_server_ns: u64,
    /// What the first delay rests on.
    #[serde(default)]
    pub gateway_pop_fibre: Fibre,
    /// What the second rests on.
    #[serde(default)]
    pub pop_server_fibre: Fibre,
}

/// What a delay over fibre rests on, for those who read the Profile's provenance; nothing is computed from it. Empty where nobody said.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fibre {
    /// `table` (published RTTs), `cable` (published lengths) or `great-circle`.
    pub basis: String,
    /// One line: cities, sources, tails.
    pub detail: String,
}

impl Ground {
    /// The leg of `gateway`.
    ///
    /// # Errors
    /// [`AccessError::NoGroundLeg`].
    pub fn leg(&self, gateway: &str) -> Result<&GroundLeg, AccessError> {
        self.gateways.get(gateway).ok_or_else(|| AccessError::NoGroundLeg { gateway: gateway.to_owned() })
    }

    /// That every `PoP` has one delay to the server.
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
