//! The application of a flow: what the programs at its two ends do (crate `bentpipe-apps`).

use crate::units::{Bytes, Nanos};
use crate::video::VideoSpec;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Bytes of the header of every message; a message is never shorter.
pub const MESSAGE_HEADER: Bytes = Bytes(24);

/// A version of HTTP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum HttpVersion {
    /// HTTP/1.1.
    #[serde(rename = "1")]
    One,
    /// HTTP/2.
    #[serde(rename = "2")]
    Two,
    /// HTTP/3.
    #[serde(rename = "3")]
    Three,
}

/// An object of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WebObject {
    /// Number of the host that has it.
    pub host: u32,
    /// Size of the request.
    pub request_bytes: Bytes,
    /// Size of the response.
    pub response_bytes: Bytes,
    /// The object that leads to it, as an index; `None`: the page itself.
    #[serde(default)]
    pub after: Option<usize>,
    /// Computation between the arrival of that object and the request [ns].
    #[serde(default)]
    pub compute_ns: Nanos,
}

/// Return whether following the objects that lead to others ends at the page for every object.
fn is_acyclic(objects: &[WebObject]) -> bool {
    let mut reaches = vec![None; objects.len()];
    (0..objects.len()).all(|first| {
        let (mut at, mut way) = (Some(first), Vec::new());
        while let Some(object) = at {
            match reaches.get(object) {
                None | Some(Some(false)) => return false,
                Some(Some(true)) => break,
                Some(None) => {
                    reaches[object] = Some(false);
                    way.push(object);
                    at = objects[object].after;
                }
            }
        }
        for object in way {
            reaches[object] = Some(true);
        }
        true
    })
}

/// A video call (`bentpipe_apps::call`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CallSpec {
    /// Frames per second.
    pub fps: u32,
    /// Rate of the video at the start [bit/s].
    pub start_bps: u64,
    /// Highest rate of the video [bit/s].
    pub max_bps: u64,
    /// Whether the receiver sends video, too.
    pub both_ways: bool,
    /// Whether late frames may raise the delay of the jitter buffer by an RTT, once three frames within a minute were retransmitted.
    pub holds_rtt: bool,
    /// Whether repair packets follow the packets of a frame after losses.
    pub has_fec: bool,
    /// Time from the capture of a frame until its packets are ready [ns].
    pub encode_ns: Nanos,
    /// Time to decode a frame [ns].
    pub decode_ns: Nanos,
    /// Time from the decoder to the display [ns].
    pub display_ns: Nanos,
}

impl Default for CallSpec {
    /// 720p as browsers have it: 2.5 Mbit/s at most and 300 kbit/s at the start, libwebrtc's values. The times outside of the network and the jitter
    /// buffer were measured between two Chromiums over a path without delay (docs/guides/calls.md): 30 ms.
    fn default() -> Self {
        Self {
            fps: 30,
            start_bps: 300_000,
            max_bps: 2_500_000,
            both_ways: true,
            holds_rtt: true,
            has_fec: true,
            encode_ns: Nanos::from_millis(5),
            decode_ns: Nanos::from_millis(3),
            display_ns: Nanos::from_millis(22),
        }
    }
}

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
    /// The receiver loads a page: objects from several hosts that depend on each other.
    Web {
        /// The objects, in any order.
        objects: Vec<WebObject>,
        /// Version of HTTP.
        http: HttpVersion,
        /// Number of loads; `None`: until the flow stops.
        #[serde(default)]
        loads: Option<u64>,
        /// Time between two loads [ns].
        #[serde(default)]
        pause_ns: Nanos,
    },
    /// A video call over datagrams between both ends.
    Call(CallSpec),
    /// The receiver plays a video, chunk by chunk over one connection that it opens.
    Video(VideoSpec),
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
            Self::Web { objects, .. } if objects.is_empty() => Some(("objects", "at least one object")),
            Self::Web { objects, .. } if objects.iter().any(|object| short(&object.request_bytes) || short(&object.response_bytes)) => {
                Some(("objects", size))
            }
            Self::Web { objects, .. } if !is_acyclic(objects) => {
                Some(("objects", "each after an object of the page, and no object after itself, directly or over others"))
            }
            Self::Call(call) if !(1..=240).contains(&call.fps) => Some(("fps", "1 to 240 frames per second")),
            Self::Call(call) if call.start_bps < 30_000 => Some(("start_bps", "at least 30 kbit/s")),
            Self::Call(call) if !(30_000..=1_000_000_000).contains(&call.max_bps) => Some(("max_bps", "30 kbit/s to 1 Gbit/s")),
            Self::Video(video) => video.problem(),
            Self::Web { loads: Some(0), .. } => Some(("loads", "at least 1")),
            Self::Transfers { count: Some(0), .. } | Self::Request { count: Some(0), .. } => Some(("count", "at least 1")),
            _ => None,
        }
    }
}
