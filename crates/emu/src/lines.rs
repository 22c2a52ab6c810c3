//! What the parent hears: one JSON object a line, each with a `kind`. It is written as it happens, so what came before a sudden end is kept.

use crate::account::Account;
use crate::capture::CaptureReport;
use crate::error::EmuError;
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
use std::fs::File;
use std::io::Write as _;
use std::net::SocketAddr;

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
    /// Packets that each device lost before the relay could read them.
    pub device_drops: [u64; 2],
    /// What it comes to.
    #[serde(flatten)]
    pub account: Account,
    /// TCP flows that are in no sample though they may have carried something.
    pub flows_without_samples: usize,
    /// How often records of closing sockets were lost before they were read.
    pub closes_missed: u64,
    /// Why this kernel tells of none; `None`: it does.
    pub closes_unavailable: Option<&'a str>,
    /// Ends of the flows that were seen, client first.
    pub endpoints: Vec<(SocketAddr, SocketAddr)>,
}

/// See the module.
pub struct Lines {
    to: File,
}

impl Lines {
    /// Writes to `to`; a parent that hears no more ends us by other means.
    #[must_use]
    pub const fn new(to: File) -> Self {
        Self { to }
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
        self.line(&json!({"kind": "started", "ends": ends, "offset_ns": start.0, "clock_unix_ns": clock_unix_ns, "user_namespace": privilege == Privilege::UserNamespace, "device": hosts[0].device(), "offload_refused": hosts.iter().find_map(Host::offload_refused)}));
    }

    /// Rows of one of the Run's tables.
    pub fn table(&mut self, name: &str, columns: &[(&'static str, Column<'_>)]) {
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
            _ => self.error(&EmuError::Spec("the last line cannot be written".to_owned())),
        }
    }

    /// It could not start, or go on.
    pub fn error(&mut self, error: &EmuError) {
        self.line(&json!({"kind": "error", "message": error.to_string(), "users": error.is_users()}));
    }

    fn line(&mut self, value: &Value) {
        let mut bytes = value.to_string().into_bytes();
        bytes.push(b'\n');
        let _ = self.to.write_all(&bytes);
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
