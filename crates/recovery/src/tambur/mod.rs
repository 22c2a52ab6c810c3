//! `Tambur`: a streaming code at the two hosts, as a baseline of `SatGuard` (NSDI 2023).
//!
//! | file | holds |
//! |---|---|
//! | [`field`] | arithmetic in GF(256) |
//! | [`code`] | which symbols a parity covers, and the decoder |
//! | [`sender`] | frames, parities, their share by feedback |
//! | [`receiver`] | arrivals, recovery, reports |
//!
//! A frame's parities cover half of the symbols (V) of this frame and the τ before it, and the other half (U) of this frame and of the one τ before it. So a
//! lost frame is recovered over the next τ frames, if these arrive: the guard space.
//!
//! What the paper does not say of its use here is chosen: a symbol is a packet, a frame has eight packets or those of 33 ms, and the share of parities follows a
//! rule in place of the trained model, which is not published: one half after a loss, for two reports, else none. Parities take no part in congestion control.

pub mod code;
pub mod field;
pub mod receiver;
pub mod sender;

use crate::registry::{AtHosts, Entry, Installed};
use bentpipe_profile::Nanos;
use bentpipe_profile::tunables::{OptionSet, count, millis, number};
use std::sync::Arc;

/// `tambur` in the registry.
pub const ENTRY: Entry = Entry {
    name: "tambur",
    status: "a baseline: packets as symbols, a rule in place of the trained model",
    description: "a streaming code between the hosts: parities recover lost packets if the next frames arrive",
    citation: "Tambur, NSDI 2023",
    at_hosts: true,
    options: Options::SPECS,
    install: |_, _, values| Ok(Installed { overhead: Some(Arc::default()), hosts: Some(AtHosts::Tambur(Options::read(values))) }),
};

options! {
    /// Options of `tambur`.
    pub struct Options {
        tau: u32 = count("tau", "frames after a lost one until it is recovered at the latest", 3, 1, 3, "NSDI 2023, §5; the field has room for 3"),
        packets: u32 = count("packets", "packets of a frame", 8, 2, 16, "chosen here: the paper's frames are those of video"),
        span: Nanos = millis("span_ms", "longest time from the first to the last packet of a frame", 33.0, 0.1, 1000.0, "chosen here: a frame of video"),
        share: f64 = number("share", "parities per packet, at all times; 0: by feedback", 0.0, 0.0, 1.0, "NSDI 2023, §5: 0, 1/4 or 1/2 by feedback"),
        report: Nanos = millis("report_ms", "interval of the receiver's reports", 2000.0, 10.0, 60_000.0, "public code"),
        held: u32 = count("held_reports", "reports without loss after which the parities end", 2, 1, 100, "public code"),
    }
}

/// A packet's place in the code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Symbol {
    /// Number of its frame.
    pub frame: u64,
    /// Its number in the frame.
    pub index: u16,
}

/// Bytes of the header that each packet gets (public code).
pub const HEADER_BYTES: u32 = 18;

/// Size of a report: IPv4, UDP and its fields [bytes].
pub const REPORT_BYTES: u32 = 48;

/// A parity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parity {
    /// Frame that it ends.
    pub frame: u64,
    /// Its number among the frame's parities.
    pub number: u16,
    /// Packets of the frames that it covers; the last is its own.
    pub sizes: Vec<u16>,
    /// The sum; empty where packets have no content, as in the simulator.
    pub value: Vec<u8>,
}

/// What a receiver reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Report {
    /// Whether packets were lost since the last report.
    pub is_lossy: bool,
}

#[cfg(test)]
fn defaults() -> Options {
    Options::read(&ENTRY.declared().check(&bentpipe_profile::options::OptionValues::new()).expect("the defaults are allowed"))
}
