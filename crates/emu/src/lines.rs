//! What the parent hears: one JSON object a line, each with a `kind`. It is written as it happens, so what came before a sudden end is kept.
//!
//! A thread of its own writes, so that a parent which stands still (Ctrl-Z) stops neither the looks at the sockets nor the end of the program. Of the tables
//! so much waits for it as [`ROOM`] has room for; the rest is lost and counted.

use crate::account::Account;
use crate::capture::CaptureReport;
use crate::error::{EmuError, system};
use crate::gateway::counters::Counters;
use crate::host::Host;
use crate::interface::Addresses;
use crate::isolation::Privilege;
use crate::programs::Ending;
use crate::relay::RelayReport;
use bentpipe_profile::Time;
use bentpipe_profile::run::{Column, RunTables};
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
    /// The program did, or the time was over.
    Program,
    /// The Profile did, and was asked to stop then.
    ProfileEnded,
    /// The parent asked.
    Asked,
}

/// The last line.
#[derive(Serialize)]
pub struct Done<'a> {
    /// Why.
    pub stopped: Stopped,
    /// How the program ended; `None`: there was none, or it did not.
    pub ending: Option<Ending>,
    /// What the relay measured.
    pub relay: RelayReport,
    /// What the gateway counted; `None`: there was none.
    pub gateway: Option<&'a Counters>,
    /// What the capture came to; `None`: there was none.
    pub capture: Option<CaptureReport>,
    /// Rows of tables that the parent stood still for too long to hear.
    pub rows_lost: u64,
    /// Packets that each device lost before the relay could read them.
    pub device_drops: [u64; 2],
    /// What it comes to.
    #[serde(flatten)]
    pub account: Account,
    /// TCP flows that are in no sample though they may have carried something.
    pub flows_without_samples: usize,
    /// What the kernel said of sockets and could not be read: connections that samples lack.
    pub sockets_unreadable: u64,
    /// By how much the first packet of a race's flow came to the path after its time, the largest [ms]; `None`: no race, or none came.
    pub start_late_max_ms: Option<f64>,
    /// How often records of closing sockets were lost before they were read.
    pub closes_missed: u64,
    /// Why this kernel tells of none; `None`: it does.
    pub closes_unavailable: Option<&'a str>,
    /// Ends of the flows that were seen, client first.
    pub endpoints: Vec<(SocketAddr, SocketAddr)>,
}

/// How much of the tables may wait [bytes]: of thirty flows some ten minutes. Chosen here.
const ROOM: usize = 64 << 20;

/// See the module.
pub struct Lines {
    to: Sender<Vec<u8>>,
    waiting: Arc<AtomicUsize>,
    room: usize,
    writer: JoinHandle<()>,
    lost: u64,
}

impl Lines {
    /// Writes to `to`; a parent that hears no more ends us by other means.
    ///
    /// # Errors
    /// No thread left.
    pub fn new(to: impl Write + Send + 'static) -> Result<Self, EmuError> {
        Self::with_room(to, ROOM)
    }

    fn with_room(mut to: impl Write + Send + 'static, room: usize) -> Result<Self, EmuError> {
        let (sender, said) = channel::<Vec<u8>>();
        let waiting = Arc::new(AtomicUsize::new(0));
        let written = Arc::clone(&waiting);
        let write = move || {
            for line in said {
                let _ = to.write_all(&line);
                written.fetch_sub(line.len(), Ordering::Relaxed);
            }
        };
        let writer = thread::Builder::new().name("lines".to_owned()).spawn(write).map_err(system("thread of the lines"))?;
        Ok(Self { to: sender, waiting, room, writer, lost: 0 })
    }

    /// Rows of tables that found no room so far.
    #[must_use]
    pub const fn lost(&self) -> u64 {
        self.lost
    }

    /// Waits until everything is written.
    pub fn close(self) {
        drop(self.to);
        let _ = self.writer.join();
    }

