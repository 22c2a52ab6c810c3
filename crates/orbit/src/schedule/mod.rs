//! The global scheduler: it assigns a satellite and a gateway to a terminal every 15 s, at :12, :27, :42 and :57 UTC.

mod build;
pub(crate) mod candidates;
mod gateways;
mod highest_elevation;
mod lasers;
mod least_delay;
mod longest_visibility;
mod nearest;
mod policy;
mod slots;
mod starlink_like;
pub(crate) mod terminal;
mod types;

pub use crate::site::Site;
pub use build::{ScheduleRequest, Scheduler, schedule};
pub use gateways::Gateway;
pub use lasers::Isl;
pub use policy::{Candidate, MAX_LOOK_AHEAD_S, POLICIES, Policy, PolicyEntry, SlotContext, policy};
pub use slots::SlotGrid;
pub use types::{Relay, Serving, ServingSchedule, ServingSlot};

#[cfg(test)]
mod tests;
