//! Loss episodes of the terminals' links. A terminal's episodes in a slot depend on its name, the slot and the seed alone, so they are the same in every
//! network that has the terminal, over whichever satellite.

use super::links::{Link, links_of};
use super::routing::Slot;
use super::settings::NetworkSettings;
use crate::access::loss::steps;
use crate::access::params::{LossParams, LossSide};
use bentpipe_profile::{Direction, Hop, Nanos, ProfileError, Series, Streams, Time};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A terminal's use of a satellite in a slot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Use {
    /// Index of the link in the Topology.
    link: usize,
    /// Index of the terminal.
    place: usize,
    /// Number of the slot since 1970.
    slot: i64,
    /// Whether the terminal took the satellite at the slot's start.
    opens: bool,
    /// Whether it leaves the satellite at the slot's end.
    closes: bool,
}

impl Use {
    /// Whether it names a link or a place that does not exist.
    pub(super) const fn out_of(&self, links: usize, places: usize) -> bool {
        self.link >= links || self.place >= places
    }
}

/// Find which terminal uses which satellite in which slot.
pub(super) fn uses(settings: &NetworkSettings, slots: &[Slot], numbers: &BTreeMap<Link, usize>) -> Vec<Use> {
    let in_slot = |slot: &Slot| -> BTreeMap<(usize, u32), usize> {
        let routes = settings.pairs.iter().zip(&slot.routes).filter_map(|(&pair, route)| Some((pair, route.as_ref()?)));
        routes.map(|(pair, route)| ((pair[0], route[0]), numbers[&links_of(pair, route)[0].0])).collect()
    };
    let all: Vec<_> = slots.iter().map(in_slot).collect();
    let mut uses = Vec::new();
    for (i, (slot, here)) in slots.iter().zip(&all).enumerate() {
        let absent = |other: Option<&BTreeMap<(usize, u32), usize>>, key| other.is_some_and(|other| !other.contains_key(key));
        let before = i.checked_sub(1).and_then(|before| all.get(before));
        uses.extend(here.iter().map(|(key, &link)| Use {
            link,
            place: key.0,
            slot: slot.number,
            opens: absent(before, key),
            closes: absent(all.get(i + 1), key),
        }));
    }
    uses
}

/// Draw the loss of the terminals' links.
///
/// # Errors
/// None that a network with checked settings can have.
pub(super) fn draw(
    settings: &NetworkSettings,
    params: &LossParams,
    uses: &[Use],
    seed: u64,
    hop_of: impl Fn(usize) -> String,
) -> Result<BTreeMap<usize, [Series; 2]>, ProfileError> {
    let mut points: BTreeMap<usize, [Vec<(Time, u64)>; 2]> = BTreeMap::new();
    for used in uses {
        let place = Streams::new(seed).child("network").child(&settings.places[used.place].name);
        for direction in Direction::BOTH {
            let side = if direction == Direction::Up { &params.up } else { &params.down };
            let mut stream = place.stream(&format!("loss/{}/slot:{}", direction.name(), used.slot));
            let episodes = steps_of(settings, params, side, used, &mut stream);
            let own = &mut points.entry(used.link).or_default()[direction as usize];
            for (at, probability) in episodes {
                // Slots follow each other: the end of one is the start of the next.
                match own.last_mut() {
                    Some(last) if last.0 == at => last.1 = probability,
                    _ => own.push((at, probability)),
                }
            }
        }
    }
    let series = |(link, [up, down]): (usize, [Vec<(Time, u64)>; 2])| {
        let name = |direction: Direction| format!("{}/{}/loss_probability", hop_of(link), direction.name());
        Ok((link, [Series::steps(&name(Direction::Up), &up)?, Series::steps(&name(Direction::Down), &down)?]))
    };
    points.into_iter().map(series).collect()
}

/// Return the episodes of a slot, over the network's time.
fn steps_of(
    settings: &NetworkSettings,
    params: &LossParams,
    side: &LossSide,
    used: &Use,
    stream: &mut bentpipe_profile::rng::Stream,
) -> Vec<(Time, u64)> {
    let begins = settings.slots.start_of(used.slot);
    let unix = |ns: i64| u64::try_from(ns).unwrap_or(0); // years after 1970
    let (start, end) = (unix(begins.0), unix(begins.plus(Nanos(settings.slots.period_ns)).0));
    let open = used.opens.then(|| start + settings.gap_ns.0);
    // The levels of the environments are those of a median hour.
    let steps = steps(stream, params, side, 1.0, (start, end), (open, used.closes));
    let network = unix(settings.start_unix_ns.0);
    let (from, to) = (start.max(network), end.min(network + settings.duration_ns.0));
    let first = steps.partition_point(|step| step.0 <= from).saturating_sub(1);
    let mut out: Vec<(Time, u64)> =
        steps[first..].iter().take_while(|step| step.0 < to).map(|step| (Time(step.0.max(from) - network), step.1)).collect();
    // Packets on their way after the slot must not stay in its last episode.
    if out.last().is_some_and(|last| last.1 > 0) {
        out.push((Time(to - network), 0));
    }
    out
}

/// Set the loss of links.
pub(super) fn set(hop: &mut Hop, [up, down]: [Series; 2]) {
    hop.up.loss = Some(up);
    hop.down.loss = Some(down);
}
