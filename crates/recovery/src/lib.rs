//! Loss recovery inside the network, as state machines without I/O and without a clock.
//!
//! A *scheme* retransmits lost packets on the link where they were lost, or codes them at the hosts. The simulator drives its machines through elements at the ends of links and paths
//! ([`bentpipe_link::Network::set_ends`], [`bentpipe_link::Network::set_path_ends`]).
//!
//! | module | content |
//! |---|---|
//! | [`registry`] | every scheme by name, with its tunables; its list declares their modules |
//! | [`linkguardian`] | `LinkGuardian`: a port's sequence numbers, retransmission in copies |
//! | [`mpep`] | `M-PEP`: proxies that split connections |
//! | [`none`] | no recovery |
//! | [`satguard`] | `SatGuard`: hop sequence numbers, handover-aware migration, order keeping |
//! | [`tambur`] | `Tambur`: a streaming code at the hosts |
//! | [`serial`] | numbers of 16 bits on the wire, of 64 bits in memory |
//! | [`links`] | the links that can lose packets |
//! | [`wire`] | the IPv6 option that carries them |
//! | [`overhead`] | counters of what recovery costs |
//! | [`marking`] | the flows that a scheme protects |

#[macro_use(choices, options)]
extern crate bentpipe_profile;
#[macro_use]
pub mod registry;

pub mod links;
pub mod marking;
pub mod overhead;
pub mod serial;
pub mod wire;

#[cfg(test)]
mod testing;

macro_rules! modules {
    ($($scheme:ident)*) => {
        $(pub mod $scheme;)*
    };
}
every_scheme!(modules);
