//! Changes of the path that elements react to.

use bentpipe_profile::{Fate, Time};

/// A change of the path that an element has to react to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathEvent {
    /// The path leaves this hop at a handover. The fate applies to packets inside and to packets that still arrive.
    Leave {
        /// When.
        at: Time,
        /// Fate of the packets.
        fate: Fate,
    },
    /// An interruption: the hop sends nothing from `at` to `until`.
    Close {
        /// When the interruption begins.
        at: Time,
        /// When it ends.
        until: Time,
        /// Fate of the packets inside.
        fate: Fate,
    },
    /// The path uses the hop (possibly once more): the hop serves arrivals itself.
    Join,
    /// Another hop's queue migrates to this hop. The hop serves packets from its own route only from `until` on.
    Await {
        /// When the last migrated packet has arrived.
        until: Time,
    },
    /// Packets on route number `route` or a newer one may not leave before `floor`, so that they do not overtake packets of the old route.
    NotBefore {
        /// Number of the new route.
        route: u16,
        /// When the old route's hops are empty, as predicted at the handover. A later interruption of one of them is not foreseen.
        floor: Time,
    },
}
