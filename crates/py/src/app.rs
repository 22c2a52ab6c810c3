//! Applications written in Python (`bentpipe.plugin.App`). The simulator's events go to the object's methods; the actions that these collect are
//! read back.
//!
//! An event cannot return an error in the simulator. As for controllers, the first failure is stored, and the application is not called again.

use crate::plugin::{Failure, describe};
use bentpipe_apps::server::Server;
use bentpipe_apps::{Actions, App, ControllerChoice, Datagram, Ends, Event, Interest, Item, Message, StreamId};
use bentpipe_emu::race::Plugins;
use bentpipe_profile::app::{AppSpec, MESSAGE_HEADER};
use bentpipe_profile::options::OptionValue;
use bentpipe_profile::{Bytes, Streams, Time};
use pyo3::exceptions::PyValueError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::PoisonError;

/// Argument of a Python application's `on_message`. `bentpipe.plugin` describes the fields.
#[pyclass(name = "Message", module = "bentpipe._native", frozen, get_all)]
pub struct PyMessage {
    number: u64,
    size_bytes: u64,
    answer_bytes: u64,
    first_byte_s: f64,
}

/// The Python applications of one Run.
pub struct AppRegistry {
    factories: BTreeMap<String, Py<PyAny>>,
    failure: Failure,
}

impl AppRegistry {
    /// Create a registry of factories by name. Each takes the options and a seed, and returns the objects at the flow's sender and receiver;
    /// `None`: the built-in server. Failures go to `failure`.
    pub const fn new(factories: BTreeMap<String, Py<PyAny>>, failure: Failure) -> Self {
        Self { factories, failure }
    }

    fn end(&self, py: Python<'_>, name: &str, object: Option<Py<PyAny>>) -> Box<dyn App> {
        let Some(object) = object else { return Box::new(Server::default()) };
        let methods: Vec<_> = METHODS.into_iter().filter(|method| object.bind(py).hasattr(*method).unwrap_or(false)).collect();
        Box::new(PythonApp { name: name.to_owned(), object, methods, failure: self.failure.clone(), failed: false })
    }
}

impl Plugins for AppRegistry {
    fn create(&self, spec: &AppSpec, streams: Streams) -> Option<Ends> {
        let AppSpec::Plugin { name, options } = spec else { return None };
        let factory = self.factories.get(name)?;
        Some(Python::attach(|py| {
            let ends = factory.bind(py).call1((options.clone(), streams.child("app").seed()));
            match ends.and_then(|ends| ends.extract::<(Option<Py<PyAny>>, Option<Py<PyAny>>)>()) {
                Ok((sender, receiver)) => Ends { sender: self.end(py, name, sender), receiver: self.end(py, name, receiver) },
                Err(error) => {
                    store(&self.failure, format!("app {name}: __init__ raised {}", describe(py, &error)));
                    Ends { sender: Box::new(Server::default()), receiver: Box::new(Server::default()) }
                }
            }
        }))
    }

    fn failure(&self) -> Option<String> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Store the first failure.
fn store(failure: &Failure, message: String) {
    failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(message);
}

/// An application whose methods are those of a Python object.
struct PythonApp {
    name: String,
    object: Py<PyAny>,
    /// Those of [`METHODS`] that its class defines.
    methods: Vec<&'static str>,
    failure: Failure,
    failed: bool,
}

impl App for PythonApp {
    fn interest(&self) -> Interest {
        let has = |method| self.methods.contains(&method);
        Interest { readable: has("on_readable"), delivered: has("on_delivered"), writable: has("on_writable") }
    }

    fn on_event(&mut self, now: Time, event: &Event, actions: &mut Actions) {
        let method = method_of(event);
        if self.failed || !self.methods.contains(&method) {
            return;
        }
        Python::attach(|py| {
            let object = self.object.bind(py);
            if let Err(error) = call(object, method, seconds(now), event).and_then(|()| take_actions(object, actions)) {
                self.failed = true;
                let at_s = seconds(now);
                store(&self.failure, format!("app {}: {method} at {at_s:.6} s raised {}", self.name, describe(py, &error)));
            }
        });
    }
}

/// Largest payload of UDP over IPv4 [bytes].
const MOST_DATAGRAM_BYTES: u32 = 65_507;

/// Methods that a class may define.
const METHODS: [&str; 9] =
    ["on_started", "on_opened", "on_readable", "on_message", "on_delivered", "on_writable", "on_closed", "on_timer", "on_datagram"];

/// Return the method of an event.
const fn method_of(event: &Event) -> &'static str {
    match event {
        Event::Started => METHODS[0],
        Event::Opened(_) => METHODS[1],
        Event::Readable { .. } => METHODS[2],
        Event::Message { .. } => METHODS[3],
        Event::Delivered(_) => METHODS[4],
        Event::Writable(_) => METHODS[5],
        Event::Closed(_) => METHODS[6],
        Event::Timer(_) => METHODS[7],
        Event::Datagram(_) => METHODS[8],
    }
}

