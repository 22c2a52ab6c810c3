//! A connection over several paths: one TCP subflow on each, a scheduler at the sender, and a receiver that delivers in the connection's order (MPTCP, RFC 8684).
//!
//! | module | holds |
//! |---|---|
//! | [`spec`] | what a run consists of |
//! | [`schedulers`] | which subflow carries the next data |
//! | [`outlook`] | what a scheduler knows of a path to come |
//! | `connection` | the sender: what is written, sent and acknowledged; retransmission on another subflow |
//! | `reassembly` | which bytes a subflow carries, and the order of the data |
//!
//! The Profiles are the paths of one network, so one clock drives all. Subflows are complete TCP connections with a controller each (uncoupled). As in MPTCP, segments
//! have an option with the mapping, every packet to the sender acknowledges the connection's data, and new data leaves within the connection's receive window.
//! All subflows open at the start; keys, tokens and path management are not modelled.

mod connection;
pub mod outlook;
mod reassembly;
pub mod schedulers;
pub mod spec;
#[cfg(test)]
mod tests;

pub use spec::MultipathSpec;

use self::connection::Connection;
use self::reassembly::{Mappings, Reassembly};
use self::schedulers::{Choice, MSS, Scheduler, View, scheduler};
use crate::batches::Batches;
use crate::error::SimError;
use crate::payloads::Payloads;
use bentpipe_cc::controllers::Controllers;
use bentpipe_cc::hints::Facts;
use bentpipe_link::{Ecn, Network, Outcome, Packet};
use bentpipe_profile::experiment::HostTiming;
use bentpipe_profile::options::OptionValues;
use bentpipe_profile::{Bytes, Direction, EventKind, Nanos, NetworkSpec, Profile, Streams, Time};
use bentpipe_transport::host_timing::DrawnTimes;
use bentpipe_transport::{Endpoint, Receiver, ReceiverConfig, Sender, SenderConfig, Tcp, TcpPacket};
use std::collections::VecDeque;
use std::sync::Arc;

/// Options of MPTCP on a segment: a mapping with a checksum-free 64-bit sequence number and an acknowledgement of 32 bits (RFC 8684 §3.3).
const SEGMENT_OPTION: u32 = 20;
/// The same on an acknowledgement: 64 bits.
const ACK_OPTION: u32 = 12;
/// A buffer that never limits.
const ANY: Bytes = Bytes(1 << 40);
/// Time between samples.
const SAMPLE: Nanos = Nanos::from_millis(100);

/// A subflow.
struct Subflow {
    /// The sender's end and the receiver's.
    ends: [Tcp; 2],
    mappings: Mappings,
    /// Its send buffer if it grew as Linux's does (`tcp_sndbuf_expand`): twice the largest window so far.
    send_buffer: Bytes,
}

impl Subflow {
    fn view(&mut self) -> Option<View> {
        let host = SenderConfig::default();
        let occupancy = self.ends[0].occupancy()?;
        let packets = (occupancy.cwnd.0 / u64::from(MSS)).max(u64::from(host.initial_window));
        self.send_buffer = self.send_buffer.max(Bytes(2 * packets * host.wmem_segment.0).min(host.wmem_max));
        let is_buffer_full = occupancy.outstanding >= self.send_buffer;
        Some(View { occupancy, is_buffer_full, is_established: self.ends[0].is_established() })
    }
}

/// Totals of a subflow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SubflowTotals {
    /// Payload acknowledged.
    pub acked: Bytes,
    /// Segments sent, retransmissions included.
    pub segments: u64,
    /// Segments retransmitted on it.
    pub retransmits: u64,
    /// Retransmission time-outs.
    pub timeouts: u64,
    /// Bytes of the connection that it carries although another did before.
    pub reinjected: Bytes,
}

