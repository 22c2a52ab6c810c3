//! Builds the Profile: hops, routes and events.
//!
//! ```text
//!   terminal ── sat:44713 ──────────── gateway:Arlington ── pop:SEA ── server
//!               both radio legs,       fibre to the PoP     fibre on
//!               grants, queue, loss
//!
//!   terminal ── sat:44713 ── isl:44713-44714 ── feeder:44714 ── gateway:Arlington ── pop:SEA ── server
//!               user leg,    laser              feeder link
//!               grants, …
//! ```
//! There is one hop for each serving satellite and the [`Chain`] behind it. It contains the whole access in both directions. Routes change hops at slot edges.

use super::chain::{Chain, LinkHop, link_delays, wire};
use super::error::AccessError;
use super::ground::Ground;
use super::origin::Origin;
use super::params::AccessParams;
use super::slots::{SlotDraw, SlotSource};
use super::space::{Pass, SpaceHop};
use crate::schedule::{Serving, ServingSchedule, ServingSlot, SlotGrid};
use crate::track::Track;
use bentpipe_profile::queue_rule::with_queues_of;
use bentpipe_profile::{
    Basis, Event, EventKind, Fate, Hop, Migration, Nanos, Profile, Provenance, QueueFate, Rate, RouteEntry, Series, Streams, Time, Utc,
};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// The inputs of a Profile, from which it can be drawn with another seed. Stored in its provenance.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Recipe {
    /// Always [`MAKER`].
    maker: String,
    schedule: ServingSchedule,
    ground: Ground,
    params: AccessParams,
    /// Origin of the schedule; `None`: unknown.
    #[serde(default)]
    origin: Option<Origin>,
}

const MAKER: &str = "access model";

/// Rate at which a queue migrates to the next satellite's hop. Chosen here, above a hop's default capacity (see [`super::params::CapacitySide::most_mbps`]):
/// the queue is at the terminal or the gateway and migrates without using the air.
const MIGRATION_RATE: Rate = Rate::from_mbps(1000);

/// Build the Profile of a site's serving schedule. `seed` determines all draws. `origin`: origin of the schedule, for the provenance.
///
/// # Errors
/// [`AccessError`]: a schedule with gaps or impossible geometry, a gateway without a ground leg, a parameter out of range.
pub fn build(
    name: &str,
    schedule: &ServingSchedule,
    ground: &Ground,
    params: &AccessParams,
    origin: Option<&Origin>,
    seed: u64,
) -> Result<Profile, AccessError> {
    params.check()?;
    ground.check()?;
    check_slots(schedule)?;
    if !schedule.track.is_empty() {
        Track::new(schedule.track.clone())?;
    }
    let grid = SlotGrid::new(schedule.slot_period_ns, schedule.slot_phase_ns)?;
    let mut plan = Plan::new(schedule, ground, params, grid, Streams::new(seed).child("access"));
    plan.add_slots()?;
    let mut hops = plan.space.iter().map(|hop| hop.build(params)).collect::<Result<Vec<_>, _>>()?;
    let first_link = hops.len();
    hops.extend(plan.links.iter().map(|link| link.build(schedule.duration_ns)).collect::<Result<Vec<_>, _>>()?);
    let first_ground = hops.len();
    hops.append(&mut plan.ground_hops);
    if hops.is_empty() {
        hops.push(wire("terminal".to_owned(), &Series::constant(0))); // no serving satellite in any slot: the Profile is one outage at the terminal
    }
    let number = |hop: &HopRef| match *hop {
        HopRef::Space(index) => index,
        HopRef::Link(index) => first_link + index,
        HopRef::Ground(index) => first_ground + index,
    };
    let routes = plan.routes.iter().map(|(at_ns, hops)| RouteEntry { at_ns: *at_ns, hops: hops.iter().map(number).collect() }).collect();
    let over_lasers = schedule.slots.iter().filter(|s| s.serving.as_ref().is_some_and(|serving| !serving.relays.is_empty())).count();
    let lasers = if over_lasers > 0 { format!(", {over_lasers} of them over inter-satellite links") } else { String::new() };
    let recipe = Recipe {
        maker: MAKER.to_owned(),
        schedule: schedule.clone(),
        ground: ground.clone(),
        params: params.clone(),
        origin: origin.cloned(),
    };
    let provenance = Provenance {
        kind: "computed".to_owned(),
        description: format!(
            "{:.4}, {:.4} to {} by {} scheduling, {} slots{lasers}; delay and loss fitted to pings, capacity from published figures",
            schedule.site.lat_deg,
            schedule.site.lon_deg,
            ground.server,
            schedule.policy,
            schedule.slots.len()
        ),
        made_by: format!("bentpipe {}", env!("CARGO_PKG_VERSION")),
        seed: Some(seed),
        includes: vec!["mac_jitter".to_owned(), "cross_traffic".to_owned()],
        // All values were checked to be finite, so that they can be written as JSON.
        recipe: serde_json::to_value(recipe).unwrap_or_default(),
    };
    let (start, duration) = (Utc(schedule.start_unix_ns), Nanos(schedule.duration_ns));
    Ok(Profile::new(name.to_owned(), start, duration, Basis::OneWay, provenance, hops, routes, plan.events)?)
}

