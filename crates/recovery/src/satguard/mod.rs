//! `SatGuard`: link-local retransmission with buffers that follow handovers, losses found per beam, and order kept per flow.
//!
//! Source: "`SatGuard`: Concealing Endless and Bursty Packet Losses in LEO Satellite Networks for Delay-Sensitive Web Applications", WWW 2024. Its public prototype differs from the
//! paper; this follows the paper, and `docs/design/015-recovery.md` states each choice that the paper leaves open.
//!
//! | module | content |
//! |---|---|
//! | [`upstream`] | numbers, copies, loss detection |
//! | [`downstream`] | acknowledgements |
//! | [`handover`] | migration of copies to the next link |
//! | [`order`], [`hold`] | order per flow at the egress, and the longest hold |
//! | [`timer`] | the timer of a beam |
//! | `link_end`, `path_end`, `label` | these machines as elements of the simulator |
//! | `install` | their place in a network |
//! | [`node`], [`notices`] | their place in a node that is a process of its own, and what they tell it |

pub mod downstream;
pub mod handover;
pub mod hold;
mod install;
mod label;
mod link_end;
pub mod node;
pub mod notices;
pub mod order;
mod path_end;
#[cfg(test)]
mod properties;
pub mod timer;
pub mod upstream;

use crate::marking::Marked;
use crate::registry::{Entry, Installed};
use bentpipe_profile::Nanos;
use bentpipe_profile::tunables::{OptionSet, count, millis, number, switch};

/// `satguard` in the registry.
pub const ENTRY: Entry = Entry {
    name: "satguard",
    status: "as in the paper; choices that it leaves open are stated in docs/design/015-recovery.md",
    description: "retransmission on the link, with migration at handovers and order kept per flow",
    citation: "SatGuard, WWW 2024",
    at_hosts: false,
    options: Options::SPECS,
    install: |network, spec, values| install::install(network, spec, &Options::read(values)).map(Installed::inside),
};

choices! {
    /// How link ends detect losses.
    pub enum DetectionChoice {
        /// By the beam's timer where links share a queue, by gaps elsewhere.
        Auto = "auto",
        /// By gaps everywhere.
        Gaps = "gaps",
        /// By the timer everywhere.
        Timer = "timer",
    }
}

choices! {
    /// Longest hold of a packet at the egress.
    pub enum Hold {
        /// Mean recovery plus four mean deviations, in one to three hop RTTs.
        Adaptive = "adaptive",
        /// Three hop RTTs: as long as three tries take.
        Longest = "longest",
    }
}

options! {
    /// Options of `satguard`.
    pub struct Options {
        detection: DetectionChoice = DetectionChoice::option("detection", "what shows a loss: gaps in acknowledgements, or the beam's timer", DetectionChoice::Auto, "WWW 2024, §3.3"),
        tries: u32 = count("tries", "most transmissions of a packet on a link", 3, 1, 16, "chosen here: three losses of 10 % leave 1e-3"),
        buffer_kb: f64 = number("buffer_kb", "most bytes of copies at a link end", 3300.0, 1.0, 1_000_000.0, "chosen here: twice what 1 Gbit/s sends in the RTT of a hop between satellites, 13.2 ms").unit("kB"),
        ack_delay: Nanos = millis("ack_delay_ms", "wait of an acknowledgement for a packet that can carry it", 0.2, 0.0, 100.0, "chosen here: 5000 control packets per second at most, a twentieth of a hop's RTT"),
        migration: bool = switch("migration", "copies go to the next satellite at a handover", true, "WWW 2024, §3.2"),
        migration_delay: Nanos = millis("migration_delay_ms", "delay from the old satellite to the next", 6.6, 0.0, 1000.0, "a hop between satellites of one plane, 1970 km"),
        migration_mbps: f64 = number("migration_mbps", "rate from the old satellite to the next", 1000.0, 0.1, 1_000_000.0, "WWW 2024, §4.1").unit("Mbit/s"),
        order: bool = switch("order", "the egress of a path restores the order of each flow", true, "WWW 2024, §3.4"),
        hold: Hold = Hold::option("hold", "longest hold of a packet whose predecessor is missing", Hold::Adaptive, "WWW 2024, §3.4"),
        marked_flows: u32 = crate::marking::OPTION,
    }
}

impl Options {
    const fn marked(&self) -> Marked {
        Marked { first: self.marked_flows }
    }
}
