//! A controller of the C core as a `Controller`.

#![allow(unsafe_code)] // calls of the C core: plain data in, plain data out

use crate::host_clock::{ClockReader, ClockRecord};
use bentpipe_cc::error::RegistryError;
use bentpipe_cc::hook_trace::{Call, State};
use bentpipe_cc::option_words::{OptionWords, option_words};
use bentpipe_cc::registry::{self, Config};
use bentpipe_cc::{Controller, Probe, as_calls};
use bentpipe_profile::options::OptionValues;
use bentpipe_profile::rng::Stream;
use bentpipe_profile::{Bytes, Nanos, Rate, Time};
use std::ffi::{CStr, c_char, c_void};
use std::sync::Arc;

/// Controllers that have a twin, by their names in the registry.
pub const NAMES: &[&str] = &["bbr2", "bbr3", "bbr3-leo", "cubic", "cubic-leo", "hybla", "leocc", "reno", "satcp"];

#[repr(C)]
struct CConfig {
    mss: u64,
    initial_cwnd: u64,
    paced: u64,
}

#[repr(C)]
#[derive(Default)]
struct CState {
    cwnd: u64,
    ssthresh: u64,
    pacing_rate: u64,
}

/// `struct bp_twin`.
#[repr(C)]
struct Methods {
    name: *const c_char,
    options: *const *const c_char,
    state_bytes: u64,
    init: unsafe extern "C" fn(*mut c_void, *const CConfig, *const OptionWords),
    call: unsafe extern "C" fn(*mut c_void, u64, *const c_void),
    get: unsafe extern "C" fn(*const c_void, *mut CState),
    max_rto: Option<unsafe extern "C" fn(*const c_void, u64) -> u64>,
    set_clock: Option<unsafe extern "C" fn(*mut c_void, u64, u64, u64)>,
    uses_clock: Option<unsafe extern "C" fn(*const c_void, u64) -> i32>,
}

// SAFETY: the table is constant.
unsafe impl Sync for Methods {}

unsafe extern "C" {
    fn bp_twin(n: u64) -> *const Methods;
    fn bp_random_source(below: extern "C" fn(*mut c_void, u64) -> u64, context: *mut c_void);
}

extern "C" fn below(context: *mut c_void, n: u64) -> u64 {
    // SAFETY: `Twin::with_random` passes its own stream, which outlives the call.
    unsafe { &mut *context.cast::<Stream>() }.below(n)
}

/// Returns the methods of a twin. Their table is static.
fn methods(name: &str) -> Option<&'static Methods> {
    // SAFETY: `bp_twin` returns a static entry, or null after the last one; its name is a static string.
    let table = (0..).map_while(|n| unsafe { bp_twin(n).as_ref() });
    table.into_iter().find(|methods| unsafe { CStr::from_ptr(methods.name) }.to_bytes() == name.as_bytes())
}

/// Returns the names of a twin's options, in the order of its words.
#[cfg(test)]
fn option_names(methods: &Methods) -> Vec<String> {
    // SAFETY: the list is static and ends with null.
    let names = (0..).map(|n| unsafe { *methods.options.add(n) }).take_while(|name| !name.is_null());
    names.map(|name| unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned()).collect()
}

/// Returns whether the controller called `name` has a twin that reads the host's clock.
#[must_use]
pub fn reads_clock(name: &str) -> bool {
    methods(name).is_some_and(|methods| methods.set_clock.is_some())
}

/// Builds the twin of the registered controller called `name`, on a host without a clock.
///
/// # Errors
/// `UnknownController`, `Option`, as the registry's.
///
/// # Panics
/// It has no twin: it is not in [`NAMES`].
pub fn build(name: &str, config: &Config, given: &OptionValues) -> Result<Box<dyn Controller>, RegistryError> {
    build_with_clock(name, config, given, Arc::new([]))
}

/// As [`build`], on a host whose clock has these records, in order of time. A twin that reads no clock ignores them.
///
/// # Errors
/// As [`build`].
///
/// # Panics
/// As [`build`].
pub fn build_with_clock(
    name: &str,
    config: &Config,
    given: &OptionValues,
    clock: Arc<[ClockRecord]>,
) -> Result<Box<dyn Controller>, RegistryError> {
    let declared = registry::find(name)?.declared();
    let options = option_words(&declared, &declared.check(given)?);
    // Its telemetry and its fixed properties are not compared.
    let model = registry::build(name, config, given)?;
    let methods = methods(name).unwrap_or_else(|| panic!("{name} has no twin"));
    let words = usize::try_from(methods.state_bytes.div_ceil(8)).unwrap_or(0);
    let mut twin = Twin {
        methods,
        state: vec![0; words],
        random: config.streams.stream("bbr/cycle"),
        model,
        clock: ClockReader::new(clock),
        now: Time(0),
    };
    let c_config = CConfig { mss: u64::from(config.mss), initial_cwnd: config.initial_cwnd.0, paced: u64::from(config.paced) };
    // SAFETY: the state has the size that the table states, and the alignment of its widest member.
    twin.with_random(|methods, state| unsafe { (methods.init)(state, &raw const c_config, &raw const options) });
    Ok(Box::new(twin))
}

