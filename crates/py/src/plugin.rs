//! Congestion controllers written in Python (`bentpipe.plugin`). The simulator's calls go to the object's methods, and its attributes are read back.
//!
//! A controller's call cannot return an error in the simulator. The first failure is therefore stored, and the controller keeps its last window until the
//! driver calls [`PluginRegistry::check`].

use crate::error::controller_error;
use bentpipe_cc::registry::Config;
use bentpipe_cc::{AckSample, Congestion, Controller, LostPacket, Probe, RecoveryState};
use bentpipe_profile::options::{OptionValue, OptionValues};
use bentpipe_profile::{Bytes, Nanos, Rate, Time};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Argument of a Python controller's `on_ack`. Units are in the names. `bentpipe.plugin` describes the fields.
#[pyclass(module = "bentpipe._native", frozen, get_all)]
#[allow(clippy::struct_excessive_bools)] // facts of one ACK, not states
pub struct Ack {
    now_s: f64,
    mss_bytes: u32,
    acked_bytes: u64,
    lost_bytes: u64,
    rtt_s: Option<f64>,
    srtt_s: f64,
    min_rtt_s: Option<f64>,
    delivery_bps: Option<f64>,
    delivered_bytes: u64,
    delivered_at_send_bytes: Option<u64>,
    lost_total_bytes: u64,
    inflight_bytes: u64,
    prior_inflight_bytes: u64,
    cwnd_limited: bool,
    app_limited: bool,
    in_recovery: bool,
    ce_marks: u64,
}

impl Ack {
    fn of(ack: &AckSample, start: Time) -> Self {
        let rate = ack.delivery.filter(|sample| sample.interval > Nanos::ZERO);
        Self {
            now_s: ack.now.since(start).as_secs_f64(),
            mss_bytes: ack.mss,
            acked_bytes: ack.acked.0,
            lost_bytes: ack.newly_lost.0,
            rtt_s: ack.rtt.map(Nanos::as_secs_f64),
            srtt_s: ack.srtt.as_secs_f64(),
            min_rtt_s: (ack.min_rtt != Nanos::MAX).then(|| ack.min_rtt.as_secs_f64()),
            delivery_bps: rate.map(|sample| sample.delivered.0 as f64 * 8.0 / sample.interval.as_secs_f64()),
            delivered_bytes: ack.delivered_total.0,
            delivered_at_send_bytes: ack.delivery.map(|sample| sample.prior_delivered.0),
            lost_total_bytes: ack.lost_total.0,
            inflight_bytes: ack.in_flight.0,
            prior_inflight_bytes: ack.prior_in_flight.0,
            cwnd_limited: ack.cwnd_limited,
            app_limited: ack.app_limited,
            in_recovery: !matches!(ack.recovery, RecoveryState::Open | RecoveryState::Disorder),
            ce_marks: ack.ce_count,
        }
    }
}

/// The Python controllers of one Run.
pub struct PluginRegistry {
    factories: BTreeMap<String, Py<PyAny>>,
    start: Time,
    failure: Failure,
}

/// Message of the first failure.
pub type Failure = Arc<Mutex<Option<String>>>;

impl PluginRegistry {
    /// Create a registry of controller factories by name. Times in messages count from `start`.
    pub fn new(factories: BTreeMap<String, Py<PyAny>>, start: Time) -> Self {
        Self { factories, start, failure: Failure::default() }
    }

    /// Where the first failure is stored.
    pub fn failure(&self) -> Failure {
        self.failure.clone()
    }

    /// Create the controller with this name; `None`: there is none. [`Self::check`] reports a failure.
    pub fn create(&self, name: &str, config: &Config, options: &OptionValues) -> Option<Box<dyn Controller>> {
        let factory = self.factories.get(name)?;
        Some(Python::attach(|py| {
            let mut plugin = PythonController {
                name: name.to_owned(),
                object: py.None(),
                start: self.start,
                at: self.start,
                failure: self.failure.clone(),
                failed: false,
                mss: Bytes(u64::from(config.mss)),
                cwnd: config.initial_cwnd,
                ssthresh: Bytes::MAX,
                pacing: None,
                controls_recovery: false,
                methods: Methods::default(),
            };
            let result = plugin.instantiate(py, factory, config, options);
            plugin.record_failure(py, "__init__", result);
            Box::new(plugin) as Box<dyn Controller>
        }))
    }

