//! Changes of the path that elements react to.

use crate::packet::Packet;
use bentpipe_profile::{Fate, Time};
use std::collections::VecDeque;

/// A change that an element has to react to. `path`: the only path whose packets it concerns; `None`: all packets of the element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathEvent {
    /// The path leaves this link at a handover. The fate applies to packets inside and to packets that still arrive.
    Leave {
        /// When.
        at: Time,
        /// Fate of the packets.
        fate: Fate,
        /// Whose packets.
        path: Option<u32>,
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
        path: Option<u32>,
    },
    /// The path uses the link (possibly once more): the link serves arrivals itself.
    Join {
        /// When.
        at: Time,
        /// Whose packets.
        path: Option<u32>,
    },
    /// Another link's queue migrates to this link. The link serves packets from their own route only from `until` on.
    Await {
        /// When the last migrated packet has arrived.
        until: Time,
        /// Whose packets.
        path: Option<u32>,
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

/// Return whether an event of `scope` concerns packets of `path`.
#[must_use]
pub fn concerns(scope: Option<u32>, path: u32) -> bool {
    scope.is_none_or(|scope| scope == path)
}

/// Move the packets that an event of `scope` at `at` drops from `in_flight` to `dropped`: those that would leave later.
pub fn drop_in_flight(in_flight: &mut VecDeque<Packet>, at: Time, scope: Option<u32>, dropped: &mut VecDeque<Packet>) {
    in_flight.retain(|packet| {
        let stays = packet.at <= at || !concerns(scope, packet.path);
        if !stays {
            dropped.push_back(Packet { at, ..*packet });
        }
        stays
    });
}
