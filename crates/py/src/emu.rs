//! `bentpipe._native.isolate`, `emulate` and `encode_profile`, for a process that runs only an emulation (`bentpipe.execution.emulation.supervisor`).

#![expect(unsafe_code, reason = "descriptors of sockets come from Python as numbers")]

use crate::app::AppRegistry;
use crate::error::user_error;
use crate::plugin::Failure;
use crate::profile::PyProfile;
use bentpipe_emu::isolation::{self, Privilege};
use bentpipe_emu::nodes::bridge::NodeHandle;
use bentpipe_emu::nodes::plan::Plan;
use bentpipe_emu::nodes::process;
use bentpipe_emu::result::EmulationResult;
use bentpipe_emu::{session, spec};
use bentpipe_profile::run::Samples;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::collections::BTreeMap;
use std::fs::File;
use std::os::fd::{FromRawFd, OwnedFd};
use std::path::PathBuf;

/// Leave the machine's mount and PID namespaces. Returns whether a user namespace was needed. The process must have only one thread.
#[pyfunction]
pub fn isolate() -> PyResult<bool> {
    isolation::isolate().map(|privilege| privilege == Privilege::UserNamespace).map_err(user_error)
}

/// Run one emulation, in the child of the process that called `isolate`. `control`, `supervisor` and `report` are paths to pipes (`/proc/self/fd/N`).
/// `apps`: Python applications by name, as for `simulate`. `nodes`: for each node's process, in the order of `node_names`, its PID, and sockets for messages and
/// for packets of the host. Returns the exit status.
#[pyfunction]
#[pyo3(signature = (user_namespace, control, supervisor, report, apps=None, nodes=Vec::new()))]
pub fn emulate(
    py: Python<'_>,
    user_namespace: bool,
    control: PathBuf,
    supervisor: PathBuf,
    report: PathBuf,
    apps: Option<BTreeMap<String, Py<PyAny>>>,
    nodes: Vec<(u32, i32, Option<i32>)>,
) -> PyResult<i32> {
    let nodes =
        nodes.into_iter().map(|(pid, control, host)| NodeHandle { pid, control: inherited(control), host: host.map(inherited) }).collect();
    let privilege = if user_namespace { Privilege::UserNamespace } else { Privilege::Own };
    let (control, supervisor) = (File::open(control)?, File::open(supervisor)?);
    let report = File::options().write(true).open(report)?;
    let apps = AppRegistry::new(apps.unwrap_or_default(), Failure::default());
    Ok(py.detach(|| session::run(privilege, control, supervisor, report, &apps, nodes)))
}

/// Run one node of an emulation, in a child of the process that calls `emulate`. Takes its sockets for messages and for packets of the host, if it is at an end
/// of the path. Returns the exit status.
#[pyfunction]
#[pyo3(signature = (control, host=None))]
pub fn emulate_node(py: Python<'_>, control: i32, host: Option<i32>) -> i32 {
    let (control, host) = (inherited(control), host.map(inherited));
    py.detach(|| process::run(control, host))
}

/// Return the names of the nodes of a Profile: terminal, ground station, satellites.
#[pyfunction]
pub fn node_names(profile: &PyProfile) -> PyResult<Vec<String>> {
    let plan = Plan::of(&profile.0).map_err(user_error)?;
    Ok(plan.roles().iter().map(ToString::to_string).collect())
}

/// Take a descriptor from Python, which gives it up.
fn inherited(descriptor: i32) -> OwnedFd {
    // SAFETY: the supervisor opens the descriptor for this call alone and does not use it afterwards.
    unsafe { OwnedFd::from_raw_fd(descriptor) }
}

/// Summarise an emulation as JSON. `result_json`: its `done` message. The other arguments are columns of its `samples` table, with the flows numbered as in
/// the Experiment.
#[pyfunction]
pub fn summarise_emulation(
    result_json: &str,
    t_s: Vec<f64>,
    flow: Vec<u64>,
    goodput_bytes: Vec<u64>,
    inflight_bytes: Vec<u64>,
    retransmits: Vec<u64>,
    rtt_smoothed_ms: Vec<f64>,
) -> PyResult<String> {
    let result: EmulationResult = serde_json::from_str(result_json).map_err(user_error)?;
    let samples = Samples { t_s, flow, goodput_bytes, inflight_bytes, retransmits, rtt_smoothed_ms, ..Samples::default() };
    serde_json::to_string(&result.summary(&samples)).map_err(user_error)
}

/// Encode a Profile as bytes for the control pipe of `emulate`.
#[pyfunction]
pub fn encode_profile<'py>(py: Python<'py>, profile: &PyProfile) -> Bound<'py, PyBytes> {
    let bytes = py.detach(|| spec::encode_profile(&profile.0));
    PyBytes::new(py, &bytes)
}
