//! Messages between the session and its nodes: one JSON object a line on a socket for each node.

use super::core::Counts;
use super::plan::Role;
use crate::error::EmuError;
use bentpipe_profile::Time;
use bentpipe_profile::run::LinkRow;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{self, BufRead, BufReader, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;

/// A wire of a node.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct WireSetup {
    /// The node at the other end.
    pub peer: Role,
    /// Process of the other node, if this one makes the pair.
    pub pid: Option<u32>,
}

/// What a node has to know before it starts.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Setup {
    /// Its place on the path.
    pub role: Role,
    /// Its wires.
    pub wires: Vec<WireSetup>,
    /// Memory of each wire's ring [bytes].
    pub ring_bytes: usize,
    /// Folder for the file of its frames; `None`: they are not recorded.
    pub recording: Option<OsString>,
}

/// From the session.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// Make the pairs of wires.
    Setup(Box<Setup>),
    /// Open the wires: all pairs exist.
    Open,
    /// Start: the machine's clock at a Profile time.
    Start {
        /// `CLOCK_MONOTONIC` [ns].
        anchor_ns: u64,
        /// The Profile's time then.
        base: Time,
    },
    /// Report and end.
    Stop,
}

/// From a node.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// The order is executed.
    Done,
    /// Rows of `links`; flows are labels.
    Window(Vec<WindowRow>),
    /// The last message.
    Report(Box<NodeReport>),
    /// It failed.
    Failed {
        /// Its reason.
        reason: String,
    },
}

/// The counters of a node.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[allow(missing_docs)] // see `RelayReport`
pub struct NodeReport {
    pub counts: Counts,
    /// The scheme's counters.
    pub overhead: BTreeMap<String, u64>,
    /// Frames that did not fit a ring, or that the kernel refused.
    pub frames_lost: u64,
    /// Packets for the host that the bridge did not read in time.
    pub unread: u64,
    pub held: u64,
    pub lateness_n: u64,
    pub late: u64,
    pub lateness_p50_ms: Option<f64>,
    pub lateness_p99_ms: Option<f64>,
    pub lateness_p999_ms: Option<f64>,
    pub lateness_max_ms: Option<f64>,
    /// Processor time [ns].
    pub processor_ns: u64,
}

/// A row of `links`, with bits of floats, which JSON cannot hold when they are not finite.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct WindowRow {
    hop: String,
    is_up: bool,
    flow: i64,
    floats: [u64; 6],
    counts: [u64; 12],
}

impl WindowRow {
    /// Encode a row.
    #[must_use]
    pub fn of(row: &LinkRow<'_>) -> Self {
        let floats = [row.t_s, row.capacity_bps, row.delay_mean_ms, row.delay_p50_ms, row.delay_p95_ms, row.delay_max_ms];
        let counts = [
            row.backlog_bytes,
            row.backlog_max_bytes,
            row.delivered_bytes,
            row.drops_queue,
            row.drops_loss,
            row.drops_event,
            row.drops_aqm,
            row.drops_no_route,
            row.marks_law,
            row.marks_threshold,
            row.delay_n,
            0,
        ];
        Self { hop: row.hop.to_owned(), is_up: row.direction == "up", flow: row.flow, floats: floats.map(f64::to_bits), counts }
    }

    /// Return the label of its flow; `None`: it is of all flows.
    #[must_use]
    pub fn label(&self) -> Option<u32> {
        u32::try_from(self.flow).ok()
    }

    /// Decode the row. `flow`: its number in the table.
    #[must_use]
    pub fn row<'a>(&'a self, profile: &'a str, flow: i64) -> LinkRow<'a> {
        let [t_s, capacity_bps, delay_mean_ms, delay_p50_ms, delay_p95_ms, delay_max_ms] = self.floats.map(f64::from_bits);
        let c = &self.counts;
        LinkRow {
            t_s,
            profile,
            hop: &self.hop,
            direction: if self.is_up { "up" } else { "down" },
            flow,
            capacity_bps,
            backlog_bytes: c[0],
            backlog_max_bytes: c[1],
            delivered_bytes: c[2],
            drops_queue: c[3],
            drops_loss: c[4],
            drops_event: c[5],
            drops_aqm: c[6],
            drops_no_route: c[7],
            marks_law: c[8],
            marks_threshold: c[9],
            delay_n: c[10],
            delay_mean_ms,
            delay_p50_ms,
            delay_p95_ms,
            delay_max_ms,
        }
    }
}

/// One end of a node's socket for messages.
pub struct Channel {
    reader: BufReader<UnixStream>,
    partial: Vec<u8>,
}

impl Channel {
    /// Create an end.
    #[must_use]
    pub fn new(socket: UnixStream) -> Self {
        Self { reader: BufReader::new(socket), partial: Vec::new() }
    }

    /// Set whether [`Channel::receive`] waits.
    ///
    /// # Errors
    /// The kernel's.
    pub fn set_waits(&self, waits: bool) -> io::Result<()> {
        self.reader.get_ref().set_nonblocking(!waits)
    }

    /// Send a message. Messages are small and few: the other side reads them in time.
    ///
    /// # Errors
    /// The other side is gone.
    pub fn send(&self, message: &impl Serialize) -> io::Result<()> {
        let mut line = serde_json::to_vec(message).map_err(io::Error::other)?;
        line.push(b'\n');
        let mut rest = &line[..];
        while !rest.is_empty() {
            match self.reader.get_ref().write(rest) {
                Ok(written) => rest = &rest[written..],
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                    std::thread::sleep(std::time::Duration::from_micros(100));
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }

    /// Receive a message; `None`: none waits.
    ///
    /// # Errors
    /// The other side is gone, or sent something else.
    pub fn receive<T: DeserializeOwned>(&mut self) -> io::Result<Option<T>> {
        loop {
            match self.reader.read_until(b'\n', &mut self.partial) {
                Ok(_) if self.partial.last() == Some(&b'\n') => {
                    let message = serde_json::from_slice(&self.partial).map_err(io::Error::other)?;
                    self.partial.clear();
                    return Ok(Some(message));
                }
                Ok(_) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(None),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
    }

    /// Return the socket, to send the request before the first message.
    #[must_use]
    pub const fn reader(&mut self) -> &mut BufReader<UnixStream> {
        &mut self.reader
    }
}

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.reader.get_ref().as_fd()
    }
}

/// Return the error of a node that is gone, or that answers something else.
#[must_use]
pub fn failed(role: Role, reason: &impl ToString) -> EmuError {
    EmuError::Node { node: role.to_string(), reason: reason.to_string() }
}