/// A finished run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MultipathData {
    /// When the last byte of each write had arrived in order, since the start of the run; `None`: it had not at the end.
    pub completed: Vec<Option<Nanos>>,
    /// Each 100 ms: the connection's bytes delivered in order, and those of each subflow that are acknowledged.
    pub delivered: Vec<(Bytes, Vec<Bytes>)>,
    /// Of each subflow.
    pub subflows: Vec<SubflowTotals>,
    /// Most bytes that waited at the receiver for earlier ones.
    pub peak_reordering: Bytes,
}

/// A multipath run in progress.
struct Multipath {
    direction: Direction,
    start: Time,
    end: Time,
    now: Time,
    network: Network,
    subflows: Vec<Subflow>,
    scheduler: Box<dyn Scheduler>,
    connection: Connection,
    reassembly: Reassembly,
    payloads: Payloads<TcpPacket>,
    /// The connection's data that each packet to the sender acknowledges, by its handle.
    data_acks: Vec<u64>,
    batches: Batches,
    writes: VecDeque<(Time, Bytes)>,
    /// Ends of the writes that have not arrived, with their numbers.
    awaited: VecDeque<(u64, usize)>,
    /// When the scheduler chooses again although nothing has changed.
    choose_at: Time,
    next_sample: Time,
    data: MultipathData,
}

/// Simulate a multipath run on these Profiles, which are its paths.
///
/// # Errors
/// A field out of range, an unknown controller, or any error of [`Network::new`].
pub fn simulate(spec: MultipathSpec, profiles: &[Arc<Profile>]) -> Result<MultipathData, SimError> {
    let shortest = profiles.iter().map(|profile| profile.duration()).min().unwrap_or_default();
    spec.check(profiles.len(), shortest)?;
    let streams = Streams::new(spec.seed);
    let refs: Vec<&Profile> = profiles.iter().map(AsRef::as_ref).collect();
    let mut network = Network::new(&NetworkSpec::from_profiles(&refs)?, streams)?;
    network.run_until(spec.start_ns, &mut Vec::new()); // apply routes and events from before the run
    let subflows = (0..).zip(profiles).map(|(path, profile)| subflow(&spec, streams, path, profile)).collect::<Result<Vec<_>, _>>()?;
    let mut connection = Connection::new(spec.receive_buffer_bytes);
    if spec.writes.is_empty() {
        connection.write(Bytes::MAX);
    }
    let outlooks = spec.outlooks.into_iter().map(|outlook| outlook.unwrap_or_default().into()).collect();
    let mut run = Multipath {
        direction: spec.direction,
        start: spec.start_ns,
        end: spec.start_ns + spec.duration_ns,
        now: spec.start_ns,
        network,
        data: MultipathData {
            completed: vec![None; spec.writes.len()],
            subflows: vec![SubflowTotals::default(); subflows.len()],
            ..MultipathData::default()
        },
        subflows,
        scheduler: scheduler(spec.scheduler, outlooks),
        connection,
        reassembly: Reassembly::default(),
        payloads: Payloads::default(),
        data_acks: Vec::new(),
        batches: Batches::default(),
        writes: spec.writes.iter().map(|write| (spec.start_ns + write.at_ns, write.bytes)).collect(),
        awaited: VecDeque::new(),
        choose_at: Time::MAX,
        next_sample: spec.start_ns + SAMPLE,
    };
    run.run();
    Ok(run.finish())
}

