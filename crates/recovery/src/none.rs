//! No recovery inside the network: hosts retransmit.

use crate::registry::{Entry, Installed};

/// `none` in the registry.
pub const ENTRY: Entry = Entry {
    name: "none",
    status: "complete",
    description: "no recovery inside the network: hosts retransmit",
    citation: "",
    at_hosts: false,
    options: &[],
    install: |_, _, _| Ok(Installed::default()),
};
