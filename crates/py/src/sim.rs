//! `bentpipe._native.simulate`, `ping`, `one_way_delays`, `RunData` and `controllers`.

use crate::app::AppRegistry;
use crate::error::{controller_error, user_error};
use crate::network::PyNetwork;
use crate::plugin::PluginRegistry;
use crate::profile::PyProfile;
use bentpipe_cc::controllers::Controllers;
use bentpipe_cc::hook_trace::Traces;
use bentpipe_cc::option_words::{option_values as values_of, option_words as words_of};
use bentpipe_cc::registry::{CONTROLLERS, find};
use bentpipe_emu::race::Plugins;
use bentpipe_profile::app::AppSpec;
use bentpipe_profile::experiment::{Experiment, RecoverySpec};
use bentpipe_profile::options::{OptionValue, OptionValues};
use bentpipe_profile::run::{Column, Row, RunSink};
use bentpipe_profile::tunables::{Allowed, OptionSpec, Value};
use bentpipe_profile::{Nanos, Time};
use bentpipe_sim::{RunData, Simulation};
use bentpipe_twins::{ClockRecord, build_with_clock, reads_clock};
use numpy::{IntoPyArray, PyArray1, PyReadonlyArray1};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Simulated time per check of Ctrl-C and call of `on_progress`: about 10 ms of work at 200 Mbit/s.
const SLICE: Nanos = Nanos::from_millis(500);

/// Rows as lines of JSON that Python has not taken yet.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl Lines {
    fn take(&self) -> Vec<u8> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl RunSink for Lines {
    fn row(&mut self, row: &Row<'_>) {
        row.write_json_line(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

/// Tables and summary of a finished Run.
#[pyclass(name = "RunData", module = "bentpipe._native", frozen)]
pub struct PyRunData(RunData);

#[pymethods]
impl PyRunData {
    fn samples<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        table(py, &self.0.tables.samples.columns())
    }

    fn links<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        table(py, &self.0.tables.links.columns())
    }

    fn events<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        table(py, &self.0.tables.events.columns())
    }

    fn applications<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        table(py, &self.0.tables.applications.columns())
    }

    fn summary_json(&self) -> PyResult<String> {
        serde_json::to_string(&self.0.summary).map_err(user_error)
    }

    fn content_hash(&self, py: Python<'_>) -> String {
        py.detach(|| self.0.content_hash())
    }
}

