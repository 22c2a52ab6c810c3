//! Changes of the path that elements react to.

use crate::packet::{Crossing, Packet};
use bentpipe_profile::{Fate, Time};
use std::collections::VecDeque;
use std::sync::Arc;

/// The packets that an event concerns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scope {
    /// All packets of the element.
    All,
    /// Those of these paths in these hops, in order. Other packets are not concerned.
    Crossings(Arc<[Crossing]>),
}

impl Scope {
    /// Return whether the event concerns a packet.
    #[must_use]
    pub fn concerns(&self, packet: &Packet) -> bool {
        match self {
            Self::All => true,
            Self::Crossings(crossings) => crossings.binary_search(&packet.crossing()).is_ok(),
        }
    }
}

/// A change that an element has to react to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PathEvent {
    /// Paths leave this link at a handover. The fate applies to packets inside and to packets that still arrive.
    Leave {
        /// When.
        at: Time,
        /// Fate of the packets.
        fate: Fate,
        /// Whose packets.
        scope: Scope,
    },
    /// An interruption: the link sends nothing from `at` to `until`.
    Close {
        /// When the interruption begins.
        at: Time,
        /// When it ends.
        until: Time,
        /// Fate of the packets inside.
        fate: Fate,
        /// Whose packets.
        scope: Scope,
    },
    /// Paths use the link (possibly once more): the link serves arrivals itself.
    Join {
        /// When.
        at: Time,
        /// Whose packets.
        scope: Scope,
    },
    /// Another link's queue migrates to this link. The link serves packets from their own route only from `until` on.
    Await {
        /// When the last migrated packet has arrived.
        until: Time,
        /// Whose packets.
        scope: Scope,
    },
    /// Packets of a path on route number `route` or a newer one may not leave before `floor`, so that they do not overtake packets of the old route.
    NotBefore {
        /// The path.
        path: u32,
        /// Number of the new route.
        route: u16,
        /// When the old route's links are empty, as predicted at the handover. A later interruption of one of them is not foreseen.
        floor: Time,
    },
}

/// Move the packets that an event of `scope` at `at` drops from `in_flight` to `dropped`: those that would leave later.
pub fn drop_in_flight(in_flight: &mut VecDeque<Packet>, at: Time, scope: &Scope, dropped: &mut VecDeque<Packet>) {
    in_flight.retain(|packet| {
        let stays = packet.at <= at || !scope.concerns(packet);
        if !stays {
            dropped.push_back(Packet { at, ..*packet });
        }
        stays
    });
}