/// Draw a Profile with another seed: the same satellite passes and queues, new random processes.
///
/// # Errors
/// [`AccessError::NoRecipe`] if the access model did not make the Profile.
pub fn reseed(profile: &Profile, seed: u64) -> Result<Profile, AccessError> {
    let no_recipe = |reason: String| AccessError::NoRecipe { name: profile.name().to_owned(), reason };
    let recipe = &profile.provenance().recipe;
    if recipe.get("maker").and_then(|maker| maker.as_str()) != Some(MAKER) {
        return Err(no_recipe("its provenance has no recipe".to_owned()));
    }
    let recipe: Recipe = serde_json::from_value(recipe.clone()).map_err(|e| no_recipe(format!("its recipe cannot be read: {e}")))?;
    let redrawn = build(profile.name(), &recipe.schedule, &recipe.ground, &recipe.params, recipe.origin.as_ref(), seed)?;
    Ok(with_queues_of(redrawn, profile))
}

/// Check that the slots cover the span in order and without gaps.
fn check_slots(schedule: &ServingSchedule) -> Result<(), AccessError> {
    let error = |slot, from: u64, to: u64| AccessError::Slots {
        slot,
        from_s: from as f64 / 1e9,
        to_s: to as f64 / 1e9,
        span_s: schedule.duration_ns as f64 / 1e9,
    };
    let mut at = 0;
    for (number, slot) in schedule.slots.iter().enumerate() {
        if slot.start_ns != at || slot.end_ns <= at || slot.end_ns > schedule.duration_ns {
            return Err(error(number, slot.start_ns, slot.end_ns));
        }
        at = slot.end_ns;
    }
    // Accept years from 1970 to 2255.
    let years = 0..9_000_000_000_000_000_000;
    let span_fits = schedule.duration_ns < 1_000_000_000_000_000 && years.contains(&schedule.start_unix_ns);
    if at != schedule.duration_ns || at == 0 || !span_fits {
        return Err(error(schedule.slots.len(), at, schedule.duration_ns));
    }
    Ok(())
}

/// A hop by its group. The groups' places in the Profile are known when all slots are added.
#[derive(Clone, Copy, PartialEq, Eq)]
enum HopRef {
    Space(usize),
    Link(usize),
    Ground(usize),
}

