//! What every scheme has to know about the links of a network: which can lose packets, and which handovers take a path from one to another.

use bentpipe_profile::{Bytes, Direction, Event, EventKind, NetworkSpec, Path};
use std::collections::BTreeSet;

/// A handover of a path from one link to another.
pub(crate) struct Change<'a> {
    pub event: &'a Event,
    pub to_hop: usize,
}

/// Return the handovers of a path to other links, in order of time.
pub(crate) fn handovers(path: &Path) -> impl Iterator<Item = Change<'_>> {
    path.events.iter().filter_map(|event| match event.kind {
        EventKind::Handover { to_hop, .. } if to_hop != event.hop => Some(Change { event, to_hop }),
        _ => None,
    })
}

/// Return the links that can lose packets: by random loss, or by a handover of one of their paths.
#[must_use]
pub fn lossy_links(spec: &NetworkSpec) -> BTreeSet<usize> {
    let has_loss = |side: &bentpipe_profile::HopDirection| side.loss.as_ref().is_some_and(|loss| loss.max() > 0);
    let links = spec.topology().links.iter().enumerate();
    let random = links.filter(|(_, link)| Direction::BOTH.iter().any(|&d| has_loss(link.hop.side(d)))).map(|(number, _)| number);
    let paths = spec.paths().iter();
    let handed_over =
        paths.flat_map(|path| handovers(path).flat_map(|change| [change.event.hop, change.to_hop].map(|hop| path.hops[hop].link)));
    random.chain(handed_over).collect()
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // within the bounds of the option
pub(crate) fn kilobytes(kb: f64) -> Bytes {
    Bytes((kb * 1e3) as u64)
}

/// Return the pairs of links, old and next, between which a handover takes a path.
#[must_use]
pub fn handed_over(spec: &NetworkSpec) -> BTreeSet<(usize, usize)> {
    let link = |path: &Path, hop: usize| path.hops[hop].link;
    let changes = |path| handovers(path).map(move |change| (link(path, change.event.hop), link(path, change.to_hop)));
    spec.paths().iter().flat_map(changes).collect()
}
