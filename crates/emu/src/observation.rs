//! Results of a program's TCP flows: bytes from the sockets' counters, times from the relay's packets.

use crate::flows::Span;
use crate::result::FlowResult;
use crate::sampler::{ObservedFlow, Sampler};
use bentpipe_profile::app::AppSpec;
use bentpipe_profile::experiment::{EcnMode, FlowSpec};
use bentpipe_profile::{Bytes, Time};
use std::collections::BTreeMap;

/// See the module.
pub struct Observation<'a> {
    /// Counters of the sockets.
    pub sampler: &'a Sampler,
    /// First and last packet of each flow, by number.
    pub spans: &'a [Span],
    /// Start of the emulation.
    pub start: Time,
}

impl Observation<'_> {
    fn flows(&self) -> impl Iterator<Item = (u32, &ObservedFlow, Span)> {
        // The relay numbers a flow at its first packet, so each number has a span. The default is an instant.
        let instant = Span { first: self.start, last: self.start };
        self.sampler
            .observed()
            .iter()
            .map(move |(&number, flow)| (number, flow, self.spans.get(number as usize).copied().unwrap_or(instant)))
    }

    /// The flows as an Experiment's, on the path with this `role`.
    #[must_use]
    pub fn specs(&self, role: &str) -> Vec<FlowSpec> {
        let since = |at: Time| Time(at.since(self.start).0);
        let flows = self.flows().map(|(_, flow, span)| FlowSpec {
            profile: role.to_owned(),
            direction: flow.direction,
            controller: flow.controller.clone(),
            options: BTreeMap::new(),
            start_ns: since(span.first),
            stop_ns: Some(Time(since(span.last).0.max(since(span.first).0 + 1))),
            app: AppSpec::transfer(Bytes(flow.delivered_bytes)),
            sender: None,
            receiver: None,
            ecn: EcnMode::Off, // unknown outside the socket
        });
        flows.collect()
    }

    /// The flows' results, in the order of [`Self::specs`].
    #[must_use]
    pub fn results(&self) -> Vec<FlowResult> {
        let flows = self.flows().map(|(number, flow, span)| FlowResult {
            number: Some(number),
            start: span.first,
            stop: span.last,
            completed: Some(span.last).filter(|_| self.sampler.is_over(flow.key)),
            delivered_bytes: flow.delivered_bytes,
            is_complete: self.sampler.is_complete(flow.key),
            retransmits: flow.retransmits,
            marks: flow.marks,
            app: None,
        });
        flows.collect()
    }
}
