//! What a policy sees before each chunk, and the trait of policies.

use bentpipe_profile::video::VideoSpec;

/// A video.
#[derive(Clone, Debug)]
pub struct Video {
    /// Nominal bitrate of each quality, rising [Mbit/s].
    pub rates_mbps: Vec<f64>,
    /// Size of each chunk [bytes]: `[quality][chunk]`.
    pub chunk_bytes: Vec<Vec<f64>>,
    /// Playing time of a chunk [s].
    pub chunk_s: f64,
    /// Buffer above which the player waits [s].
    pub buffer_cap_s: f64,
}

impl Video {
    /// Take the video of a checked specification.
    #[must_use]
    pub fn new(spec: &VideoSpec) -> Self {
        let sizes = |chunks: &Vec<bentpipe_profile::Bytes>| chunks.iter().map(|bytes| bytes.0 as f64).collect();
        Self {
            rates_mbps: spec.rates_bps.iter().map(|bps| *bps as f64 / 1e6).collect(),
            chunk_bytes: spec.chunk_bytes.iter().map(sizes).collect(),
            chunk_s: spec.chunk_ns.as_secs_f64(),
            buffer_cap_s: spec.buffer_ns.as_secs_f64(),
        }
    }

    /// Return the number of qualities.
    #[must_use]
    pub fn qualities(&self) -> usize {
        self.rates_mbps.len()
    }

    /// Return the number of chunks.
    #[must_use]
    pub fn chunks(&self) -> usize {
        self.chunk_bytes[0].len()
    }
}

/// A chunk that arrived.
#[derive(Clone, Copy, Debug)]
pub struct Download {
    /// Size [bytes].
    pub bytes: f64,
    /// Time from the request until the first byte [s].
    pub first_byte_s: f64,
    /// Time from the request until the last byte [s].
    pub took_s: f64,
}

impl Download {
    /// Return the throughput that the player saw [bit/s].
    #[must_use]
    pub fn throughput_bps(&self) -> f64 {
        self.bytes * 8.0 / self.took_s.max(1e-6)
    }
}

/// What a player knows before it requests a chunk.
#[derive(Clone, Copy, Debug)]
pub struct Observation<'a> {
    /// The video.
    pub video: &'a Video,
    /// Time since the start of the run [s].
    pub now_s: f64,
    /// The chunk to request next.
    pub next: usize,
    /// Quality of the chunk before it.
    pub last_quality: usize,
    /// Playing time in the buffer [s].
    pub buffer_s: f64,
    /// Chunks that arrived, in order.
    pub downloads: &'a [Download],
}

/// How a player chooses. It is asked before each chunk but the first.
pub trait Policy: Send {
    /// Return the quality of the next chunk.
    fn choose(&mut self, seen: &Observation<'_>) -> usize;
}