/// Make the subflow on path number `path`. Its hosts are those of a Run with defaults, without Nagle's algorithm.
fn subflow(spec: &MultipathSpec, streams: Streams, path: u32, profile: &Profile) -> Result<Subflow, SimError> {
    let own = streams.child(&format!("subflow/{path}"));
    let times = |streams| DrawnTimes::of(HostTiming::default(), streams);
    // The scheduler limits what is outstanding, not the subflow's buffer.
    let config =
        SenderConfig { mss: MSS, nagle: false, host_times: times(own), wmem_initial: ANY, wmem_max: ANY, ..SenderConfig::default() };
    let handovers = profile.events().iter().filter(|event| matches!(event.kind, EventKind::Handover { .. }));
    let facts = || Facts { reconfigurations: handovers.map(|event| event.at_ns).collect(), start_unix_ns: profile.start().0 };
    let built = Controllers::default().build(&spec.controller, &OptionValues::default(), &config.controller_config(own), facts)?;
    let receiver = |streams| {
        let rmem_max = Bytes(2 * spec.receive_buffer_bytes.0); // the connection's window limits, as in Linux
        Receiver::new(ReceiverConfig { mss: MSS, rmem_max, host_times: times(streams), ..ReceiverConfig::default() })
    };
    let mut sending = Tcp::opening(Sender::new(config, built.start()), receiver(own.child("back")));
    sending.open(spec.start_ns);
    Ok(Subflow { ends: [sending, Tcp::accepting(receiver(own))], mappings: Mappings::default(), send_buffer: Bytes::ZERO })
}

impl Multipath {
    fn run(&mut self) {
        for i in 0..self.subflows.len() {
            self.transmit(i, 0); // the SYNs
        }
        loop {
            let network = self.network.wake_at().unwrap_or(Time::MAX);
            let hosts = self.hosts_wake_at();
            let clock = self.next_sample.min(self.choose_at).min(self.connection.retransmit_at());
            let writes = self.writes.front().map_or(Time::MAX, |write| write.0);
            let next = network.min(hosts).min(clock).min(writes);
            if next > self.end {
                return;
            }
            self.now = next;
            if network == next {
                self.run_network();
            } else if hosts == next {
                self.run_hosts();
            } else if self.next_sample == next {
                self.sample();
                continue;
            } else if writes == next
                && let Some((_, bytes)) = self.writes.pop_front()
            {
                let number = self.data.completed.len() - self.writes.len() - 1;
                let end = self.connection.write(bytes);
                self.awaited.push_back((end, number));
            } else if self.connection.retransmit_at() == next {
                self.reinject();
            }
            self.send();
        }
    }

    fn hosts_wake_at(&self) -> Time {
        let ends = self.subflows.iter().flat_map(|subflow| &subflow.ends);
        ends.filter_map(Endpoint::wake_at).min().map_or(Time::MAX, |at| at.max(self.now))
    }

    fn run_hosts(&mut self) {
        let now = self.now;
        for i in 0..self.subflows.len() {
            for end in 0..2 {
                let tcp = &mut self.subflows[i].ends[end];
                if tcp.wake_at().is_some_and(|at| at <= now) {
                    tcp.on_wake(now);
                    self.transmit(i, end);
                }
            }
        }
    }

    fn run_network(&mut self) {
        let mut outcomes: Vec<(Outcome, Packet)> = Vec::new();
        self.network.run_until(self.now, &mut outcomes);
        let backwards = self.direction.reverse();
        let acks = outcomes.iter().filter(|(outcome, packet)| *outcome == Outcome::Delivered && packet.direction == backwards);
        let acked = acks.map(|(_, packet)| self.data_acks[packet.body as usize]).max().unwrap_or(0);
        let rto = self.longest_rto();
        self.connection.on_ack(self.now, acked, rto);
        let mut batches = std::mem::take(&mut self.batches);
        batches.fill(&outcomes, &mut self.payloads);
        for (at, batch, later) in batches.iter() {
            let (i, end) = (at.connection as usize, usize::from(at.is_up == (self.direction == Direction::Up)));
            self.subflows[i].ends[end].on_packets(self.now, batch, later);
            if end == 1 {
                self.receive(i);
            }
            self.transmit(i, end);
        }
        self.batches = batches;
    }

    /// Deliver what has arrived on a subflow, in the connection's order.
    fn receive(&mut self, i: usize) {
        let subflow = &mut self.subflows[i];
        for range in subflow.mappings.take_until(subflow.ends[1].delivered().0) {
            self.reassembly.insert(range);
        }
        while let Some(&(end, number)) = self.awaited.front()
            && end <= self.reassembly.delivered()
        {
            self.awaited.pop_front();
            self.data.completed[number] = Some(self.now.since(self.start));
        }
    }

