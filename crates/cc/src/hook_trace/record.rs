//! Recording of hook traces.

use super::format::{Call, Header, State, write_call};
use crate::{Controller, as_calls};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The traces of a Run's flows.
#[derive(Debug, Default)]
pub struct Traces(Mutex<Vec<Buffer>>);

/// Bytes of one trace that were not taken yet.
type Buffer = Arc<Mutex<Vec<u8>>>;

/// Bytes stay whole when another thread panics.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Traces {
    /// Returns the trace of the next flow, which is empty until a controller is recorded.
    #[must_use]
    pub fn next_flow(&self) -> Trace {
        let buffer = Buffer::default();
        lock(&self.0).push(buffer.clone());
        Trace(buffer)
    }

    /// Returns the bytes recorded of each flow since the last call: the next part of its file.
    #[must_use]
    pub fn take(&self) -> Vec<Vec<u8>> {
        lock(&self.0).iter().map(|buffer| std::mem::take(&mut *lock(buffer))).collect()
    }
}

/// The trace of a flow, of one of its controllers.
#[derive(Debug)]
pub struct Trace(Buffer);

impl Trace {
    /// Returns a controller that behaves as `controller` and records every call from now on.
    #[must_use]
    pub fn record(self, header: &Header, controller: Box<dyn Controller>) -> Box<dyn Controller> {
        header.write(&mut lock(&self.0));
        Box::new(Recorder { controller, buffer: self.0, calls: 0 })
    }
}

/// A controller whose calls are recorded.
struct Recorder {
    controller: Box<dyn Controller>,
    buffer: Buffer,
    calls: u64,
}

impl Recorder {
    fn call(&mut self, call: &Call) {
        call.make(&mut *self.controller);
        write_call(&mut lock(&self.buffer), self.calls, call, State::of(&*self.controller));
        self.calls += 1;
    }
}

impl Controller for Recorder {
    delegate!(
        controller: cwnd, ssthresh, pacing_rate, next_departure, controls_recovery, sndbuf_factor, min_tso_segments, max_rto, on_knowledge, observe
    );
    as_calls!(on_established, on_acked, on_ack, on_packet_lost, on_congestion, on_sent, on_path_hint, set_cwnd, set_ssthresh);
}
