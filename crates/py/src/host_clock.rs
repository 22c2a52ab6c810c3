//! `bentpipe._native.HostClock`: the clock that a host's sockets see together; see `bentpipe.kernel.clock.learning`.

use bentpipe_cc::{HostClock, SocketSample};
use bentpipe_profile::{Nanos, Time};
use pyo3::prelude::*;

/// A poll of one socket: its number, the time of its last ACK [ns], its ACKs so far, its smoothed RTT [ns], and whether no data are in flight.
type Poll = (u64, u64, u64, u64, bool);

/// A clock that learns from polls of sockets.
#[pyclass(name = "HostClock", module = "bentpipe._native")]
#[derive(Default)]
pub struct PyHostClock(HostClock);

#[pymethods]
impl PyHostClock {
    #[new]
    fn new() -> Self {
        Self::default()
    }

    /// Process the polls of one time [ns], and advance to it.
    fn update(&mut self, now_ns: u64, polls: Vec<Poll>) {
        for (socket, last_ack_ns, acks, srtt_ns, is_idle) in polls {
            self.0.on_sample(&SocketSample { socket, now: Time(now_ns), last_ack: Time(last_ack_ns), acks, srtt: Nanos(srtt_ns), is_idle });
        }
        self.0.advance(Time(now_ns));
    }

    /// Set the time of an edge of the published slots, by the time of day [ns].
    fn set_published(&mut self, at_ns: Option<u64>) {
        self.0.set_published(at_ns.map(Time));
    }

    /// Forget a socket that has closed.
    fn forget(&mut self, socket: u64) {
        self.0.forget(socket);
    }

    /// Forget all sockets and the clock.
    fn reset(&mut self) {
        self.0.reset();
    }

    /// Return period [ns], time of one reconfiguration [ns] and confidence, 0 to 1, while they are sure.
    fn timing(&self) -> Option<(u64, u64, f64)> {
        self.0.timing().map(|timing| (timing.period.0, timing.at.0, timing.confidence()))
    }

    /// Return why there is no timing.
    fn doubt(&self) -> Option<&'static str> {
        self.0.doubt()
    }

    /// Return detected reconfigurations, and of the expected ones those that were detected and all that could have been.
    const fn evidence(&self) -> (u64, u64, u64) {
        let (hits, reviews) = self.0.reviews();
        (self.0.detections(), hits, reviews)
    }

    /// Return how many sockets are watched at a time [ns].
    fn watched(&self, now_ns: u64) -> usize {
        self.0.watched(Time(now_ns))
    }
}