/// Run an Experiment. Releases the GIL. Every half second of simulated time it checks for Ctrl-C and calls `on_progress` with the fraction done.
/// `plugins`: Python controllers by name. Each is a callable that takes the MSS, the initial window and the options. `apps`: Python applications by
/// name. Each is a callable that takes the options and a seed, and returns the objects at the flow's sender and receiver. `on_hooks`: receives the
/// index of a flow and the next bytes of its hook trace, as often. `on_rows`: receives the next rows as lines of JSON, as often. `network`: the network whose
/// paths the Profiles are. `host_clock`: writes to the clock that the sockets of the senders' hosts share, as times on the Profile's clock [ns]: when,
/// period, a reconfiguration, end of validity. Controllers that read it are then those of the kernel.
#[pyfunction]
#[pyo3(signature = (experiment_json, profiles, on_progress=None, plugins=None, apps=None, on_hooks=None, on_rows=None, network=None, host_clock=None))]
#[allow(clippy::too_many_arguments)] // one call with keywords in Python
pub fn simulate(
    py: Python<'_>,
    experiment_json: &str,
    profiles: Vec<PyRef<'_, PyProfile>>,
    on_progress: Option<Py<PyAny>>,
    plugins: Option<BTreeMap<String, Py<PyAny>>>,
    apps: Option<BTreeMap<String, Py<PyAny>>>,
    on_hooks: Option<Py<PyAny>>,
    on_rows: Option<Py<PyAny>>,
    network: Option<PyRef<'_, PyNetwork>>,
    host_clock: Option<Vec<[u64; 4]>>,
) -> PyResult<PyRunData> {
    let experiment = Experiment::from_json(experiment_json).map_err(user_error)?;
    let profiles = profiles.iter().map(|p| p.0.clone()).collect();
    let plugins = Arc::new(PluginRegistry::new(plugins.unwrap_or_default(), Time::ZERO + experiment.offset_ns));
    let apps = AppRegistry::new(apps.unwrap_or_default(), plugins.failure());
    let create = Arc::clone(&plugins);
    let clock = host_clock.map(clock_records);
    let traces = on_hooks.map(|receiver| (Arc::new(Traces::default()), receiver));
    let controllers = Controllers {
        plugins: Some(Arc::new(move |name, config, options| {
            let clocked = || {
                let clock = clock.as_ref().filter(|_| reads_clock(name))?;
                build_with_clock(name, config, options, Arc::clone(clock)).ok() // the registry reports wrong options
            };
            create.create(name, config, options).or_else(clocked)
        })),
        traces: traces.as_ref().map(|(traces, _)| Arc::clone(traces)),
    };
    let network = network.map(|network| network.0.clone());
    let mut simulation = py
        .detach(|| {
            let create = |spec: &AppSpec, streams| apps.create(spec, streams);
            match network {
                Some(network) => Simulation::over_network(experiment, &network, &controllers, &create),
                None => Simulation::with_plugins(experiment, profiles, &controllers, &create),
            }
        })
        .map_err(user_error)?;
    plugins.check(py)?;
    let lines = Lines::default();
    if on_rows.is_some() {
        simulation.stream_to(Box::new(lines.clone()));
    }
    let mut until = SLICE;
    loop {
        let more = py.detach(|| simulation.run_until(until));
        plugins.check(py)?;
        let more = more.map_err(controller_error)?;
        if let Some((traces, receiver)) = &traces {
            for (flow, part) in traces.take().iter().enumerate() {
                receiver.call1(py, (flow, PyBytes::new(py, part)))?;
            }
        }
        if let Some(receiver) = &on_rows {
            receiver.call1(py, (PyBytes::new(py, &lines.take()),))?;
        }
        if !more {
            break;
        }
        until += SLICE;
        py.check_signals()?;
        if let Some(callback) = &on_progress {
            callback.call1(py, (simulation.fraction(),))?;
        }
    }
    let data = py.detach(|| simulation.finish());
    if let Some(receiver) = &on_rows {
        receiver.call1(py, (PyBytes::new(py, &lines.take()),))?; // the last events
    }
    Ok(PyRunData(data))
}

fn clock_records(rows: Vec<[u64; 4]>) -> Arc<[ClockRecord]> {
    let record = |[written, period, at, until]: [u64; 4]| ClockRecord {
        written: Time(written),
        period: Nanos(period),
        at: Time(at),
        until: Time(until),
    };
    rows.into_iter().map(record).collect()
}

/// Simulate echo requests over a Profile. Returns their RTTs [ms]; NaN: lost.
#[pyfunction]
pub fn ping<'py>(
    py: Python<'py>,
    profile: &PyProfile,
    sent_s: PyReadonlyArray1<'_, f64>,
    bytes: u32,
    seed: u64,
) -> PyResult<Bound<'py, PyArray1<f64>>> {
    let sent = sent_s.as_array().to_vec();
    let rtts = py.detach(|| bentpipe_sim::ping(&profile.0, &sent, bytes, seed)).map_err(user_error)?;
    let rtt_ms: Vec<f64> = rtts.into_iter().map(|rtt| rtt.map_or(f64::NAN, Nanos::as_millis_f64)).collect();
    Ok(rtt_ms.into_pyarray(py))
}

/// Return the one-way delays [ms] of datagrams sent upwards and downwards at these times; NaN: lost. `recovery`: a scheme as JSON.
#[pyfunction]
pub fn one_way_delays<'py>(
    py: Python<'py>,
    profile: &PyProfile,
    up_s: PyReadonlyArray1<'_, f64>,
    down_s: PyReadonlyArray1<'_, f64>,
    size_bytes: u32,
    recovery: Option<&str>,
    seed: u64,
) -> PyResult<[Bound<'py, PyArray1<f64>>; 2]> {
    let recovery: Option<RecoverySpec> = recovery.map(serde_json::from_str).transpose().map_err(user_error)?;
    let [up, down] = [up_s, down_s].map(|sent| sent.as_array().to_vec());
    let delays =
        py.detach(|| bentpipe_sim::one_way_delays(&profile.0, [&up, &down], size_bytes, recovery.as_ref(), seed)).map_err(user_error)?;
    let in_ms = |delay: Option<Nanos>| delay.map_or(f64::NAN, Nanos::as_millis_f64);
    Ok(delays.map(|delays| delays.into_iter().map(in_ms).collect::<Vec<_>>().into_pyarray(py)))
}

