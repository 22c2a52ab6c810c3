//! The event loop runs the earliest event of the network, the hosts' timers and the sampling clock.
//!
//! ```text
//!   Endpoint ──poll_transmit──▶ Network ──on_packets──▶ Endpoint
//!      ▲                                                   │
//!      └─────────on_packets──── Network ◀──poll_transmit───┘
//! ```
//! At equal times the network runs before the hosts, and the hosts before the sampling clock; hosts run in the order in which they set their
//! timers. An endpoint receives what arrives at one instant as one batch, unless packets of others lie between. So a Run depends on its
//! Experiment and its Profiles alone.

mod setup;

use crate::batches::{Batches, Receiving};
use crate::cross_traffic::Source;
use crate::error::SimError;
use crate::flow::Flow;
use crate::payloads::Payloads;
use bentpipe_link::windows::{LINK_WINDOW, record_window};
use bentpipe_link::{Ecn, Network, Outcome, Packet};
use bentpipe_profile::experiment::Experiment;
use bentpipe_profile::run::tables::hash_columns;
use bentpipe_profile::run::{RunTables, Summary};
use bentpipe_profile::{Direction, Nanos, Profile, Time};
use bentpipe_transport::{Arrival, Endpoint, TcpPacket};
use sha2::{Digest, Sha256};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fmt::Write as _;
use std::sync::Arc;

/// A simulation in progress.
pub struct Simulation {
    experiment: Experiment,
    profiles: Vec<Arc<Profile>>,
    network: Network,
    /// The Experiment's own flows, then those of cross traffic; `None` once a flow is removed.
    flows: Vec<Option<Box<Flow>>>,
    /// Number of the Experiment's own flows.
    own_flows: usize,
    sources: Vec<Source>,
    payloads: Payloads,
    batches: Batches,
    /// Hosts' timers as (time, tie-breaker, flow). An entry is valid only if its time equals that in `timer_due`.
    timers: BinaryHeap<Reverse<(Time, u64, u32)>>,
    timer_due: Vec<Time>,
    timer_count: u64,
    now: Time,
    start: Time,
    end: Time,
    next_sample: Time,
    next_window: Time,
    outcomes: Vec<(Outcome, Packet)>,
    tables: RunTables,
    packets: u64,
}

/// A finished Run.
#[derive(Debug)]
pub struct RunData {
    /// The tables of samples, links and events.
    pub tables: RunTables,
    /// Summary of the Run.
    pub summary: Summary,
}

impl RunData {
    /// Return the hex SHA-256 of all tables and the summary: the same Experiment on the same Profiles gives the same hash on every machine.
    ///
    /// # Panics
    /// Never: the summary is plain data.
    #[must_use]
    pub fn content_hash(&self) -> String {
        let mut hash = Sha256::new();
        self.tables.named().iter().for_each(|(_, columns)| hash_columns(&mut hash, columns));
        hash.update(serde_json::to_string(&self.summary).expect("a summary is plain data"));
        hash.finalize().iter().fold(String::with_capacity(64), |mut hex, byte| {
            let _ = write!(hex, "{byte:02x}"); // writing to a String cannot fail
            hex
        })
    }
}

impl Simulation {
    /// Simulate up to `until` (time within the run, capped at its end); return whether more remains.
    pub fn run_until(&mut self, until: Nanos) -> bool {
        let until = (self.start + until).min(self.end);
        loop {
            let network = self.network.wake_at().unwrap_or(Time::MAX);
            let hosts = self.timer_at();
            let clock = self.next_sample.min(self.next_window);
            let next = network.min(hosts).min(clock);
            if next > until {
                break;
            }
            self.now = next;
            if network == next {
                self.run_network();
            } else if hosts == next {
                self.run_host();
            } else {
                self.record(next);
            }
        }
        self.now = until;
        until < self.end
    }

    /// Fraction of the run that is done, 0 to 1.
    #[must_use]
    pub fn fraction(&self) -> f64 {
        self.now.since(self.start).as_secs_f64() / self.experiment.duration_ns.as_secs_f64()
    }