/// Call the method of an event.
fn call(object: &Bound<'_, PyAny>, method: &str, now_s: f64, event: &Event) -> PyResult<()> {
    match *event {
        Event::Started => object.call_method1(method, (now_s,)),
        Event::Opened(stream) | Event::Delivered(stream) | Event::Writable(stream) | Event::Closed(stream) => {
            object.call_method1(method, (now_s, stream.0))
        }
        Event::Readable { stream, bytes } => object.call_method1(method, (now_s, stream.0, bytes.0)),
        Event::Message { stream, message, first_byte } => {
            let message = PyMessage {
                number: message.id,
                size_bytes: message.bytes.0,
                answer_bytes: message.answer_bytes,
                first_byte_s: seconds(first_byte),
            };
            object.call_method1(method, (now_s, stream.0, message))
        }
        Event::Timer(timer) => object.call_method1(method, (now_s, timer)),
        Event::Datagram(ref datagram) => object.call_method1(method, (now_s, PyBytes::new(object.py(), &datagram.content), datagram.bytes)),
    }
    .map(drop)
}

/// Value of a controller's tunable.
#[derive(FromPyObject)]
enum Tunable {
    Number(f64),
    Name(String),
}

impl From<Tunable> for OptionValue {
    fn from(tunable: Tunable) -> Self {
        match tunable {
            Tunable::Number(number) => Self::Number(number),
            Tunable::Name(name) => Self::Name(name),
        }
    }
}

/// Move the actions that the object has collected to `actions`. Each is a tuple of its name and its arguments.
fn take_actions(object: &Bound<'_, PyAny>, actions: &mut Actions) -> PyResult<()> {
    let collected = object.getattr(intern!(object.py(), "_actions"))?.cast_into::<PyList>()?;
    for action in &collected {
        let name: String = action.get_item(0)?.extract()?;
        match name.as_str() {
            "open" => {
                let (_, name, options): (String, Option<String>, BTreeMap<String, Tunable>) = action.extract()?;
                let options = options.into_iter().map(|(name, value)| (name, value.into())).collect();
                actions.open_with(name.map(|name| ControllerChoice { name, options }));
            }
            "write" => {
                let (_, stream, bytes, id, answer_bytes): (String, u32, u64, u64, u64) = action.extract()?;
                if bytes < MESSAGE_HEADER.0 || (1..MESSAGE_HEADER.0).contains(&answer_bytes) {
                    let problem = format!("a message of {bytes} bytes with an answer of {answer_bytes}; expected at least 24, the header");
                    return Err(PyValueError::new_err(problem));
                }
                actions.write(StreamId(stream), Message { bytes: Bytes(bytes), id, answer_bytes });
            }
            "send" => {
                let (_, content, bytes): (String, Vec<u8>, u32) = action.extract()?;
                if bytes > MOST_DATAGRAM_BYTES || (bytes as usize) < content.len() {
                    let problem = format!(
                        "a datagram of {bytes} bytes with a content of {}; expected at most {MOST_DATAGRAM_BYTES}, and no more content",
                        content.len()
                    );
                    return Err(PyValueError::new_err(problem));
                }
                actions.send(Datagram { content: content.into_boxed_slice(), bytes });
            }
            "close" => actions.close(StreamId(action.get_item(1)?.extract()?)),
            "set_timer" => {
                let (_, at_s, timer): (String, f64, u64) = action.extract()?;
                actions.set_timer(time(at_s)?, timer);
            }
            "record" => {
                type Row = (String, u64, Option<String>, Option<f64>, Option<f64>, Option<f64>, Option<u64>);
                let (_, id, kind, start_s, first_byte_s, completed_s, bytes): Row = action.extract()?;
                let at = |seconds: Option<f64>| seconds.map(time).transpose();
                actions.record(Item {
                    id,
                    kind: kind.map(Cow::Owned),
                    start: at(start_s)?,
                    first_byte: at(first_byte_s)?,
                    completed: at(completed_s)?,
                    bytes: bytes.map(Bytes),
                });
            }
            _ => actions.finish(),
        }
    }
    collected.call_method0(intern!(object.py(), "clear")).map(drop)
}

fn seconds(time: Time) -> f64 {
    time.since(Time::ZERO).as_secs_f64()
}

fn time(seconds: f64) -> PyResult<Time> {
    Time::from_secs_f64(seconds).ok_or_else(|| PyValueError::new_err(format!("the time {seconds} s; expected at least 0")))
}
