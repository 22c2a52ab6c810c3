//! `LinkGuardian`: retransmission on a link by gaps in a port's sequence numbers (SIGCOMM 2023), as a baseline of `SatGuard`.
//!
//! | file | holds |
//! |---|---|
//! | [`sender`] | numbers, copies, retransmissions |
//! | [`receiver`] | holes, order, timeouts |
//! | [`label`] | the fields in a packet's header |
//! | [`link_end`] | both as an element |
//! | [`install`] | where the elements stand |
//!
//! Parameters and behaviour are those of the public code (NUS-SNL/linkguardian, MIT) where the paper leaves them open: a notification has the first lost
//! number and a count, only the first five holes are retransmitted, a lost retransmission is not retransmitted again. It was designed for links inside a data
//! centre: it knows no handovers, so copies do not migrate, and it has one sequence per port, so receivers of a shared beam see holes where packets went to others.

mod install;
mod label;
mod link_end;
#[cfg(test)]
mod properties;
pub mod receiver;
pub mod sender;

use crate::registry::{Entry, Installed};
use bentpipe_profile::Nanos;
use bentpipe_profile::tunables::{OptionSet, count, millis, number};

/// `linkguardian` in the registry.
pub const ENTRY: Entry = Entry {
    name: "linkguardian",
    status: "a baseline: no backpressure to the sender's queue; timeouts scaled to the hop's RTT",
    description: "retransmission on the link by gaps in a port's numbers, with copies; no migration",
    citation: "LinkGuardian, SIGCOMM 2023",
    at_hosts: false,
    options: Options::SPECS,
    install: |network, spec, values| install::install(network, spec, &Options::read(values)).map(Installed::inside),
};

choices! {
    /// Whether the receiver keeps order.
    pub enum Order {
        /// It holds packets behind a hole until that is filled or times out, and drops duplicates.
        Ordered = "ordered",
        /// Non-blocking: packets leave as they come.
        NonBlocking = "nb",
    }
}

options! {
    /// Options of `linkguardian`.
    pub struct Options {
        mode: Order = Order::option("mode", "order of packets behind a loss: kept (ordered), or as they come (nb)", Order::Ordered, "SIGCOMM 2023, §3"),
        copies: u32 = count("copies", "retransmissions of a lost packet, sent together; 0: by the link's mean loss, 1, or 2 from 1e-3 on", 0, 0, 8, "public code; the paper: the fewest N for which loss^(N+1) is at most the target"),
        holes: u32 = count("holes", "most holes of a notification that are retransmitted", 5, 1, 255, "public code"),
        dummies: u32 = count("dummies", "most dummy packets after the last packet, which show that it was lost", 3, 0, 16, "public code"),
        dummy_after: Nanos = millis("dummy_after_ms", "idle time before a dummy packet", 0.2, 0.001, 100.0, "chosen here: the paper sends them at the lowest priority, when the link is idle"),
        ack_delay: Nanos = millis("ack_delay_ms", "wait of an acknowledgement for a packet that can carry it", 0.2, 0.0, 100.0, "chosen here, as for satguard"),
        timeout: f64 = number("timeout_rtts", "when a hole is given up, in RTTs of the hop", 2.0, 1.0, 100.0, "7 µs at 100 Gbit/s in the paper, which is over its RTT; scaled here"),
        buffer_kb: f64 = number("buffer_kb", "most bytes of copies at a sender", 3300.0, 1.0, 1_000_000.0, "chosen here, as for satguard").unit("kB"),
        marked_flows: u32 = crate::marking::OPTION,
    }
}