/// Return every congestion controller: name, status, description, source, required path hint, tunables.
#[pyfunction]
pub fn controllers(py: Python<'_>) -> PyResult<Bound<'_, PyList>> {
    let list = PyList::empty(py);
    for entry in CONTROLLERS {
        let tunables = PyList::empty(py);
        for option in entry.options {
            tunables.append(tunable(py, option)?)?;
        }
        let row = PyDict::new(py);
        row.set_item("name", entry.name)?;
        row.set_item("status", entry.status)?;
        row.set_item("description", entry.description)?;
        row.set_item("source", entry.citation)?;
        row.set_item("needs", entry.needs.name())?;
        row.set_item("tunables", tunables)?;
        list.append(row)?;
    }
    Ok(list)
}

pub fn tunable<'py>(py: Python<'py>, option: &OptionSpec) -> PyResult<Bound<'py, PyDict>> {
    let (min, max, choices) = match option.allowed {
        Allowed::Switch => (Some(0.0), Some(1.0), None),
        Allowed::Range(min, max) => (Some(min), Some(max), None),
        Allowed::Count(min, max) => (Some(f64::from(min)), Some(f64::from(max)), None),
        Allowed::Choice(names) => (None, None, Some(names.to_vec())),
    };
    let row = PyDict::new(py);
    row.set_item("name", option.name)?;
    row.set_item("unit", option.unit)?;
    match option.default {
        Value::Number(number) => row.set_item("default", number)?,
        Value::Choice(name) => row.set_item("default", name)?,
    }
    row.set_item("allowed", option.allowed.to_string())?;
    row.set_item("min", min)?;
    row.set_item("max", max)?;
    row.set_item("choices", choices)?;
    row.set_item("meaning", option.description)?;
    row.set_item("source", option.source)?;
    Ok(row)
}

/// Parse the value of a controller's tunable from a user's `text`: a number, or the name of a choice.
#[pyfunction]
pub fn read_tunable(py: Python<'_>, controller: &str, name: &str, text: &str) -> PyResult<Py<PyAny>> {
    let value = find(controller).and_then(|entry| Ok(entry.declared().read(name, text)?)).map_err(user_error)?;
    Ok(match value {
        OptionValue::Number(number) => number.into_pyobject(py)?.into_any().unbind(),
        OptionValue::Name(name) => name.into_pyobject(py)?.into_any().unbind(),
    })
}

/// Return a controller's options as the words that its program in a kernel reads (`struct bp_options`), from the user's as a JSON object.
#[pyfunction]
pub fn option_words<'py>(py: Python<'py>, controller: &str, options_json: &str) -> PyResult<Bound<'py, PyBytes>> {
    let given: OptionValues = serde_json::from_str(options_json).map_err(user_error)?;
    let declared = find(controller).map_err(user_error)?.declared();
    let words = words_of(&declared, &declared.check(&given).map_err(user_error)?);
    let all = [words.generation, words.is_set].into_iter().chain(words.words);
    Ok(PyBytes::new(py, &all.flat_map(u64::to_le_bytes).collect::<Vec<u8>>()))
}

/// Return the value of each option from words as `option_words` returns them, by name; None: they are no options of this controller.
#[pyfunction]
pub fn option_values<'py>(py: Python<'py>, controller: &str, words: &[u8]) -> PyResult<Option<Bound<'py, PyDict>>> {
    let declared = find(controller).map_err(user_error)?.declared();
    let all: Vec<u64> = words.as_chunks().0.iter().map(|each| u64::from_le_bytes(*each)).collect();
    let Some(values) = all.get(2..).and_then(|words| values_of(&declared, words.try_into().ok()?)) else {
        return Ok(None);
    };
    let dict = PyDict::new(py);
    for (name, value) in values {
        match value {
            Value::Number(number) => dict.set_item(name, number)?,
            Value::Choice(choice) => dict.set_item(name, choice)?,
        }
    }
    Ok(Some(dict))
}

fn table<'py>(py: Python<'py>, columns: &[(&'static str, Column<'_>)]) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    for (name, column) in columns {
        match column {
            Column::F64(values) => dict.set_item(name, values.to_vec().into_pyarray(py))?,
            Column::U64(values) => dict.set_item(name, values.to_vec().into_pyarray(py))?,
            Column::I64(values) => dict.set_item(name, values.to_vec().into_pyarray(py))?,
            Column::Text(values) => dict.set_item(name, *values)?,
        }
    }
    Ok(dict)
}
