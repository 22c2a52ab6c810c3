//! A congestion controller that is a Python object (`bentpipe.plugin`): the simulator's calls go to its methods, and its attributes are read back.
//!
//! A call cannot fail in the simulator, so what fails is kept and the controller stands still with its last window until the driver looks (`PluginRegistry::check`).

use crate::error::controller_error;
use bentpipe_cc::registry::Config;
use bentpipe_cc::{AckSample, Congestion, Controller, LostPacket, Probe, RecoveryState};
use bentpipe_profile::{Bytes, Nanos, Rate, Time};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// What an ACK tells; units are in the names, as everywhere. `bentpipe.plugin` describes the fields.
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

/// The controllers a user brought to one Run.
pub struct PluginRegistry {
    makers: BTreeMap<String, Py<PyAny>>,
    start: Time,
    failure: Failure,
}

/// The first thing that went wrong.
type Failure = Arc<Mutex<Option<String>>>;

impl PluginRegistry {
    /// `makers` by name; times in messages count from `start`.
    pub fn new(makers: BTreeMap<String, Py<PyAny>>, start: Time) -> Self {
        Self { makers, start, failure: Failure::default() }
    }

    /// Makes the controller of that name, if there is one here. One whose making fails is told of by [`Self::check`].
    pub fn receive(&self, name: &str, config: &Config, options: &BTreeMap<String, f64>) -> Option<Box<dyn Controller>> {
        let maker = self.makers.get(name)?;
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
                hooks: Hooks::default(),
            };
            let made = plugin.make(py, maker, config, options);
            plugin.note(py, "__init__", made);
            Box::new(plugin) as Box<dyn Controller>
        }))
    }

    /// What went wrong since the last look, as `ControllerError`.
    pub fn check(&self, py: Python<'_>) -> PyResult<()> {
        // Another thread may hold the lock while it waits for the interpreter; a panic there leaves what it wrote.
        let said = py.detach(|| self.failure.lock().unwrap_or_else(PoisonError::into_inner).take());
        said.map_or(Ok(()), |said| Err(controller_error(said)))
    }
}

/// Which of the optional methods it has.
#[derive(Default)]
#[allow(clippy::struct_excessive_bools)] // which of a class's methods there are
struct Hooks {
    established: bool,
    acked: bool,
    lost: bool,
    congestion: bool,
    sent: bool,
}

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
    hooks: Hooks,
}

/// What stopped a call: Python's exception, or a value that is none.
enum Stopped {
    Raised(PyErr),
    Value(String),
}

impl From<PyErr> for Stopped {
    fn from(error: PyErr) -> Self {
        Self::Raised(error)
    }
}

impl PythonController {
    fn make(&mut self, py: Python<'_>, maker: &Py<PyAny>, config: &Config, options: &BTreeMap<String, f64>) -> Result<(), Stopped> {
        let given = PyDict::new(py);
        for (option, value) in options {
            given.set_item(option, value)?;
        }
        let object = maker.bind(py).call1((config.mss, config.initial_cwnd.0, given))?;
        let has = |method: &str| object.hasattr(method);
        self.hooks = Hooks {
            established: has("on_established")?,
            acked: has("on_ack")?,
            lost: has("on_lost")?,
            congestion: has("on_congestion")?,
            sent: has("on_sent")?,
        };
        self.controls_recovery = object.getattr(intern!(py, "controls_recovery"))?.is_truthy()?;
        self.object = object.unbind();
        self.read(py)
    }

