//! Messages to the parent: one JSON object a line, each with a `type`. Most are rows of the Run ([`Row`]). Each is written at once, so a sudden end
//! loses nothing written before it.
//!
//! A separate thread writes, so that a stopped parent (Ctrl-Z) blocks neither the sampling nor the end of the program. At most [`MAX_QUEUED_BYTES`]
//! of rows wait for it; further rows are dropped, and the next row that is not says how many.

use crate::address::Addresses;
use crate::capture::CaptureReport;
use crate::error::{EmuError, system};
use crate::gateway::counters::Counters;
use crate::host::Host;
use crate::isolation::Privilege;
use crate::programs::ExitReason;
use crate::relay::RelayReport;
use crate::result::EmulationResult;
use bentpipe_profile::Time;
use bentpipe_profile::run::{Column, Row, RunSink, RunTables};
use serde::Serialize;
use serde_json::{Map, Value, json};
use std::io::Write;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread::{self, JoinHandle};

/// Why an emulation ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Stopped {
    /// The program ended, or the time was over.
    Program,
    /// The Profile ended, with `--at-end stop`.
    ProfileEnded,
    /// The parent requested it.
    Requested,
}

/// The last message.
#[derive(Serialize)]
pub struct Done<'a> {
    /// Why the emulation ended.
    pub stopped: Stopped,
    /// How the program ended; `None`: no program, or it did not end.
    pub ending: Option<ExitReason>,
    /// The relay's measurements.
    pub relay: RelayReport,
    /// Those of the relay of a path beside the first; `None`: there is none.
    pub beside: Option<RelayReport>,
    /// The gateway's counters; `None`: no gateway.
    pub gateway: Option<&'a Counters>,
    /// Outcome of the capture; `None`: no capture.
    pub capture: Option<CaptureReport>,
    /// Rows that were dropped because the parent did not read.
    pub rows_lost: u64,
    /// Packets that each device lost before the relay could read them.
    pub device_drops: [u64; 2],
    /// Datagrams that programs at each end did not read in time.
    pub datagrams_unread: [u64; 2],
    /// The Experiment and its flows' results.
    #[serde(flatten)]
    pub result: EmulationResult,
    /// TCP flows without a sample that may have carried data.
    pub flows_without_samples: usize,
    /// Socket records of the kernel that could not be parsed: samples lack these connections.
    pub sockets_unreadable: u64,
    /// Largest delay between a race flow's start time and its first packet at the path [ms]; `None`: no race, or no packet.
    pub start_late_max_ms: Option<f64>,
    /// How often close events were lost before they were read.
    pub closes_missed: u64,
    /// Why this kernel sends no close events; `None`: it does.
    pub closes_unavailable: Option<&'a str>,
    /// Endpoints of the observed flows, client first.
    pub endpoints: Vec<(SocketAddr, SocketAddr)>,
}

/// Most bytes of rows that may wait for the parent: about five minutes of thirty flows. Chosen here.
const MAX_QUEUED_BYTES: usize = 64 << 20;

/// See the module.
pub struct MessageWriter {
    sender: Sender<Vec<u8>>,
    queued_bytes: Arc<AtomicUsize>,
    max_queued_bytes: usize,
    writer: JoinHandle<()>,
    rows_lost: u64,
    /// Those of them that no row has reported.
    unreported: u64,
}

impl MessageWriter {
    /// Writes to `output`. Write errors are ignored: a parent that is gone ends this process through the control pipe.
    ///
    /// # Errors
    /// No thread left.
    pub fn new(output: impl Write + Send + 'static) -> Result<Self, EmuError> {
        Self::with_limit(output, MAX_QUEUED_BYTES)
    }

    fn with_limit(mut output: impl Write + Send + 'static, max_queued_bytes: usize) -> Result<Self, EmuError> {
        let (sender, queue) = channel::<Vec<u8>>();
        let queued_bytes = Arc::new(AtomicUsize::new(0));
        let dequeued = Arc::clone(&queued_bytes);
        let write = move || {
            for line in queue {
                let _ = output.write_all(&line);
                dequeued.fetch_sub(line.len(), Ordering::Relaxed);
            }
        };
        let writer = thread::Builder::new().name("lines".to_owned()).spawn(write).map_err(system("thread of the message writer"))?;
        Ok(Self { sender, queued_bytes, max_queued_bytes, writer, rows_lost: 0, unreported: 0 })
    }

    /// Rows dropped so far because the queue was full.
    #[must_use]
    pub const fn rows_lost(&self) -> u64 {
        self.rows_lost
    }

    /// Waits until every message is written.
    pub fn close(self) {
        drop(self.sender);
        let _ = self.writer.join();
    }