/// The Profile's parts, filled slot by slot.
struct Plan<'a> {
    schedule: &'a ServingSchedule,
    ground: &'a Ground,
    grid: SlotGrid,
    source: SlotSource<'a>,
    space: Vec<SpaceHop<'a>>,
    /// Chain → index in `space`.
    space_index: BTreeMap<Chain<'a>, usize>,
    links: Vec<LinkHop>,
    /// Chain from a link on → index in `links`.
    link_index: BTreeMap<Chain<'a>, usize>,
    ground_hops: Vec<Hop>,
    /// Name → index in `ground_hops`.
    ground_index: BTreeMap<String, usize>,
    /// Names of satellite hops and links.
    names: BTreeSet<String>,
    routes: Vec<(Time, Vec<HopRef>)>,
    events: Vec<Event>,
}

impl<'a> Plan<'a> {
    fn new(schedule: &'a ServingSchedule, ground: &'a Ground, params: &'a AccessParams, grid: SlotGrid, streams: Streams) -> Self {
        Self {
            schedule,
            ground,
            grid,
            source: SlotSource::new(params, streams, grid, schedule.site.lon_deg).on_track(&schedule.track),
            space: Vec::new(),
            space_index: BTreeMap::new(),
            links: Vec::new(),
            link_index: BTreeMap::new(),
            ground_hops: Vec::new(),
            ground_index: BTreeMap::new(),
            names: BTreeSet::new(),
            routes: Vec::new(),
            events: Vec::new(),
        }
    }

    /// Add all slots of the schedule.
    fn add_slots(&mut self) -> Result<(), AccessError> {
        let schedule = self.schedule;
        let mut previous: Option<&Serving> = None;
        for (number, slot) in schedule.slots.iter().enumerate() {
            let draw = self.draw(slot);
            match &slot.serving {
                Some(serving) => self.add_serving(number, slot, serving, draw, previous)?,
                None => self.add_outage(slot),
            }
            previous = slot.serving.as_ref();
        }
        Ok(())
    }

    /// Draw the random values of a slot.
    fn draw(&self, slot: &ServingSlot) -> SlotDraw {
        let begins = Utc(self.schedule.start_unix_ns).plus(Nanos(slot.start_ns));
        self.source.draw(self.grid.slot_at(begins))
    }

    /// Add a slot with a serving satellite: its pass, its route and the handover at its start.
    fn add_serving(
        &mut self,
        number: usize,
        slot: &'a ServingSlot,
        serving: &'a Serving,
        draw: SlotDraw,
        previous: Option<&Serving>,
    ) -> Result<(), AccessError> {
        let chain = Chain::of(serving);
        let hop = self.space_hop(&chain);
        let leg = self.ground.leg(&serving.gateway)?;
        let gateway = self.ground_hop(format!("gateway:{}", serving.gateway), leg.gateway_pop_ns);
        let pop = self.ground_hop(format!("pop:{}", leg.pop), leg.pop_server_ns);
        // The event interrupts both directions. The uplink's longer interruption is part of its grant schedule.
        let interruption_ns = Nanos(u64::try_from(draw.down_interruption_ns).unwrap_or(0));
        self.space[hop].passes.push(Pass::new(number, slot, serving, draw, &self.source, self.grid, self.schedule)?);
        let mut route = vec![HopRef::Space(hop)];
        for (first, delays) in link_delays(number, slot, serving)?.into_iter().enumerate() {
            let link = self.link_hop(chain.rest(first));
            self.links[link].passes.push(delays);
            route.push(HopRef::Link(link));
        }
        route.extend([HopRef::Ground(gateway), HopRef::Ground(pop)]);
        let at_ns = Time(slot.start_ns);
        if self.routes.last().is_none_or(|last| last.1 != route) {
            self.routes.push((at_ns, route));
        }
        if slot.start_ns > 0 {
            let left = previous.map_or(hop, |b| self.space_index[&Chain::of(b)]);
            // Pings at slot edges arrive late but in order and are hardly ever lost: packets wait for the new satellite, and the old one
            // sends no more. Losses at reconfigurations are in the loss series.
            let queue = if left == hop {
                QueueFate::Keep
            } else {
                // Without delay, during the interruption, so that the queue goes before packets that arrive in the meantime.
                QueueFate::Migrate(Migration { to_hop: hop, delay_ns: Nanos::ZERO, rate_bps: MIGRATION_RATE })
            };
            let fate = Fate { queue, ..Fate::LOSSLESS };
            self.events.push(Event {
                at_ns,
                interruption_ns,
                hop: left,
                kind: EventKind::Handover {
                    from_satellite: previous.map(|b| b.norad_id.to_string()),
                    to_satellite: Some(serving.norad_id.to_string()),
                    from_gateway: previous.map(|b| b.gateway.clone()),
                    to_gateway: Some(serving.gateway.clone()),
                    to_hop: hop,
                },
                up: fate,
                down: fate,
            });
        }
        Ok(())
    }