    /// Return the Run; it is complete once [`Simulation::run_until`] has returned false.
    #[must_use]
    pub fn finish(mut self) -> RunData {
        self.tables.events.sort();
        let facts: Vec<_> = self.flows[..self.own_flows].iter().flatten().map(|flow| flow.facts()).collect();
        let mut summary = Summary::of(&self.experiment, &facts, &self.tables.samples, self.start, self.end, self.packets);
        for flow in self.flows[self.own_flows..].iter().flatten() {
            self.sources[flow.source].record_transfer(flow);
        }
        summary.cross = self.sources.into_iter().map(|source| source.finish(self.experiment.duration_ns)).collect();
        for path in 0..self.profiles.len() {
            summary.no_route.up += self.network.no_route_drops(path, Direction::Up);
            summary.no_route.down += self.network.no_route_drops(path, Direction::Down);
        }
        RunData { tables: self.tables, summary }
    }

    fn timer_at(&mut self) -> Time {
        while let Some(Reverse((at, _, flow))) = self.timers.peek().copied() {
            if self.timer_due[flow as usize] == at {
                return at;
            }
            self.timers.pop(); // superseded by an earlier timer
        }
        Time::MAX
    }

    /// Schedule the flow's next timer. A timer that fires too early is scheduled once more, which is cheaper than moving it at every ACK.
    #[allow(clippy::cast_possible_truncation)] // far fewer than 2^32 flows
    fn schedule_timer(&mut self, flow: usize) {
        let Some(wake) = self.flows[flow].as_ref().and_then(|flow| flow.wake_at()) else { return };
        let wake = wake.max(self.now);
        if wake < self.timer_due[flow] {
            self.timer_due[flow] = wake;
            self.timer_count += 1;
            self.timers.push(Reverse((wake, self.timer_count, flow as u32)));
        }
    }

    fn run_host(&mut self) {
        let Some(Reverse((at, _, flow))) = self.timers.pop() else { return };
        let index = flow as usize;
        self.timer_due[index] = Time::MAX;
        if let Some(source) = self.sources.iter().position(|source| source.next_flow == index) {
            // `new` has already built this source's controller without an error.
            self.schedule_transfer(source).expect("the source's controller is known");
        }
        let Some(flow) = self.flows[index].as_mut() else { return };
        flow.run_application(at);
        flow.ends.iter_mut().for_each(|end| end.on_wake(at));
        for end in [1, 0] {
            self.transmit(index, end);
        }
        self.schedule_timer(index);
    }

    /// Add the source's next transfer to the flows, where it waits for its start time.
    fn schedule_transfer(&mut self, source: usize) -> Result<(), SimError> {
        let Some(mut flow) = self.sources[source].next_transfer(&self.experiment, &self.profiles, self.start)? else { return Ok(()) };
        flow.source = source;
        let index = self.flows.len();
        self.sources[source].next_flow = index;
        self.flows.push(Some(Box::new(flow)));
        self.timer_due.push(Time::MAX);
        self.schedule_timer(index);
        Ok(())
    }

    /// Remove a transfer of cross traffic once its sender has everything acknowledged. Its packets still in the network are then ignored.
    fn remove_if_done(&mut self, index: usize) {
        if index >= self.own_flows
            && let Some(flow) = self.flows[index].take_if(|flow| flow.ends[0].is_done())
        {
            self.sources[flow.source].record_transfer(&flow);
            self.timer_due[index] = Time::MAX;
        }
    }

    fn run_network(&mut self) {
        let mut outcomes = std::mem::take(&mut self.outcomes);
        self.network.run_until(self.now, &mut outcomes);
        match outcomes.as_slice() {
            [] => {}
            [(outcome, packet)] => {
                let content = self.payloads.take(packet.body);
                if let (Outcome::Delivered, Some(packet_content)) = (outcome, content) {
                    self.packets += 1;
                    let arrival = Arrival { packet: packet_content, ce: packet.ecn == Ecn::Ce };
                    self.deliver(Receiving::of(packet), &[arrival], &[]);
                }
            }
            several => {
                let mut batches = std::mem::take(&mut self.batches);
                batches.fill(several, &mut self.payloads);
                self.packets += batches.packets() as u64;
                for (at, batch, later) in batches.iter() {
                    self.deliver(at, batch, later);
                }
                self.batches = batches;
            }
        }
        outcomes.clear();
        self.outcomes = outcomes;
    }