    /// Send everything that an end may send now.
    fn transmit(&mut self, i: usize, end: usize) {
        let (now, direction) = (self.now, if end == 0 { self.direction } else { self.direction.reverse() });
        while let Some(content) = self.subflows[i].ends[end].poll_transmit(now) {
            let option = if matches!(content, TcpPacket::Segment(..)) { SEGMENT_OPTION } else { ACK_OPTION };
            let (bytes, ecn) = (content.wire_bytes() + option, if content.is_ecn_capable() { Ecn::Ect } else { Ecn::NotEct });
            let body = self.payloads.put(content);
            if body as usize >= self.data_acks.len() {
                self.data_acks.resize(body as usize + 1, 0);
            }
            self.data_acks[body as usize] = self.reassembly.delivered();
            let path = u32::try_from(i).unwrap_or(u32::MAX);
            if self.network.send(Packet { ecn, ..Packet::new(now, path, direction, path, bytes, body) }).is_err() {
                self.payloads.take(body);
            }
        }
    }

    fn views(&mut self) -> Vec<View> {
        self.subflows.iter_mut().filter_map(Subflow::view).collect()
    }

    /// Let the scheduler place what may be sent.
    fn send(&mut self) {
        self.choose_at = Time::MAX;
        loop {
            let backlog = self.connection.backlog();
            if backlog == Bytes::ZERO {
                return;
            }
            let views = self.views();
            match self.scheduler.choose(self.now, &views, backlog) {
                Choice::Wait(at) => {
                    self.choose_at = if at > self.now { at } else { Time::MAX };
                    return;
                }
                Choice::Send(i, most) => {
                    let rto = self.longest_rto();
                    let Some(range) = self.connection.take(self.now, most, rto) else { return };
                    self.place(i, range);
                }
            }
        }
    }

    /// Put bytes of the connection on a subflow.
    fn place(&mut self, i: usize, range: (u64, u64)) {
        let subflow = &mut self.subflows[i];
        subflow.mappings.push(range);
        subflow.ends[0].write(self.now, Bytes(range.1 - range.0));
        self.transmit(i, 0);
    }

    /// Retransmit the first unacknowledged data on a subflow that has nothing outstanding, if there is one (`mptcp_subflow_get_retrans`).
    fn reinject(&mut self) {
        let views = self.views();
        let idle = |view: &View| view.is_established && view.occupancy.outstanding == Bytes::ZERO;
        if let Some(i) = views.iter().position(idle) {
            let range = self.connection.first_unacked();
            self.data.subflows[i].reinjected += Bytes(range.1 - range.0);
            self.place(i, range);
        }
        let rto = self.longest_rto();
        self.connection.restart_timer(self.now, rto);
    }

    /// The longest time-out of the subflows that have data outstanding.
    fn longest_rto(&self) -> Nanos {
        let full = self.subflows.iter().filter_map(|subflow| subflow.ends[0].occupancy()).filter(|own| own.outstanding > Bytes::ZERO);
        full.map(|own| own.rto).max().unwrap_or(connection::RTO)
    }

    fn sample(&mut self) {
        let acked = self.subflows.iter().map(|subflow| subflow.ends[0].acked()).collect();
        self.data.delivered.push((Bytes(self.reassembly.delivered()), acked));
        self.next_sample = self.now + SAMPLE;
    }

    fn finish(mut self) -> MultipathData {
        for (totals, subflow) in self.data.subflows.iter_mut().zip(&self.subflows) {
            if let Some(stats) = subflow.ends[0].stats() {
                (totals.acked, totals.segments) = (stats.acked, stats.segments_sent);
                (totals.retransmits, totals.timeouts) = (stats.retransmits, stats.timeouts);
            }
        }
        self.data.peak_reordering = Bytes(self.reassembly.peak_waiting());
        self.data
    }
}
