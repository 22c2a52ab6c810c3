//! The flows that a scheme protects. An operator marks them by Traffic Class (RFC 8200 §7); other flows pass untouched.

use bentpipe_profile::tunables::{Tunable, count};

/// The option of the schemes inside the network that sets it.
pub(crate) const OPTION: Tunable<u32> = count(
    "marked_flows",
    "flows that are protected: the first ones of a Run; 0: all",
    0,
    0,
    65_535,
    "WWW 2024, §3.5: partial traffic processing",
);

/// The marked flows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Marked {
    /// How many, from the first on, by their index in the statistics ([`bentpipe_link::Packet::flow`]); 0: all.
    pub first: u32,
}

impl Marked {
    /// Return whether a flow is marked.
    #[must_use]
    pub const fn includes(self, flow: u32) -> bool {
        self.first == 0 || flow < self.first
    }
}
