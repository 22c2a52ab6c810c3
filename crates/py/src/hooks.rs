//! `bentpipe._native.HookReplay`: replay of a hook trace against a controller.

use crate::error::user_error;
use crate::plugin::PluginRegistry;
use bentpipe_cc::error::RegistryError;
use bentpipe_cc::hook_trace::{Header, Replay, TraceError};
use bentpipe_cc::registry;
use bentpipe_profile::Time;
use bentpipe_profile::options::OptionValues;
use pyo3::prelude::*;
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// A replay in progress.
#[pyclass(module = "bentpipe._native", frozen)]
pub struct HookReplay {
    replay: Mutex<Replay>,
    controller: String,
    /// Options of the controller; `None`: those of the trace.
    options: Option<OptionValues>,
    plugins: PluginRegistry,
}

/// Why a replay failed.
enum Failure {
    Trace(TraceError),
    Controller(RegistryError),
}

impl From<TraceError> for Failure {
    fn from(error: TraceError) -> Self {
        Self::Trace(error)
    }
}

impl Failure {
    fn raised(self) -> PyErr {
        match self {
            Self::Trace(error) => user_error(error),
            Self::Controller(error) => user_error(error),
        }
    }
}

#[pymethods]
impl HookReplay {
    /// Replay on `controller` with `options_json`; `None`: with those of the trace. `plugins` as for `simulate`.
    #[new]
    fn new(controller: String, options_json: Option<&str>, plugins: BTreeMap<String, Py<PyAny>>) -> PyResult<Self> {
        Ok(Self {
            replay: Mutex::default(),
            controller,
            options: options_json.map(serde_json::from_str).transpose().map_err(user_error)?,
            plugins: PluginRegistry::new(plugins, Time::ZERO),
        })
    }

    /// Replay the next bytes of the trace; return the first difference in one line, or `None`.
    fn feed(&self, py: Python<'_>, part: &[u8]) -> PyResult<Option<String>> {
        let difference = py.detach(|| {
            let build = |header: &Header| {
                let (name, options) = (&self.controller, self.options.as_ref().unwrap_or(&header.options));
                // The trace has the path hints as calls.
                match self.plugins.create(name, &header.config(), options) {
                    Some(plugin) => Ok(plugin),
                    None => registry::build(name, &header.config(), options).map_err(Failure::Controller),
                }
            };
            // A panic of another thread leaves a replay that only reports differences.
            self.replay.lock().unwrap_or_else(PoisonError::into_inner).feed(part, &build)
        });
        self.plugins.check(py)?;
        Ok(difference.map_err(Failure::raised)?.map(|difference| difference.to_string()))
    }

    /// Check that the trace is whole, and return its number of calls.
    fn finish(&self) -> PyResult<u64> {
        self.replay.lock().unwrap_or_else(PoisonError::into_inner).finish().map_err(user_error)
    }
}

/// Return the name of the controller in a trace, from its first bytes.
#[pyfunction]
pub fn traced_controller(start: &[u8]) -> PyResult<String> {
    let header = Header::read(start).map_err(user_error)?;
    header.map(|(header, _)| header.controller).ok_or_else(|| user_error(TraceError::Header("the trace ends within it".to_owned())))
}