    /// The namespaces and the path are up; the Profile's clock read `start` when the machine's read `clock_unix_ns`.
    pub fn started(&mut self, hosts: &[Host; 2], addresses: [Addresses; 2], start: Time, clock_unix_ns: u128, privilege: Privilege) {
        let ends: Map<String, Value> = hosts
            .iter()
            .zip(addresses)
            .map(|(host, a)| (host.end().to_owned(), json!({"ipv4": a.v4.to_string(), "ipv6": a.v6.to_string()})))
            .collect();
        // Column types, so that a table without rows is one too.
        for (name, columns) in RunTables::default().named() {
            let types: Vec<_> = columns.iter().map(|(name, column)| (*name, type_of(column))).collect(); // a list keeps the order
            self.line(&json!({"kind": "types", "table": name, "types": types}));
        }
        self.line(&json!({"kind": "started", "ends": ends, "offset_ns": start.0, "clock_unix_ns": clock_unix_ns, "user_namespace": privilege == Privilege::UserNamespace, "device": hosts[0].device(), "qdisc": hosts[0].qdisc(), "offload_refused": hosts.iter().find_map(Host::offload_refused)}));
    }

    /// Rows of one of the Run's tables.
    pub fn table(&mut self, name: &str, columns: &[(&'static str, Column<'_>)]) {
        if self.waiting.load(Ordering::Relaxed) > self.room {
            self.lost += columns.first().map_or(0, |(_, column)| length_of(column)) as u64;
            return;
        }
        let columns: Map<String, Value> = columns
            .iter()
            .map(|(name, column)| {
                let values = match column {
                    Column::F64(v) => json!(v), // NaN becomes null
                    Column::U64(v) => json!(v),
                    Column::I64(v) => json!(v),
                    Column::Text(v) => json!(v),
                };
                ((*name).to_owned(), values)
            })
            .collect();
        self.line(&json!({"kind": "table", "table": name, "columns": columns}));
    }

    /// The end.
    pub fn done(&mut self, done: &Done<'_>) {
        match serde_json::to_value(done) {
            Ok(Value::Object(mut object)) => {
                object.insert("kind".to_owned(), json!("done"));
                self.line(&Value::Object(object));
            }
            _ => self.error(&EmuError::Internal("the last line cannot be written")),
        }
    }

    /// It could not start, or go on.
    pub fn error(&mut self, error: &EmuError) {
        self.line(&json!({"kind": "error", "message": error.to_string(), "users": error.is_users()}));
    }

    fn line(&mut self, value: &Value) {
        let mut bytes = value.to_string().into_bytes();
        bytes.push(b'\n');
        self.waiting.fetch_add(bytes.len(), Ordering::Relaxed);
        let _ = self.to.send(bytes);
    }
}

const fn length_of(column: &Column<'_>) -> usize {
    match column {
        Column::F64(v) => v.len(),
        Column::U64(v) => v.len(),
        Column::I64(v) => v.len(),
        Column::Text(v) => v.len(),
    }
}

const fn type_of(column: &Column<'_>) -> &'static str {
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
    use std::io::{self, Read as _};
    use std::sync::mpsc::Receiver;

    /// Writes when it is let.
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
    fn a_parent_that_stands_still_stops_nobody_and_what_it_misses_is_counted() {
        let (go, wait) = channel();
        let (mut reader, writer) = io::pipe().unwrap();
        let mut lines = Lines::with_room(Parent(wait, writer), 1 << 20).unwrap();
        let rows = vec![1.0; 1 << 14];
        let mut tables = 0;
        while lines.lost() == 0 {
            lines.table("samples", &[("t_s", Column::F64(&rows))]);
            tables += 1;
        }
        assert_eq!(lines.lost(), 1 << 14);
        lines.error(&EmuError::Orphaned);
        drop(go);
        let heard = thread::spawn(move || {
            let mut text = String::new();
            reader.read_to_string(&mut text).map(|_| text).unwrap()
        });
        lines.close();
        let heard = heard.join().unwrap();
        assert_eq!(heard.lines().count(), tables);
        assert!(heard.lines().last().unwrap().contains("the parent process is gone"));
    }
}