struct Twin {
    methods: &'static Methods,
    state: Vec<u64>,
    random: Stream,
    model: Box<dyn Controller>,
    clock: ClockReader,
    /// Time of its last call.
    now: Time,
}

impl Twin {
    fn with_random(&mut self, work: impl FnOnce(&Methods, *mut c_void)) {
        // SAFETY: the stream lives as long as `self`; the source is set before each call, on this thread.
        unsafe { bp_random_source(below, (&raw mut self.random).cast()) };
        work(self.methods, self.state.as_mut_ptr().cast());
    }

    /// Gives the controller the newest write to the host's clock since its last call.
    fn read_clock(&mut self, now: Time) {
        let Some(record) = self.clock.read(now) else { return };
        if let Some(set_clock) = self.methods.set_clock {
            // SAFETY: as in `build_with_clock`.
            unsafe { set_clock(self.state.as_mut_ptr().cast(), record.period.0, record.at.0, record.until.0) };
        }
    }

    fn call(&mut self, call: &Call) {
        if let Some(now) = call.at() {
            self.read_clock(now);
            self.now = now;
        }
        let (kind, bytes) = call.record();
        let words: Vec<u64> = bytes.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().unwrap_or_default())).collect();
        // SAFETY: the words are the struct that `hook_trace.h` declares for this kind.
        self.with_random(|methods, state| unsafe { (methods.call)(state, u64::from(kind), words.as_ptr().cast()) });
    }

    fn get(&self) -> State {
        let mut state = CState::default();
        // SAFETY: as in `build_with_clock`.
        unsafe { (self.methods.get)(self.state.as_ptr().cast(), &raw mut state) };
        let rate = Some(state.pacing_rate).filter(|rate| *rate != u64::MAX).map(Rate);
        State { cwnd: Bytes(state.cwnd), ssthresh: Bytes(state.ssthresh), pacing_rate: rate }
    }
}

impl Controller for Twin {
    as_calls!(on_established, on_acked, on_ack, on_packet_lost, on_congestion, on_sent, on_path_hint, set_cwnd, set_ssthresh);

    fn cwnd(&self) -> Bytes {
        self.get().cwnd
    }

    fn ssthresh(&self) -> Bytes {
        self.get().ssthresh
    }

    fn pacing_rate(&self) -> Option<Rate> {
        self.get().pacing_rate
    }

    fn controls_recovery(&self) -> bool {
        self.model.controls_recovery()
    }

    fn sndbuf_factor(&self) -> u32 {
        self.model.sndbuf_factor()
    }

    fn max_rto(&self, now: Time) -> Option<Nanos> {
        // SAFETY: as in `build_with_clock`.
        let rto = self.methods.max_rto.map(|max_rto| unsafe { max_rto(self.state.as_ptr().cast(), now.0) });
        rto.filter(|rto| *rto != u64::MAX).map(Nanos)
    }

    /// Records whether it takes the times of handovers from the host's clock.
    fn observe(&self, probe: &mut dyn Probe) {
        let Some(uses_clock) = self.methods.uses_clock else { return };
        // SAFETY: as in `build_with_clock`.
        let is_used = unsafe { uses_clock(self.state.as_ptr().cast(), self.now.0) } != 0;
        probe.state(if is_used { "host_clock" } else { "no_host_clock" });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_twin_lists_the_options_of_its_controller_in_their_order() {
        for name in NAMES {
            let declared = registry::find(name).expect("registered").declared();
            assert!(declared.options.len() <= bentpipe_cc::option_words::LAYOUT_WORD);
            let expected: Vec<&str> = declared.options.iter().map(|spec| spec.name).collect();
            assert_eq!(option_names(methods(name).expect("has a twin")), expected, "{name}");
        }
        assert_eq!((0..).map_while(|n| unsafe { bp_twin(n).as_ref() }).count(), NAMES.len());
    }
}
