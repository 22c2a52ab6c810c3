//! The event loop runs the earliest event of the network, the hosts' timers and the sampling clock.
//!
//! ```text
//!   Endpoint ──poll_transmit──▶ Network ──on_packets──▶ Endpoint
//!      ▲                                                   │
//!      └─────────on_packets──── Network ◀──poll_transmit───┘
//! ```
//! At equal times the network runs before the hosts, these before the pings, and those before the sampling clock; hosts run in the order in
//! which they set their timers. An endpoint receives what arrives at one instant as one batch, unless packets of others lie between. So a Run
//! depends on its Experiment and its Profiles alone.

mod coding;
mod datagrams;
mod hashes;
mod knowledge;
mod pings;
mod proxies;
pub(crate) mod quic;
mod setup;

use self::coding::Coding;
use self::pings::Pings;
use self::proxies::Proxies;
use self::quic::QuicConnections;
use crate::batches::{Batches, Receiving};
use crate::connection::{Connection, Owner};
use crate::cross_traffic::Source;
use crate::data_ends::DataEnds;
use crate::error::SimError;
use crate::flow::{Flow, FlowTotals};
use crate::one_way::OneWay;
use crate::output::Output;
use crate::payloads::Payloads;
use bentpipe_apps::{Datagram, Ends};
use bentpipe_cc::RecoveryState;
use bentpipe_link::windows::{LINK_WINDOW, record_window};
use bentpipe_link::{Ecn, Network, Outcome, Packet};
use bentpipe_profile::app::AppSpec;
use bentpipe_profile::experiment::Experiment;
use bentpipe_profile::run::tables::hash_columns;
use bentpipe_profile::run::{AppSummary, EventRow, PendingEvents, RecoverySummary, Row, RunSink, RunTables, SampleRow, Summary};
use bentpipe_profile::{Direction, Nanos, Profile, Streams, Time};
use bentpipe_recovery::overhead::Overhead;
use bentpipe_transport::{Arrival, Endpoint, TcpPacket};
use sha2::{Digest, Sha256};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::fmt::Write as _;
use std::sync::Arc;

/// A simulation in progress.
pub struct Simulation {
    pub(crate) experiment: Experiment,
    profiles: Vec<Arc<Profile>>,
    network: Network,
    /// The Experiment's flows.
    pub(crate) flows: Vec<Flow>,
    /// The first connection of each flow, then all others; `None`: not opened yet, or over.
    pub(crate) connections: Vec<Option<Box<Connection>>>,
    /// The connections over QUIC, whose places in `connections` are empty.
    pub(crate) quic: QuicConnections,
    sources: Vec<Source>,
    pings: Pings,
    payloads: Payloads<TcpPacket>,
    /// Datagrams of the flows' applications in the network.
    datagrams: Payloads<Datagram>,
    /// Delays of the flows' data; `None`: the Experiment has no recovery.
    one_way: Option<OneWay>,
    /// The code at the hosts; `None`: there is none.
    coding: Option<Box<Coding>>,
    /// The proxies on the paths; `None`: there are none.
    proxies: Option<Box<Proxies>>,
    /// Counters of the recovery inside the network.
    overhead: Option<Arc<Overhead>>,
    batches: Batches,
    /// Ends of connections that applications wrote to.
    pub(crate) touched: VecDeque<(usize, usize)>,
    /// Hosts' timers as (time, tie-breaker, connection). An entry is valid only if its time equals that in `timer_due`. The applications of a
    /// flow share the entry of its first connection.
    timers: BinaryHeap<Reverse<(Time, u64, u32)>>,
    pub(crate) timer_due: Vec<Time>,
    timer_count: u64,
    pub(crate) now: Time,
    pub(crate) start: Time,
    end: Time,
    next_sample: Time,
    next_window: Time,
    outcomes: Vec<(Outcome, Packet)>,
    pub(crate) output: Output,
    path_events: PendingEvents,
    /// Whether the controller of a flow knows more than a sender does.
    tells_losses: bool,
    packets: u64,
}

