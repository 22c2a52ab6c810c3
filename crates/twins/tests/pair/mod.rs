//! A model and its twin, held equal after every call.

use bentpipe_cc::Controller;
use bentpipe_cc::hook_trace::{Call, State};
use bentpipe_cc::registry::{self, Config};
use bentpipe_profile::Time;
use bentpipe_profile::options::OptionValues;
use bentpipe_twins::build;

pub struct Pair {
    pub name: String,
    pub model: Box<dyn Controller>,
    pub twin: Box<dyn Controller>,
    pub calls: u64,
    /// Time of the newest call that has one.
    now: Time,
}

impl Pair {
    pub fn new(controller: &str, config: &Config, options: &OptionValues) -> Self {
        let model = registry::build(controller, config, options).expect("in range");
        let twin = build(controller, config, options).expect("in range");
        Self { name: format!("{controller} {options:?}"), model, twin, calls: 0, now: Time::ZERO }
    }

    /// Makes a call of both.
    ///
    /// # Panics
    /// They differ after it.
    pub fn call(&mut self, call: &Call) {
        call.make(self.model.as_mut());
        call.make(self.twin.as_mut());
        let (twin, model) = (State::of(self.twin.as_ref()), State::of(self.model.as_ref()));
        assert_eq!(twin, model, "{}, call {}: {call:?}", self.name, self.calls);
        self.now = call.at().unwrap_or(self.now);
        let (twin, model) = (self.twin.max_rto(self.now), self.model.max_rto(self.now));
        assert_eq!(twin, model, "{}, largest RTO after call {}: {call:?}", self.name, self.calls);
        self.calls += 1;
    }
}