    /// Return the failure since the last call, if any, as `ControllerError`.
    pub fn check(&self, py: Python<'_>) -> PyResult<()> {
        // Detach, since another thread may hold the lock while it waits for the interpreter. A panic of that thread leaves the message intact.
        let message = py.detach(|| self.failure.lock().unwrap_or_else(PoisonError::into_inner).take());
        message.map_or(Ok(()), |message| Err(controller_error(message)))
    }
}

/// The optional methods that a controller class defines.
#[derive(Default)]
#[allow(clippy::struct_excessive_bools)] // one flag per method
struct Methods {
    on_established: bool,
    on_ack: bool,
    on_lost: bool,
    on_congestion: bool,
    on_sent: bool,
}

/// A controller whose methods are those of a Python object.
struct PythonController {
    name: String,
    object: Py<PyAny>,
    start: Time,
    at: Time,
    failure: Failure,
    failed: bool,
    mss: Bytes,
    cwnd: Bytes,
    ssthresh: Bytes,
    pacing: Option<Rate>,
    controls_recovery: bool,
    methods: Methods,
}

/// Why a call failed.
enum CallError {
    /// Python raised an exception.
    Raised(PyErr),
    /// An attribute has an invalid value.
    InvalidValue(String),
}

impl From<PyErr> for CallError {
    fn from(error: PyErr) -> Self {
        Self::Raised(error)
    }
}

impl PythonController {
    /// Create the Python object and read its attributes.
    fn instantiate(&mut self, py: Python<'_>, factory: &Py<PyAny>, config: &Config, options: &OptionValues) -> Result<(), CallError> {
        let arguments = PyDict::new(py);
        for (option, value) in options {
            match value {
                OptionValue::Number(number) => arguments.set_item(option, number)?,
                OptionValue::Name(name) => arguments.set_item(option, name)?,
            }
        }
        let object = factory.bind(py).call1((config.mss, config.initial_cwnd.0, arguments))?;
        let has = |method: &str| object.hasattr(method);
        self.methods = Methods {
            on_established: has("on_established")?,
            on_ack: has("on_ack")?,
            on_lost: has("on_lost")?,
            on_congestion: has("on_congestion")?,
            on_sent: has("on_sent")?,
        };
        self.controls_recovery = object.getattr(intern!(py, "controls_recovery"))?.is_truthy()?;
        self.object = object.unbind();
        self.read(py)
    }

