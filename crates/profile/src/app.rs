//! The application of a flow: what the programs at its two ends do (crate `bentpipe-apps`).

use crate::units::{Bytes, Nanos};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Bytes of the header of every message; a message is never shorter.
pub const MESSAGE_HEADER: Bytes = Bytes(24);

/// An application with its parameters.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum AppSpec {
    /// The sender always has data.
    Bulk,
    /// The sender transfers one message after the other, each over a connection of its own.
    Transfers {
        /// Sizes of the transfers, in turn; after the last one the first follows.
        sizes_bytes: Vec<Bytes>,
        /// Number of transfers; `None`: until the flow stops.
        #[serde(default)]
        count: Option<u64>,
        /// Time between the starts of two transfers [ns]; `None`: each starts when the one before it is delivered.
        #[serde(default)]
        every_ns: Option<Nanos>,
        /// Whether `every_ns` is the mean of a Poisson process and not a constant.
        #[serde(default)]
        poisson: bool,
    },
    /// The sender writes messages of one size at a constant rate (an application-limited flow).
    Paced {
        /// Size of one message.
        write_bytes: Bytes,
        /// Time between messages [ns].
        every_ns: Nanos,
    },
    /// The receiver requests messages one after the other, over one connection that it opens.
    Request {
        /// Size of a request.
        request_bytes: Bytes,
        /// Size of a response.
        response_bytes: Bytes,
        /// Number of requests; `None`: until the flow stops.
        #[serde(default)]
        count: Option<u64>,
        /// Time that the sender takes to answer [ns].
        #[serde(default)]
        think_ns: Nanos,
    },
    /// An application that the driver gets from elsewhere, such as one in Python.
    Plugin {
        /// Its name.
        name: String,
        /// Its options.
        #[serde(default)]
        options: BTreeMap<String, f64>,
    },
}

impl AppSpec {
    /// One transfer of this size.
    #[must_use]
    pub fn transfer(bytes: Bytes) -> Self {
        Self::Transfers { sizes_bytes: vec![bytes], count: Some(1), every_ns: None, poisson: false }
    }

    /// Return the first invalid parameter and the expected values, if there is one.
    #[must_use]
    pub fn problem(&self) -> Option<(&'static str, &'static str)> {
        let short = |bytes: &Bytes| *bytes < MESSAGE_HEADER;
        let size = "at least 24 bytes, the header of a message";
        match self {
            Self::Transfers { sizes_bytes, .. } if sizes_bytes.is_empty() => Some(("sizes_bytes", "at least one size")),
            Self::Transfers { sizes_bytes, .. } if sizes_bytes.iter().any(short) => Some(("sizes_bytes", size)),
            Self::Transfers { every_ns: Some(Nanos(0)), .. } | Self::Paced { every_ns: Nanos(0), .. } => {
                Some(("every_ns", "a time above zero"))
            }
            Self::Transfers { every_ns: None, poisson: true, .. } => Some(("poisson", "every_ns, the mean time between transfers")),
            Self::Paced { write_bytes, .. } if short(write_bytes) => Some(("write_bytes", size)),
            Self::Request { request_bytes, .. } if short(request_bytes) => Some(("request_bytes", size)),
            Self::Request { response_bytes, .. } if short(response_bytes) => Some(("response_bytes", size)),
            Self::Transfers { count: Some(0), .. } | Self::Request { count: Some(0), .. } => Some(("count", "at least 1")),
            _ => None,
        }
    }
}
