//! One emulation from beginning to end, as process 1 of its namespaces.
//!
//! Everything that happens arrives as an `Event` on one channel. Messages to the parent are one JSON object a line ([`crate::messages`]).

mod context;
mod numbers;
mod results;
mod running;
mod setup;

use crate::error::EmuError;
use crate::isolation::Privilege;
use crate::messages::MessageWriter;
use crate::nodes::bridge::NodeHandle;
use crate::race::Plugins;
use crate::spec::Workload;
use context::{Event, watch_pipe};
use setup::{Prepared, prepare};
use std::fs::File;
use std::path::Path;

/// Runs one emulation and returns the exit status. `control` carries the specification and stays open while the parent lives; `supervisor` stays
/// open while the process lives that made the namespaces; messages go to `report`. Applications that are not in the registry come from `plugins`.
/// `nodes`: processes that are the path; none: the path is a thread of this process.
#[must_use]
pub fn run(privilege: Privilege, mut control: File, supervisor: File, report: File, plugins: &dyn Plugins, nodes: Vec<NodeHandle>) -> i32 {
    let Ok(mut messages) = MessageWriter::new(report) else { return 1 }; // no channel for an error
    let outcome = prepare(privilege, &mut control, supervisor, nodes)
        .and_then(|prepared| emulate(prepared, privilege, control, &mut messages, plugins));
    if let Err(error) = &outcome {
        messages.error(error);
    }
    messages.close();
    i32::from(outcome.is_err())
}

fn emulate(
    mut prepared: Prepared,
    privilege: Privilege,
    control: File,
    messages: &mut MessageWriter,
    plugins: &dyn Plugins,
) -> Result<(), EmuError> {
    let events = prepared.events.clone();
    watch_pipe(control, move |_| drop(events.send(Event::Terminate)))?;
    let server = match prepared.context.spec.workload.clone() {
        Workload::Program { server: Some(line), server_log, .. } => {
            Some(prepared.start_server(&line, server_log.as_deref().map(Path::new))?)
        }
        _ => None,
    };
    prepared.begin(privilege, messages)?.run(server, messages, plugins)
}