    /// Call Python with the object, then read its attributes back. After a failure Python is not called any more.
    fn call(&mut self, now: Time, method: &str, function: impl FnOnce(&Bound<'_, PyAny>) -> PyResult<()>) {
        if self.failed {
            return;
        }
        self.at = now;
        Python::attach(|py| {
            let result = function(self.object.bind(py)).map_err(CallError::from).and_then(|()| self.read(py));
            self.record_failure(py, method, result);
        });
    }

    /// Store the first failure, with the controller's name, the method and the time.
    fn record_failure(&mut self, py: Python<'_>, method: &str, result: Result<(), CallError>) {
        let Err(error) = result else { return };
        self.failed = true;
        let at_s = self.at.since(self.start).as_secs_f64();
        let message = match error {
            CallError::InvalidValue(problem) => format!("after {method} at {at_s:.6} s {problem}"),
            CallError::Raised(error) => format!("{method} at {at_s:.6} s raised {}", describe(py, &error)),
        };
        let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        failure.get_or_insert_with(|| format!("controller {}: {message}", self.name));
    }

    /// Read congestion window, slow-start threshold and pacing rate, and refuse invalid values.
    fn read(&mut self, py: Python<'_>) -> Result<(), CallError> {
        let object = self.object.bind(py);
        let cwnd: f64 = object.getattr(intern!(py, "cwnd_bytes"))?.extract()?;
        if !(cwnd.is_finite() && cwnd > 0.0) {
            return Err(invalid("cwnd_bytes", cwnd, "a window above 0"));
        }
        let ssthresh: Option<f64> = object.getattr(intern!(py, "ssthresh_bytes"))?.extract()?;
        let pacing: Option<f64> = object.getattr(intern!(py, "pacing_bps"))?.extract()?;
        if let Some(value) = ssthresh.filter(|value| value.is_nan() || *value < 0.0) {
            return Err(invalid("ssthresh_bytes", value, "at least 0, or None"));
        }
        if let Some(value) = pacing.filter(|value| !(value.is_finite() && *value > 0.0)) {
            return Err(invalid("pacing_bps", value, "a rate above 0, or None"));
        }
        self.cwnd = to_bytes(cwnd).max(self.mss); // with less than one segment the flow could never send
        self.ssthresh = ssthresh.map_or(Bytes::MAX, to_bytes);
        self.pacing = pacing.map(|value| Rate(to_bytes(value).0.max(1)));
        Ok(())
    }
}

/// Create the error for an attribute with an invalid value.
fn invalid(name: &str, value: f64, expected: &str) -> CallError {
    CallError::InvalidValue(format!("{name} is {value}; expected {expected}"))
}

/// Convert to an integer, rounded towards zero and saturated.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // at least 0, and `as` saturates
const fn to_bytes(value: f64) -> Bytes {
    Bytes(value as u64)
}

/// Describe an exception in one line: type, message and line number in the user's file.
pub fn describe(py: Python<'_>, error: &PyErr) -> String {
    let line = error.traceback(py).and_then(|mut traceback| {
        while let Ok(Some(next)) =
            traceback.getattr("tb_next").and_then(|next| Ok(next.extract::<Option<Bound<'_, pyo3::types::PyTraceback>>>()?))
        {
            traceback = next;
        }
        traceback.getattr("tb_lineno").and_then(|line| line.extract::<u32>()).ok()
    });
    let place = line.map_or_else(String::new, |line| format!(" (line {line})"));
    format!("{}{place}", error.to_string().replace('\n', " "))
}

/// Return the event's name for Python.
const fn event_name(event: Congestion) -> &'static str {
    match event {
        Congestion::Loss => "loss",
        Congestion::Ecn => "ecn",
        Congestion::Timeout => "timeout",
        Congestion::TimeoutAgain => "timeout_again",
        Congestion::TailLoss => "tail_loss",
        Congestion::Undo => "undo",
        Congestion::RecoveryEnd => "recovery_end",
        Congestion::Restart(_) => "restart",
    }
}

impl Controller for PythonController {
    fn on_established(&mut self, now: Time, rtt: Option<Nanos>) {
        let start = self.start;
        if self.methods.on_established {
            self.call(now, "on_established", |object| {
                let arguments = (now.since(start).as_secs_f64(), rtt.map(Nanos::as_secs_f64));
                object.call_method1(intern!(object.py(), "on_established"), arguments).map(drop)
            });
        }
    }

    fn on_ack(&mut self, ack: &AckSample) {
        let start = self.start;
        if self.methods.on_ack {
            self.call(ack.now, "on_ack", |object| object.call_method1(intern!(object.py(), "on_ack"), (Ack::of(ack, start),)).map(drop));
        }
    }

    fn on_packet_lost(&mut self, lost: &LostPacket) {
        let start = self.start;
        if self.methods.on_lost {
            self.call(lost.now, "on_lost", |object| {
                let arguments = (lost.now.since(start).as_secs_f64(), lost.bytes.0, lost.sent_at.since(start).as_secs_f64());
                object.call_method1(intern!(object.py(), "on_lost"), arguments).map(drop)
            });
        }
    }

    fn on_congestion(&mut self, now: Time, event: Congestion, in_flight: Bytes) {
        let start = self.start;
        if self.methods.on_congestion {
            self.call(now, "on_congestion", |object| {
                let arguments = (now.since(start).as_secs_f64(), PyString::intern(object.py(), event_name(event)), in_flight.0);
                object.call_method1(intern!(object.py(), "on_congestion"), arguments).map(drop)
            });
        }
    }

    fn on_sent(&mut self, now: Time, in_flight: Bytes, app_limited: bool) {
        let start = self.start;
        if self.methods.on_sent {
            self.call(now, "on_sent", |object| {
                let arguments = (now.since(start).as_secs_f64(), in_flight.0, app_limited);
                object.call_method1(intern!(object.py(), "on_sent"), arguments).map(drop)
            });
        }
    }

    fn cwnd(&self) -> Bytes {
        self.cwnd
    }

    fn set_cwnd(&mut self, cwnd: Bytes) {
        self.call(self.at, "set_cwnd", |object| object.setattr(intern!(object.py(), "cwnd_bytes"), cwnd.0));
    }

    fn ssthresh(&self) -> Bytes {
        self.ssthresh
    }

    fn set_ssthresh(&mut self, ssthresh: Bytes) {
        self.call(self.at, "set_ssthresh", |object| object.setattr(intern!(object.py(), "ssthresh_bytes"), ssthresh.0));
    }

    fn pacing_rate(&self) -> Option<Rate> {
        self.pacing
    }

    fn controls_recovery(&self) -> bool {
        self.controls_recovery
    }

    fn observe(&self, probe: &mut dyn Probe) {
        probe.state("python");
    }
}
