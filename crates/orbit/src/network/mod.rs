//! A whole constellation as one network: places, satellites and the links between them; one path for each pair of places.
//!
//! Snapshot routing: at the start of each slot every place takes a satellite by a scheduling policy, and every path the shortest route between the two
//! satellites over the links of the constellation, by the positions at that time. Routes stay until the next slot. Only links that some path uses are in the
//! Topology, so links that carry nothing cost nothing.
//!
//! | file | holds |
//! |---|---|
//! | [`settings`] | places, pairs and rules |
//! | `routing` | satellites and routes of a slot |
//! | `links` | nodes and links, with their delays |
//! | `paths` | routes and handovers of a path |
//! | `loss` | loss episodes of the terminals' links |
//!
//! Decisions: `docs/design/016-constellation-networks.md`.

mod links;
mod loss;
mod paths;
mod routing;
mod settings;

pub use settings::{LinkCapacity, NetworkPlace, NetworkSettings};

use crate::elements::Elements;
use crate::error::OrbitError;
use crate::propagate::Propagator;
use crate::route::LinkGraph;
use crate::visibility::launch_ranks;
use bentpipe_profile::{Basis, NetworkSpec, ProfileError, Provenance, Topology};
use links::Links;
use loss::Use;
use rayon::prelude::*;
use routing::{Router, Scratch, Slot};
use serde::{Deserialize, Serialize};

/// Everything needed to draw the loss again with another seed.
#[derive(Serialize, Deserialize)]
struct Recipe {
    maker: String,
    settings: NetworkSettings,
    uses: Vec<Use>,
}

const MAKER: &str = "constellation-network";

/// Why a network cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum NetworkError {
    /// Orbits, routes or settings.
    #[error(transparent)]
    Orbit(#[from] OrbitError),
    /// The network as a whole.
    #[error(transparent)]
    Profile(#[from] ProfileError),
    /// There is no recipe to draw it again.
    #[error("{name:?} was not made from a constellation: it cannot be drawn with another seed")]
    NoRecipe {
        /// Name of the network.
        name: String,
    },
}

/// Make a network from a constellation. `links`: the links between satellites. `seed` determines the loss, and the choices of policies that draw.
///
/// # Errors
/// Settings out of range, elements that SGP4 refuses, a link that passes too low, a pair that has no route at any time.
pub fn make(settings: &NetworkSettings, elements: &[Elements], links: &LinkGraph, seed: u64) -> Result<NetworkSpec, NetworkError> {
    let policy = settings.check()?;
    let (satellites, ranks) = (Propagator::all(elements)?, launch_ranks(elements));
    let router = Router::new(settings, &satellites, &ranks, links, policy, seed);
    let numbers: Vec<i64> = router.numbers().collect();
    let mut slots: Vec<Slot> =
        numbers.into_par_iter().map_init(Scratch::default, |scratch, number| router.slot(number, scratch)).collect::<Result<_, _>>()?;
    for next in 1..slots.len() {
        let (before, after) = slots.split_at_mut(next);
        router.add_moves(&before[next - 1], &mut after[0])?;
    }
    let used = Links::of(settings, &slots);
    let numbers = used.numbers();
    let (topology, nodes) = used.topology(settings, &satellites)?;
    let paths = (0..settings.pairs.len())
        .map(|pair| paths::path(settings, pair, &slots, &numbers, &nodes, &satellites))
        .collect::<Result<Vec<_>, _>>()?;
    let uses = loss::uses(settings, &slots, &numbers);
    assemble(settings, topology, paths, uses, seed)
}

/// Draw the loss of a network with another seed. Satellites and routes stay.
///
/// # Errors
/// [`NetworkError::NoRecipe`] if [`make`] did not make it.
pub fn reseed(network: &NetworkSpec, seed: u64) -> Result<NetworkSpec, NetworkError> {
    let no_recipe = || NetworkError::NoRecipe { name: network.name().to_owned() };
    let recipe: Recipe = serde_json::from_value(network.provenance().recipe.clone()).map_err(|_| no_recipe())?;
    let links = network.topology().links.len();
    let places = recipe.settings.places.len();
    if recipe.maker != MAKER || recipe.uses.iter().any(|used| used.out_of(links, places)) {
        return Err(no_recipe());
    }
    recipe.settings.check()?;
    assemble(&recipe.settings, network.topology().clone(), network.paths().to_vec(), recipe.uses, seed)
}

fn assemble(
    settings: &NetworkSettings,
    mut topology: Topology,
    paths: Vec<bentpipe_profile::Path>,
    uses: Vec<Use>,
    seed: u64,
) -> Result<NetworkSpec, NetworkError> {
    if let Some(params) = &settings.loss {
        let drawn = loss::draw(settings, params, &uses, seed, |link| topology.links[link].name.clone())?;
        for (link, sides) in drawn {
            loss::set(&mut topology.links[link].hop, sides);
        }
    }
    let provenance = Provenance {
        kind: "computed".to_owned(),
        description: format!(
            "{} paths over {} links, {} satellites by {} scheduling, routes per slot by delay",
            paths.len(),
            topology.links.len(),
            topology.nodes.iter().filter(|node| node.starts_with("sat:")).count(),
            settings.policy
        ),
        made_by: format!("bentpipe {}", env!("CARGO_PKG_VERSION")),
        seed: Some(seed),
        includes: Vec::new(),
        // All values were checked to be finite, so that they can be written as JSON.
        recipe: serde_json::to_value(Recipe { maker: MAKER.to_owned(), settings: settings.clone(), uses }).unwrap_or_default(),
    };
    let (name, start, duration) = (settings.name.clone(), settings.start_unix_ns, settings.duration_ns);
    Ok(NetworkSpec::new(name, start, duration, Basis::OneWay, provenance, topology, paths)?)
}

#[cfg(test)]
mod tests;