/// Builds applications that are not in the registry, such as those in Python, with their options. `None`: no such application.
pub type AppPlugins<'a> = dyn Fn(&AppSpec, Streams) -> Option<Ends> + 'a;

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
    ///
    /// # Errors
    /// [`SimError::App`]: an application asked for something impossible. The simulation cannot go on.
    pub fn run_until(&mut self, until: Nanos) -> Result<bool, SimError> {
        let until = (self.start + until).min(self.end);
        loop {
            let network = self.network.wake_at().unwrap_or(Time::MAX);
            let hosts = self.timer_at();
            let scheme = self.scheme_wake_at();
            let clock = self.pings.next.min(self.next_sample).min(self.next_window).min(scheme);
            let next = network.min(hosts).min(clock);
            if next > until {
                break;
            }
            self.now = next;
            if network == next {
                self.run_network().map_err(|error| *error)?;
            } else if hosts == next {
                self.run_host().map_err(|error| *error)?;
            } else if self.pings.next == next {
                self.send_pings();
            } else if scheme == next {
                self.send_parities();
                self.move_proxies().map_err(|error| *error)?;
            } else {
                self.record(next);
            }
        }
        self.now = until;
        Ok(until < self.end)
    }

    /// Let no packet pass links ahead of its time.
    #[cfg(test)]
    pub(crate) fn pass_one_hop_at_a_time(&mut self) {
        self.network.record_stages(); // stages have an order of time
    }

    /// Return when a recovery scheme that acts at the hosts or in proxies has work.
    fn scheme_wake_at(&self) -> Time {
        let coding = self.coding.as_ref().map_or(Time::MAX, |coding| coding.wake_at());
        coding.min(self.proxies.as_ref().map_or(Time::MAX, |proxies| proxies.wake_at()))
    }

    /// Fraction of the run that is done, 0 to 1.
    #[must_use]
    pub fn fraction(&self) -> f64 {
        self.now.since(self.start).as_secs_f64() / self.experiment.duration_ns.as_secs_f64()
    }

    /// Give the rows from now on to `sink`, too: the header and the flows now, the others as they occur. They do not change the Run.
    pub fn stream_to(&mut self, mut sink: Box<dyn RunSink + Send>) {
        self.experiment.announce("simulated", self.profiles.iter().map(AsRef::as_ref), self.start, sink.as_mut());
        self.output.sink = Some(sink);
    }

    /// Return the Run; it is complete once [`Simulation::run_until`] has returned false.
    #[must_use]
    pub fn finish(mut self) -> RunData {
        self.path_events.give(f64::INFINITY, &mut self.output);
        let tables = &mut self.output.tables;
        tables.events.sort();
        let facts: Vec<_> = self.flows.iter().map(|flow| flow.facts(self.open_connections(flow))).collect();
        let tables = &self.output.tables;
        let mut summary = Summary::of(&self.experiment, &facts, &tables.samples, self.start, self.end, self.packets);
        summary.pings = self.ping_summaries(&facts);
        let apps = AppSummary::of(&tables.applications, self.flows.len());
        summary.flows.iter_mut().zip(apps).for_each(|(flow, app)| flow.app = app);
        if let (Some(one_way), Some(recovery)) = (&self.one_way, &self.experiment.recovery) {
            for (number, flow) in summary.flows.iter_mut().enumerate() {
                [flow.owd_p50_ms, flow.owd_p99_ms] = one_way.percentiles_ms(number);
            }
            let overhead = self.overhead.iter().flat_map(|overhead| overhead.named());
            let overhead = overhead.map(|(name, value)| (name.to_owned(), value)).collect();
            summary.recovery = Some(RecoverySummary { scheme: recovery.scheme.clone(), overhead });
        }
        for index in self.flows.len()..self.connections.len() {
            self.record_transfer(index);
        }
        summary.cross = self.sources.into_iter().map(|source| source.finish(self.experiment.duration_ns)).collect();
        for path in 0..self.profiles.len() {
            summary.no_route.up += self.network.no_route_drops(path, Direction::Up);
            summary.no_route.down += self.network.no_route_drops(path, Direction::Down);
        }
        RunData { tables: self.output.tables, summary }
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

    /// Schedule the next timer of a connection, and of a flow whose first connection it is. A timer that fires too early is scheduled once more,
    /// which is cheaper than moving it at every ACK.
    pub(crate) fn schedule_timer(&mut self, index: usize) {
        let mut wake = self.flows.get(index).map_or(Time::MAX, |flow| flow.wake);
        if let Some(connection) = &self.connections[index] {
            for end in &connection.ends {
                if let Some(at) = end.wake_at() {
                    wake = wake.min(at);
                }
            }
            if let Some(at) = connection.proxies_wake_at(self.proxies.as_deref()) {
                wake = wake.min(at);
            }
        }
        if let Some(at) = self.quic.wake_at(index) {
            wake = wake.min(at);
        }
        self.wake_at(index, wake.max(self.now));
    }

    fn wake_at(&mut self, index: usize, wake: Time) {
        if wake < self.timer_due[index] {
            self.timer_due[index] = wake;
            self.timer_count += 1;
            self.timers.push(Reverse((wake, self.timer_count, index_u32(index))));
        }
    }

    fn run_host(&mut self) -> Result<(), Box<SimError>> {
        let Some(Reverse((at, _, index))) = self.timers.pop() else { return Ok(()) };
        let index = index as usize;
        self.timer_due[index] = Time::MAX;
        if let Some(source) = self.sources.iter().position(|source| source.next_connection == index) {
            self.connections[index] = Some(Box::new(self.sources[source].begin(source, at)?));
            self.schedule_transfer(source);
        }
        if index < self.flows.len() {
            self.run_timers(index, at)?;
        }
        self.wake_connection(index, at)?;
        self.schedule_timer(index);
        self.flush()
    }

    /// Reserve the connection of the source's next transfer, and wake it at the transfer's start.
    fn schedule_transfer(&mut self, source: usize) {
        if let Some(at) = self.sources[source].draw_next(self.connections.len()) {
            let index = self.add_slot();
            self.wake_at(index, at);
        }
    }

    /// Add a place for a connection, and return its number.
    pub(crate) fn add_slot(&mut self) -> usize {
        self.connections.push(None);
        self.timer_due.push(Time::MAX);
        self.connections.len() - 1
    }

    /// Add a transfer of cross traffic to its source's summary.
    pub(crate) fn record_transfer(&mut self, index: usize) {
        if let Some(connection) = &self.connections[index]
            && let Owner::Cross { source } = connection.owner
        {
            self.sources[source].record_transfer(connection);
        }
    }

    fn run_network(&mut self) -> Result<(), Box<SimError>> {
        let mut outcomes = std::mem::take(&mut self.outcomes);
        self.network.run_until(self.now, &mut outcomes);
        self.take_stopped(&mut outcomes)?;
        if !self.pings.is_empty() {
            self.take_pings(&mut outcomes);
        }
        let decoded = self.take_coded(&mut outcomes);
        if !self.datagrams.is_empty() {
            self.take_datagrams(&mut outcomes)?;
        }
        self.take_quic(&mut outcomes)?;
        if self.tells_losses {
            self.tell_losses(&outcomes);
        }
        if let Some(one_way) = &mut self.one_way {
            one_way.leave(&outcomes);
        }
        match outcomes.as_slice() {
            [] => {}
            [(outcome, packet)] => {
                let content = self.payloads.take(packet.body);
                if let (Outcome::Delivered, Some(packet_content)) = (outcome, content) {
                    self.packets += 1;
                    let arrival = Arrival { packet: packet_content, ce: packet.ecn == Ecn::Ce };
                    self.deliver(Receiving::of(packet), &[arrival], &[])?;
                }
            }
            several => {
                let mut batches = std::mem::take(&mut self.batches);
                batches.fill(several, &mut self.payloads);
                self.packets += batches.packets() as u64;
                for (at, batch, later) in batches.iter() {
                    self.deliver(at, batch, later)?;
                }
                self.batches = batches;
            }
        }
        outcomes.clear();
        self.outcomes = outcomes;
        self.deliver_decoded(decoded)
    }

    /// Let an endpoint process the packets that arrived, and send its answers.
    fn deliver(&mut self, at: Receiving, batch: &[Arrival<TcpPacket>], later: &[Arrival<TcpPacket>]) -> Result<(), Box<SimError>> {
        let index = at.connection as usize;
        let Some(connection) = self.connections[index].as_mut() else { return Ok(()) };
        let end = usize::from(at.is_up == (connection.direction == Direction::Up));
        let transport = &mut connection.ends[end];
        transport.on_packets(self.now, batch, later);
        let has_event = connection.streams[end].has_event(transport);
        if transport.may_transmit() {
            self.transmit(index, end);
        }
        // The other end's timers are as they were.
        if let Some(at) = self.connections[index].as_ref().and_then(|connection| connection.ends[end].wake_at()) {
            self.wake_at(index, at.max(self.now));
        }
        if has_event {
            self.run_events(index, end)?;
            self.flush()?;
        }
        if self.flows.get(index).is_none_or(|flow| flow.opened > 1) {
            self.complete(index);
        }
        Ok(())
    }

    /// Note the completion of a transfer of cross traffic, and remove a connection that is over.
    fn complete(&mut self, index: usize) {
        let now = self.now;
        if let Some(connection) = &mut self.connections[index]
            && connection.completed.is_none()
            && connection.ends[1].is_closed()
        {
            connection.completed = Some(now);
        }
        self.remove_if_over(index);
    }

    /// Send everything that an end of a connection may send now, and record its events.
    pub(crate) fn transmit(&mut self, index: usize, end: usize) {
        let now = self.now;
        let Some(connection) = self.connections[index].as_mut() else { return };
        let direction = if end == 0 { connection.direction } else { connection.direction.reverse() };
        let transport = &mut connection.ends[end];
        while let Some(content) = transport.poll_transmit(now) {
            let (bytes, ecn) = (content.wire_bytes(), if content.is_ecn_capable() { Ecn::Ect } else { Ecn::NotEct });
            let body = self.payloads.put(content);
            if let (Some(one_way), Owner::Flow { flow, .. }) = (&mut self.one_way, connection.owner)
                && direction == self.flows[flow].direction()
            {
                one_way.send(flow, index_u32(index), &content, body, now);
            }
            let packet = Packet::new(now, connection.path, direction, connection.counted_as, bytes, body);
            let mut packet = Packet { ecn, flow_hash: index_u32(index), ..packet };
            if let (Some(coding), Owner::Flow { flow, .. }) = (&mut self.coding, connection.owner) {
                coding.label_tcp(flow, direction == self.flows[flow].direction(), &mut packet, index_u32(index), content);
            }
            if let Err(packet) = self.network.send(packet) {
                self.payloads.take(body);
                if let Some(one_way) = &mut self.one_way {
                    one_way.forget(body);
                }
                if let Some(coding) = &mut self.coding {
                    coding.forget(&packet);
                }
            }
        }
        let is_observed = transport.is_observed();
        if is_observed && let Owner::Flow { flow, .. } = connection.owner {
            let rtts = &mut self.flows[flow].rtts;
            transport.rtt_samples().for_each(|rtt| rtts.record(rtt));
            while let Some((at, event)) = transport.next_event() {
                let (t_s, detail) = (at.since(self.start).as_secs_f64(), event.detail());
                self.output.row(&Row::Event(EventRow { t_s, flow: index_i64(flow), kind: event.kind(), detail: &detail }));
            }
        }
        if self.coding.is_some() {
            self.send_parities();
        }
    }

    /// The figures of a flow's connections that are not over, in the order in which they were opened.
    fn open_connections(&self, flow: &Flow) -> impl Iterator<Item = DataEnds> {
        flow.connections.iter().filter_map(|&index| {
            let tcp = self.connections[index as usize].as_deref().map(Connection::data_ends);
            tcp.or_else(|| self.quic.open.get(&(index as usize)).map(|connection| connection.data_ends()))
        })
    }

    fn record(&mut self, at: Time) {
        self.path_events.give(at.since(self.start).as_secs_f64(), &mut self.output);
        if at == self.next_sample {
            self.sample(at.since(self.start).as_secs_f64());
            self.next_sample = at + self.experiment.sample_step_ns;
        }
        if at == self.next_window {
            self.window(at);
            self.next_window = at + LINK_WINDOW;
            self.network.look_ahead_to(self.next_window.min(self.end));
        }
    }

    fn sample(&mut self, t_s: f64) {
        let ms = |span: Option<Nanos>| span.map_or(f64::NAN, Nanos::as_millis_f64);
        for (index, flow) in self.flows.iter().enumerate().filter(|(_, flow)| flow.is_started) {
            let (totals, stats) = flow.totals(self.open_connections(flow));
            let FlowTotals { delivered, retransmits, losses, echoed_marks, limited, .. } = totals;
            let known = stats.as_ref();
            let row = SampleRow {
                t_s,
                flow: index as u64,
                goodput_bytes: delivered,
                rtt_latest_ms: ms(known.and_then(|stats| stats.rtt_latest)),
                rtt_smoothed_ms: ms(known.and_then(|stats| stats.srtt)),
                rtt_min_ms: ms(known.and_then(|stats| stats.min_rtt)),
                rtt_var_ms: ms(known.and_then(|stats| stats.rtt_var)),
                cwnd_bytes: known.map_or(0, |stats| stats.cwnd.0),
                inflight_bytes: known.map_or(0, |stats| stats.in_flight.0),
                pacing_bps: known.and_then(|stats| stats.pacing_rate).map_or(f64::NAN, |r| r.0 as f64),
                delivery_bps: known.and_then(|stats| stats.delivery_rate).map_or(f64::NAN, |r| r.0 as f64),
                retransmits,
                losses,
                marks: echoed_marks,
                state: known.map_or(RecoveryState::Open, |stats| stats.state).name(),
                cwnd_limited_s: limited[0].as_secs_f64(),
                receiver_limited_s: limited[1].as_secs_f64(),
                sender_limited_s: limited[2].as_secs_f64(),
            };
            self.output.row(&Row::Sample(row));
        }
    }

    fn window(&mut self, at: Time) {
        let t_s = at.since(self.start).as_secs_f64();
        for (path, profile) in self.profiles.iter().enumerate() {
            let role = &self.experiment.profiles[path].role;
            record_window(&mut self.network, path, profile, role, at, t_s, &mut self.output);
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
