//! The flows that a scheme protects. An operator marks them by Traffic Class (RFC 8200 §7); other flows pass untouched.

use std::collections::BTreeSet;

/// The marked flows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Marked {
    /// All.
    #[default]
    All,
    /// These, by their index in the statistics ([`bentpipe_link::Packet::flow`]).
    Flows(BTreeSet<u32>),
}

impl Marked {
    /// Return whether a flow is marked.
    #[must_use]
    pub fn includes(&self, flow: u32) -> bool {
        match self {
            Self::All => true,
            Self::Flows(flows) => flows.contains(&flow),
        }
    }
}