    /// Sends `started`: the path is up, and the Profile's clock read `start` when the machine's read `clock_unix_ns`.
    pub fn started(&mut self, hosts: &[Host; 2], addresses: [Addresses; 2], start: Time, clock_unix_ns: u128, privilege: Privilege) {
        let ends: Map<String, Value> = hosts
            .iter()
            .zip(addresses)
            .map(|(host, a)| (host.end().to_owned(), json!({"ipv4": a.v4.to_string(), "ipv6": a.v6.to_string()})))
            .collect();
        // Column types, so that a table without rows has its columns.
        for (name, columns) in RunTables::default().named() {
            let types: Vec<_> = columns.iter().map(|(name, column)| (*name, column_type(column))).collect(); // a list, to keep the order
            self.send(&json!({"type": "columns", "table": name, "columns": types}));
        }
        self.send(&json!({"type": "started", "ends": ends, "offset_ns": start.0, "clock_unix_ns": clock_unix_ns, "user_namespace": privilege == Privilege::UserNamespace, "device": hosts[0].device(), "qdisc": hosts[0].qdisc(), "offload_refused": hosts.iter().find_map(Host::offload_refused)}));
    }

    /// Sends `done`, the last message.
    pub fn done(&mut self, done: &Done<'_>) {
        let mut line = Vec::new();
        self.report_dropped(&mut line);
        self.send_line(line);
        match serde_json::to_value(done) {
            Ok(Value::Object(mut object)) => {
                object.insert("type".to_owned(), json!("done"));
                self.send(&Value::Object(object));
            }
            _ => self.error(&EmuError::Internal("the last message cannot be encoded")),
        }
    }

    /// Sends `error`: the emulation could not start, or failed.
    pub fn error(&mut self, error: &EmuError) {
        self.send(&json!({"type": "error", "message": error.to_string(), "kind": error.kind()}));
    }

    /// Appends the row with the number of dropped rows, if there are any that none has reported.
    fn report_dropped(&mut self, line: &mut Vec<u8>) {
        let rows = std::mem::take(&mut self.unreported);
        if rows > 0 {
            Row::Dropped { rows }.write_json_line(line);
        }
    }

    fn send(&mut self, value: &Value) {
        let mut line = value.to_string().into_bytes();
        line.push(b'\n');
        self.send_line(line);
    }

    fn send_line(&mut self, line: Vec<u8>) {
        self.queued_bytes.fetch_add(line.len(), Ordering::Relaxed);
        let _ = self.sender.send(line);
    }
}

impl RunSink for MessageWriter {
    fn row(&mut self, row: &Row<'_>) {
        if self.queued_bytes.load(Ordering::Relaxed) > self.max_queued_bytes {
            self.rows_lost += 1;
            self.unreported += 1;
            return;
        }
        let mut line = Vec::new();
        self.report_dropped(&mut line);
        row.write_json_line(&mut line);
        self.send_line(line);
    }
}

const fn column_type(column: &Column<'_>) -> &'static str {
    match column {
        Column::F64(_) => "float64",
        Column::U64(_) => "uint64",
        Column::I64(_) => "int64",
        Column::Text(_) => "str",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bentpipe_profile::run::EventRow;
    use std::io::{self, Read as _};
    use std::sync::mpsc::Receiver;

    /// Writes once for each received token.
    struct Parent(Receiver<()>, io::PipeWriter);

    impl Write for Parent {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let _ = self.0.recv();
            self.1.write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_stopped_parent_blocks_nothing_and_a_row_tells_how_many_were_dropped() {
        let (go, wait) = channel();
        let (mut reader, writer) = io::pipe().unwrap();
        let mut lines = MessageWriter::with_limit(Parent(wait, writer), 1 << 16).unwrap();
        let detail = "x".repeat(1 << 10);
        let row = Row::Event(EventRow { t_s: 1.0, flow: -1, kind: "outage", detail: &detail });
        let mut rows = 0;
        while lines.rows_lost() < 3 {
            lines.row(&row);
            rows += 1;
        }
        lines.error(&EmuError::Orphaned);
        let queued = Arc::clone(&lines.queued_bytes);
        drop(go);
        let received = thread::spawn(move || {
            let mut text = String::new();
            reader.read_to_string(&mut text).map(|_| text).unwrap()
        });
        while queued.load(Ordering::Relaxed) > 0 {
            thread::yield_now();
        }
        lines.row(&row);
        lines.close();
        let received = received.join().unwrap();
        let last: Vec<Value> = received.lines().skip(rows - 3).map(|line| serde_json::from_str(line).unwrap()).collect();
        let types: Vec<_> = last.iter().map(|line| line["type"].as_str().unwrap()).collect();
        assert_eq!(types, ["error", "dropped", "event"]);
        assert_eq!(last[1]["rows"], json!(3));
        assert!(received.contains("the parent process is gone"));
    }
}