    /// Add a slot without a satellite, or without one that sees a gateway. Queues are dropped, since no satellite will serve them.
    fn add_outage(&mut self, slot: &ServingSlot) {
        let at_ns = Time(slot.start_ns);
        if self.routes.last().is_none_or(|last| !last.1.is_empty()) {
            self.routes.push((at_ns, Vec::new()));
            let fate = Fate { queue: QueueFate::Drop, ..Fate::LOSSLESS };
            // The first hop of a route is the serving satellite's.
            let first = self.routes.iter().rev().find_map(|(_, hops)| hops.first());
            let hop = first.map_or(0, |first| if let HopRef::Space(hop) = first { *hop } else { 0 });
            self.events.push(Event { at_ns, interruption_ns: Nanos::ZERO, hop, kind: EventKind::Outage, up: fate, down: fate });
        }
        if let Some(outage) = self.events.last_mut() {
            outage.interruption_ns = Nanos(slot.end_ns - outage.at_ns.0);
        }
    }

    /// Return the index of the satellite hop of a chain, adding it if it is new.
    fn space_hop(&mut self, chain: &Chain<'a>) -> usize {
        if let Some(&known) = self.space_index.get(chain) {
            return known;
        }
        // The same satellite with another chain behind it is another hop and needs another name.
        let name = self.new_name(format!("sat:{}", chain.satellites[0]), chain.gateway);
        self.space.push(SpaceHop { name, passes: Vec::new(), duration_ns: self.schedule.duration_ns });
        self.space_index.insert(chain.clone(), self.space.len() - 1);
        self.space.len() - 1
    }

    /// Return the index of the hop of a chain's first link, adding it if it is new.
    fn link_hop(&mut self, chain: Chain<'a>) -> usize {
        if let Some(&known) = self.link_index.get(&chain) {
            return known;
        }
        let name = self.new_name(chain.link_name(), chain.gateway);
        self.links.push(LinkHop { name, passes: Vec::new() });
        self.link_index.insert(chain, self.links.len() - 1);
        self.links.len() - 1
    }

    /// Return `name` if no other hop has it, otherwise with the gateway, and with a number from 2 on if that is not enough.
    fn new_name(&mut self, name: String, gateway: &str) -> String {
        let with_gateway = format!("{name}@{gateway}");
        let numbered = (2..).map(|number| format!("{with_gateway}#{number}"));
        let free = [name, with_gateway.clone()].into_iter().chain(numbered).find(|name| !self.names.contains(name)).unwrap_or_default();
        self.names.insert(free.clone());
        free
    }

    /// Return the index of a ground hop, adding it if it is new.
    fn ground_hop(&mut self, name: String, delay_ns: u64) -> usize {
        if let Some(&known) = self.ground_index.get(&name) {
            return known;
        }
        self.ground_hops.push(wire(name.clone(), &Series::constant(delay_ns)));
        self.ground_index.insert(name, self.ground_hops.len() - 1);
        self.ground_hops.len() - 1
    }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;

#[cfg(test)]
#[path = "laser_tests.rs"]
mod laser_tests;
