//! State of an emulation that lives as long as it, and the events that it waits for.

use super::numbers::Numbers;
use crate::address::Addresses;
use crate::error::{EmuError, system};
use crate::gateway::counters::Counters;
use crate::host::Host;
use crate::messages::Stopped;
use crate::programs::{ChildReaper, ExitReason};
use crate::relay::RelayEvent;
use crate::sampler::Sampler;
use crate::server::Processes;
use crate::spec::Spec;
use bentpipe_profile::Profile;
use nix::unistd::Pid;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::process;
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::thread;
use std::time::Duration;

/// Time between checks whether the server listens.
pub const LISTEN_POLL_INTERVAL: Duration = Duration::from_millis(10);

/// Input of the session.
pub enum Event {
    Relay(RelayEvent),
    Ended(Pid, ExitReason),
    Terminate,
}

/// State that lives as long as the emulation.
pub struct Context {
    pub spec: Spec,
    pub profile: Arc<Profile>,
    pub hosts: [Host; 2],
    pub addresses: [Addresses; 2],
    pub sampler: Sampler,
    pub numbers: Numbers,
    pub gateway: Option<Arc<Counters>>,
    pub reaper: ChildReaper,
    pub events_rx: Receiver<Event>,
    /// The program and its server, without the orphans that process 1 reaps.
    pub watched: Vec<Pid>,
    pub ended: BTreeMap<Pid, ExitReason>,
    /// Why the program was stopped early.
    pub stop_reason: Option<Stopped>,
}

/// The server and the processes that it started.
pub struct Server {
    pub pid: Pid,
    pub processes: Processes,
}

/// Ends the process, and so everything in its PID namespace, when the other end of `pipe` closes. Calls `on_byte` for each byte.
pub fn watch_pipe(mut pipe: File, on_byte: impl Fn(u8) + Send + 'static) -> Result<(), EmuError> {
    let watch = move || {
        let mut byte = [0];
        loop {
            match pipe.read(&mut byte) {
                Ok(1) => on_byte(byte[0]),
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                _ => break,
            }
        }
        process::exit(1);
    };
    let spawned = thread::Builder::new().name("watch_pipe".to_owned()).spawn(watch);
    spawned.map(drop).map_err(system("thread of a pipe watcher"))
}