    /// Let an endpoint process the packets that arrived, and send its answers.
    fn deliver(&mut self, at: Receiving, batch: &[Arrival<TcpPacket>], later: &[Arrival<TcpPacket>]) {
        let index = at.flow as usize;
        let Some(flow) = self.flows[index].as_mut() else { return };
        let end = usize::from(at.is_up == (flow.direction == Direction::Up));
        flow.ends[end].on_packets(self.now, batch, later);
        if end == 1 && flow.completed.is_none() && flow.ends[1].is_closed() {
            flow.completed = Some(self.now);
        }
        if flow.ends[end].may_transmit() {
            self.transmit(index, end);
        }
        self.schedule_timer(index);
        self.remove_if_done(index);
    }

    /// Send everything that an end of a flow may send now, and record its events.
    fn transmit(&mut self, index: usize, end: usize) {
        let now = self.now;
        let Some(flow) = self.flows[index].as_mut() else { return };
        let direction = if end == 0 { flow.direction } else { flow.direction.reverse() };
        let endpoint = &mut flow.ends[end];
        while let Some(content) = endpoint.poll_transmit(now) {
            let (bytes, ecn) = (content.wire_bytes(), if content.is_ecn_capable() { Ecn::Ect } else { Ecn::NotEct });
            let body = self.payloads.put(content);
            let packet = Packet { ecn, ..Packet::new(now, flow.path, direction, index_u32(index), bytes, body) };
            if self.network.send(packet).is_err() {
                self.payloads.take(body);
            }
        }
        if !endpoint.is_observed() {
            return;
        }
        endpoint.rtt_samples().for_each(|rtt| flow.rtts.record(rtt));
        let run_s = now.since(self.start).as_secs_f64();
        while let Some((_, event)) = endpoint.next_event() {
            self.tables.events.push(run_s, index_i64(index), event.kind(), event.detail());
        }
    }

    fn record(&mut self, at: Time) {
        if at == self.next_sample {
            self.sample(at.since(self.start).as_secs_f64());
            self.next_sample = at + self.experiment.sample_step_ns;
        }
        if at == self.next_window {
            self.window(at);
            self.next_window = at + LINK_WINDOW;
        }
    }

    fn sample(&mut self, t_s: f64) {
        let ms = |span: Option<Nanos>| span.map_or(f64::NAN, Nanos::as_millis_f64);
        let started = self.flows[..self.own_flows].iter().flatten().enumerate();
        for (index, flow) in started.filter(|(_, f)| f.is_started()) {
            let stats = flow.stats();
            let s = &mut self.tables.samples;
            s.t_s.push(t_s);
            s.flow.push(index as u64);
            s.goodput_bytes.push(flow.delivered().0);
            s.rtt_latest_ms.push(ms(stats.rtt_latest));
            s.rtt_smoothed_ms.push(ms(stats.srtt));
            s.rtt_min_ms.push(ms(stats.min_rtt));
            s.rtt_var_ms.push(ms(stats.rtt_var));
            s.cwnd_bytes.push(stats.cwnd.0);
            s.inflight_bytes.push(stats.in_flight.0);
            s.pacing_bps.push(stats.pacing_rate.map_or(f64::NAN, |r| r.0 as f64));
            s.delivery_bps.push(stats.delivery_rate.map_or(f64::NAN, |r| r.0 as f64));
            s.retransmits.push(stats.retransmits);
            s.losses.push(stats.lost);
            s.marks.push(stats.ce_marks);
            s.state.push(stats.state.name().to_owned());
            s.cwnd_limited_s.push(stats.cwnd_limited.as_secs_f64());
            s.receiver_limited_s.push(stats.receiver_limited.as_secs_f64());
            s.sender_limited_s.push(stats.sender_limited.as_secs_f64());
        }
    }

    fn window(&mut self, at: Time) {
        let t_s = at.since(self.start).as_secs_f64();
        for (path, profile) in self.profiles.iter().enumerate() {
            let role = &self.experiment.profiles[path].role;
            record_window(&mut self.network, path, profile, role, at, t_s, &mut self.tables.links);
        }
        self.network.begin_window();
    }
}

#[allow(clippy::cast_possible_truncation)] // far fewer than 2^32 flows
const fn index_u32(index: usize) -> u32 {
    index as u32
}

#[allow(clippy::cast_possible_wrap)] // far fewer than 2^63 flows
const fn index_i64(index: usize) -> i64 {
    index as i64
}