    /// Lets Python work on the object, then reads the window back. After a failure nothing is called any more.
    fn call(&mut self, now: Time, method: &str, work: impl FnOnce(&Bound<'_, PyAny>) -> PyResult<()>) {
        if self.failed {
            return;
        }
        self.at = now;
        Python::attach(|py| {
            let done = work(self.object.bind(py)).map_err(Stopped::from).and_then(|()| self.read(py));
            self.note(py, method, done);
        });
    }

    /// Keeps what went wrong, with the controller's name, the method and the time, unless something did before.
    fn note(&mut self, py: Python<'_>, method: &str, done: Result<(), Stopped>) {
        let Err(stopped) = done else { return };
        self.failed = true;
        let at_s = self.at.since(self.start).as_secs_f64();
        let said = match stopped {
            Stopped::Value(what) => format!("after {method} at {at_s:.6} s {what}"),
            Stopped::Raised(error) => format!("{method} at {at_s:.6} s raised {}", in_one_line(py, &error)),
        };
        let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        failure.get_or_insert_with(|| format!("controller {}: {said}", self.name));
    }

    /// Reads window, threshold and rate, and refuses what is none.
    fn read(&mut self, py: Python<'_>) -> Result<(), Stopped> {
        let object = self.object.bind(py);
        let cwnd: f64 = object.getattr(intern!(py, "cwnd_bytes"))?.extract()?;
        if !(cwnd.is_finite() && cwnd > 0.0) {
            return Err(refused("cwnd_bytes", cwnd, "a window above 0"));
        }
        let ssthresh: Option<f64> = object.getattr(intern!(py, "ssthresh_bytes"))?.extract()?;
        let pacing: Option<f64> = object.getattr(intern!(py, "pacing_bps"))?.extract()?;
        if let Some(value) = ssthresh.filter(|value| value.is_nan() || *value < 0.0) {
            return Err(refused("ssthresh_bytes", value, "at least 0, or None"));
        }
        if let Some(value) = pacing.filter(|value| !(value.is_finite() && *value > 0.0)) {
            return Err(refused("pacing_bps", value, "a rate above 0, or None"));
        }
        self.cwnd = whole(cwnd).max(self.mss); // below one segment nothing could ever be sent
        self.ssthresh = ssthresh.map_or(Bytes::MAX, whole);
        self.pacing = pacing.map(|value| Rate(whole(value).0.max(1)));
        Ok(())
    }
}

fn refused(name: &str, value: f64, wanted: &str) -> Stopped {
    Stopped::Value(format!("{name} is {value}; wanted {wanted}"))
}

/// As an integer, towards zero; what is too large is the largest.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // at least 0, and `as` saturates
const fn whole(value: f64) -> Bytes {
    Bytes(value as u64)
}

/// Type, message and the line of the user's file.
fn in_one_line(py: Python<'_>, error: &PyErr) -> String {
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

/// An event's name for Python.
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
        if self.hooks.established {
            self.call(now, "on_established", |object| {
                let arguments = (now.since(start).as_secs_f64(), rtt.map(Nanos::as_secs_f64));
                object.call_method1(intern!(object.py(), "on_established"), arguments).map(drop)
            });
        }
    }

    fn on_ack(&mut self, ack: &AckSample) {
        let start = self.start;
        if self.hooks.acked {
            self.call(ack.now, "on_ack", |object| object.call_method1(intern!(object.py(), "on_ack"), (Ack::of(ack, start),)).map(drop));
        }
    }

    fn on_packet_lost(&mut self, lost: &LostPacket) {
        let start = self.start;
        if self.hooks.lost {
            self.call(lost.now, "on_lost", |object| {
                let arguments = (lost.now.since(start).as_secs_f64(), lost.bytes.0, lost.sent_at.since(start).as_secs_f64());
                object.call_method1(intern!(object.py(), "on_lost"), arguments).map(drop)
            });
        }
    }

    fn on_congestion(&mut self, now: Time, event: Congestion, in_flight: Bytes) {
        let start = self.start;
        if self.hooks.congestion {
            self.call(now, "on_congestion", |object| {
                let arguments = (now.since(start).as_secs_f64(), PyString::intern(object.py(), event_name(event)), in_flight.0);
                object.call_method1(intern!(object.py(), "on_congestion"), arguments).map(drop)
            });
        }
    }

    fn on_sent(&mut self, now: Time, in_flight: Bytes, app_limited: bool) {
        let start = self.start;
        if self.hooks.sent {
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
