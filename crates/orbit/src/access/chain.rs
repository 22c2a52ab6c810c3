//! The chain of a slot behind the terminal: the serving satellite, the satellites after it, the gateway; and the hops between satellites and to the gateway.
//!
//! A hop belongs to a link *and to the rest of the chain behind it*: two chains share hops only from some satellite on down to the gateway. So a change of the
//! chain has one place at which old and new route part and one at which they meet again, which is what the order of packets over a handover needs
//! (`crates/link/src/network/changes.rs`). A link that is used with another rest is another hop.

use super::error::AccessError;
use super::legs;
use crate::schedule::{Serving, ServingSlot};
use bentpipe_profile::{Bytes, Hop, HopDirection, Interpolation, QueueDiscipline, QueueLimit, QueueSpec, Series, Time};

/// Satellites and gateway of a slot.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Chain<'a> {
    /// The satellites, the serving one first.
    pub satellites: Vec<u64>,
    pub gateway: &'a str,
}

impl<'a> Chain<'a> {
    pub fn of(serving: &'a Serving) -> Self {
        let relays = serving.relays.iter().map(|relay| relay.norad_id);
        Self { satellites: std::iter::once(serving.norad_id).chain(relays).collect(), gateway: &serving.gateway }
    }

    /// Return the chain from its satellite number `first` on.
    pub fn rest(&self, first: usize) -> Self {
        Self { satellites: self.satellites[first..].to_vec(), gateway: self.gateway }
    }

    /// Return the name of its first link without the rest of the chain: `isl:44713-44714`, or `feeder:44714`.
    pub fn link_name(&self) -> String {
        match self.satellites[..] {
            [from, to, ..] => format!("isl:{from}-{to}"),
            [last] => format!("feeder:{last}"),
            [] => String::new(),
        }
    }
}

/// A hop between two satellites, or from the last satellite to the gateway, with its slots.
pub(super) struct LinkHop {
    pub name: String,
    /// For each slot the one-way delay [ns] over the Profile's time, from the slot's start to its end.
    pub passes: Vec<Vec<(u64, f64)>>,
}

impl LinkHop {
    /// Build the hop. Both directions have the same delay and no capacity limit: a laser carries far more than a terminal.
    pub fn build(&self, duration_ns: u64) -> Result<Hop, AccessError> {
        let (mut times, mut values, mut valid): (Vec<Time>, Vec<u64>, Vec<bool>) = (Vec::new(), Vec::new(), Vec::new());
        for pass in &self.passes {
            // The end of a slot is the start of the next one, if the hop is in use in both.
            if times.last().is_some_and(|last| last.0 == pass[0].0) {
                times.pop();
                values.pop();
                valid.pop();
            }
            let end_ns = pass[pass.len() - 1].0;
            for &(at, delay_ns) in pass {
                times.push(Time(at));
                #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // a positive delay of seconds at most
                values.push(delay_ns.round() as u64);
                valid.push(at < end_ns || end_ns == duration_ns);
            }
        }
        let delay = Series::new(&format!("{}/delay_s", self.name), Interpolation::Linear, times, values, valid)?;
        Ok(wire(self.name.clone(), &delay))
    }
}

/// Return the delays of a slot's links behind the user link, in order: between satellites, then to the gateway. Empty for a bent pipe.
///
/// # Errors
/// [`AccessError::Geometry`].
pub(super) fn link_delays(number: usize, slot: &ServingSlot, serving: &Serving) -> Result<Vec<Vec<(u64, f64)>>, AccessError> {
    if serving.relays.is_empty() {
        return Ok(Vec::new());
    }
    let lengths = serving.relays.iter().map(|relay| &relay.link_km).chain([&serving.gateway_leg_km]);
    lengths.map(|km| legs::delays(number, slot, serving, [km])).collect()
}

/// Build a hop that has only a delay.
pub(super) fn wire(name: String, delay: &Series) -> Hop {
    let side = || HopDirection {
        delay: delay.clone(),
        capacity: None,
        loss: None,
        jitter: None,
        // The queue stays empty, since there is no capacity limit.
        queue: QueueSpec { discipline: QueueDiscipline::DropTail, limit: QueueLimit::Bytes(Bytes(1 << 30)) },
    };
    Hop { name, shared_id: None, up: side(), down: side() }
}
