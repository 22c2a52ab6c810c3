//! Samples of every TCP flow from the kernel's socket tables, as rows of the Run's `samples` table: open sockets at each sample, closed ones at the
//! next sample.

use crate::close_events::CloseEvents;
use crate::connections::Connections;
use crate::diag::{Diag, ListeningSockets, TcpState};
use crate::endpoint::{Endpoint, carried_nothing};
use crate::error::EmuError;
use crate::grouping::Grouping;
use crate::header::FlowKey;
use crate::header::TCP;
use bentpipe_profile::Direction;
use bentpipe_profile::run::{CA_STATES, FlowRow, Row, RunSink, SampleRow};
use std::collections::BTreeMap;

/// Controller name of a flow that closed before it was sampled: a close event does not include it.
const UNKNOWN_CONTROLLER: &str = "unknown";

/// Samples for which a close event waits for its flow's number; after them it belongs to no flow on the path.
const MAX_ATTEMPTS: u8 = 2;

/// A TCP flow at its last sample.
#[derive(Clone, Debug)]
pub struct ObservedFlow {
    /// Its endpoints.
    pub key: FlowKey,
    /// Direction of most of its data.
    pub direction: Direction,
    /// Congestion controller of the data's sender.
    pub controller: String,
    /// When it was first sampled [s].
    pub first_s: f64,
    /// In-order bytes at the receiver.
    pub delivered_bytes: u64,
    /// Segments retransmitted.
    pub retransmits: u64,
    /// CE marks echoed so far.
    pub marks: u64,
}

/// A flow's connections, and whether anything changed since its last row.
#[derive(Default)]
struct Flow {
    connections: Connections,
    is_updated: bool,
}

/// A close event whose flow is still unknown.
struct PendingClose {
    end: usize,
    state: TcpState,
    attempts: u8,
}

/// Samples the sockets of both namespaces.
pub struct Sampler {
    ends: [Diag; 2],
    /// `Err`: why this kernel sends no close events.
    closes: Result<[CloseEvents; 2], String>,
    grouping: Grouping,
    numbers: BTreeMap<FlowKey, u32>,
    /// Flow at the client by flow at the server's kernel, behind the gateway.
    client_by_server: BTreeMap<FlowKey, FlowKey>,
    /// The reverse map.
    server_by_client: BTreeMap<FlowKey, FlowKey>,
    flows: BTreeMap<FlowKey, Flow>,
    pending: Vec<PendingClose>,
    observed: BTreeMap<u32, ObservedFlow>,
    /// Role of the path; `None`: the flows are announced already.
    role: Option<String>,
}

impl Sampler {
    /// Creates a sampler of the client's and the server's socket tables and close events. It announces the flows on the path `role` as they
    /// appear; `None`: they are an Experiment's and announced already.
    #[must_use]
    pub fn new(ends: [Diag; 2], closes: Result<[CloseEvents; 2], EmuError>, grouping: Grouping, role: Option<String>) -> Self {
        Self {
            ends,
            closes: closes.map_err(|e| e.to_string()),
            grouping,
            numbers: BTreeMap::new(),
            client_by_server: BTreeMap::new(),
            server_by_client: BTreeMap::new(),
            flows: BTreeMap::new(),
            pending: Vec::new(),
            observed: BTreeMap::new(),
            role,
        }
    }

    /// Adds a flow with its number in the rows.
    pub fn add_flow(&mut self, key: FlowKey, number: u32) {
        if key.protocol == TCP {
            self.numbers.insert(key, number);
        }
    }

    /// Records that the server's kernel sees the flow `client` as `server`, behind the gateway.
    pub fn add_alias(&mut self, client: FlowKey, server: FlowKey) {
        // A later connection may reuse the client's endpoint, which voids the earlier alias. So there are never more aliases than flows.
        if self.numbers.contains_key(&client) {
            if let Some(before) = self.server_by_client.insert(client, server)
                && self.client_by_server.get(&before) == Some(&client)
            {
                self.client_by_server.remove(&before);
            }
            self.client_by_server.insert(server, client);
        }
    }

    /// Flows by number, at their last sample.
    #[must_use]
    pub const fn observed(&self) -> &BTreeMap<u32, ObservedFlow> {
        &self.observed
    }

    /// Whether a flow's byte counters are final or current: its close event arrived, or it is open.
    #[must_use]
    pub fn is_complete(&self, key: FlowKey) -> bool {
        self.flows.get(&key).is_some_and(|flow| flow.connections.endpoints().any(Endpoint::has_current_counters))
    }

    /// Whether a flow is over: an endpoint of it is closed, and was not reopened.
    #[must_use]
    pub fn is_over(&self, key: FlowKey) -> bool {
        self.flows.get(&key).is_some_and(|flow| flow.connections.endpoints().any(Endpoint::is_closed))
    }

    /// TCP flows without a sample that may have carried data. If no close event was lost, flows without a sample carried none: they were refused or
    /// never answered.
    #[must_use]
    pub fn flows_without_samples(&self) -> usize {
        if self.closes_missed() == (0, None) { 0 } else { self.unsampled() }
    }

    fn unsampled(&self) -> usize {
        self.numbers.values().filter(|&number| !self.observed.contains_key(number)).count()
    }

    /// How often close events were lost, and why the kernel sends none, if so.
    #[must_use]
    pub fn closes_missed(&self) -> (u64, Option<&str>) {
        match &self.closes {
            Ok(ends) => (ends.iter().map(CloseEvents::missed).sum(), None),
            Err(why) => (0, Some(why)),
        }
    }

    /// Socket records that could not be parsed.
    #[must_use]
    pub fn unreadable(&self) -> u64 {
        self.ends.iter().map(Diag::unreadable).sum()
    }

    /// Whether all close events have arrived: every closed socket has one, and no flow lacks a sample.
    #[must_use]
    pub fn has_all_closes(&self) -> bool {
        let is_pending = |flow: &Flow| flow.connections.endpoints().any(Endpoint::is_missing_close);
        self.closes.is_err() || (self.unsampled() == 0 && !self.flows.values().any(is_pending))
    }

    /// Listening sockets of the server's namespace.
    ///
    /// # Errors
    /// [`EmuError::System`].
    pub fn listening_sockets(&mut self) -> Result<ListeningSockets, EmuError> {
        self.ends[1].listening_sockets()
    }

    /// Gives one row at `t_s` for each numbered flow that is open, or has closed since the last sample.
    ///
    /// # Errors
    /// [`EmuError::System`].
    pub fn sample(&mut self, t_s: f64, sink: &mut dyn RunSink) -> Result<(), EmuError> {
        // Close events first: a socket in the table after them is open, or its event is still to come.
        self.read_close_events(t_s)?;
        for flow in self.flows.values_mut() {
            flow.connections.mark_unseen();
        }
        for end in 0..2 {
            for state in self.ends[end].connections()? {
                let Some((key, connection)) = self.flow_of(end, &state) else { continue };
                let flow = self.flows.entry(key).or_default();
                flow.connections.endpoint(connection, end, t_s).record_open(state);
                flow.is_updated = true;
            }
        }
        self.give_rows(t_s, sink);
        Ok(())
    }

    /// Gives one row at `t_s` for each flow that has closed since the last sample.
    ///
    /// # Errors
    /// [`EmuError::System`].
    pub fn sample_closed(&mut self, t_s: f64, sink: &mut dyn RunSink) -> Result<(), EmuError> {
        self.read_close_events(t_s)?;
        self.give_rows(t_s, sink);
        Ok(())
    }

    fn read_close_events(&mut self, t_s: f64) -> Result<(), EmuError> {
        let mut closed = std::mem::take(&mut self.pending);
        if let Ok(ends) = &mut self.closes {
            for (end, closes) in ends.iter_mut().enumerate() {
                closes.drain(|state| closed.push(PendingClose { end, state, attempts: 0 }))?;
            }
        }
        for mut pending in closed {
            let Some((key, connection)) = self.flow_of(pending.end, &pending.state) else {
                pending.attempts += 1;
                if pending.attempts < MAX_ATTEMPTS {
                    self.pending.push(pending);
                }
                continue;
            };
            let is_known =
                self.flows.get(&key).is_some_and(|flow| flow.connections.is_same_socket(connection, pending.end, &pending.state));
            if carried_nothing(&pending.state.info) && !is_known {
                continue;
            }
            let flow = self.flows.entry(key).or_default();
            flow.connections.endpoint(connection, pending.end, t_s).record_close(pending.state);
            flow.is_updated = true;
        }
        Ok(())
    }

    /// The flow that a socket at `end` belongs to, and its connection.
    fn flow_of(&self, end: usize, state: &TcpState) -> Option<(FlowKey, FlowKey)> {
        let (client, server) = if end == 0 { (state.local, state.remote) } else { (state.remote, state.local) };
        let mut key = FlowKey { client, server, protocol: TCP };
        if end == 1 {
            key = self.client_by_server.get(&key).copied().unwrap_or(key);
        }
        Some((self.grouping.flow(key), key)).filter(|(flow, _)| self.numbers.contains_key(flow))
    }

    fn give_rows(&mut self, t_s: f64, sink: &mut dyn RunSink) {
        let (numbers, observed) = (&self.numbers, &mut self.observed);
        for (key, flow) in self.flows.iter_mut().filter(|(_, flow)| flow.is_updated) {
            flow.is_updated = false;
            if let Some(&number) = numbers.get(key) {
                let raced = self.grouping.direction(key);
                give_row(observed, (number, *key), &flow.connections, raced, t_s, self.role.as_deref(), sink);
                flow.connections.forget_past(t_s);
            }
        }
    }
}

fn give_row(
    flows: &mut BTreeMap<u32, ObservedFlow>,
    (number, key): (u32, FlowKey),
    connections: &Connections,
    raced: Option<Direction>,
    t_s: f64,
    role: Option<&str>,
    sink: &mut dyn RunSink,
) {
    let totals = connections.totals();
    // A race says in which direction the data go. Of other flows it is that of most bytes: where one endpoint is outside the emulation, or gone,
    // the other counts both.
    let [up, down] = [totals[0].acked.max(totals[1].received), totals[1].acked.max(totals[0].received)];
    let direction = raced.unwrap_or(if up >= down { Direction::Up } else { Direction::Down });
    let Some(sender) = connections.sender(direction) else { return };
    let (info, sent) = (&sender.info, &totals[direction as usize]);
    let delivered = connections.delivered(direction);
    let controller = sender.controller.as_deref().unwrap_or(UNKNOWN_CONTROLLER);
    let is_announced = flows.get(&number).is_some_and(|seen| seen.direction == direction && seen.controller == controller);
    let seen = flows.entry(number).or_insert_with(|| ObservedFlow {
        key,
        direction,
        controller: String::new(),
        first_s: t_s,
        delivered_bytes: 0,
        retransmits: 0,
        marks: 0,
    });
    if let (false, Some(profile)) = (is_announced, role) {
        sink.row(&Row::Flow(FlowRow { flow: u64::from(number), profile, direction: direction.name(), controller, start_s: seen.first_s }));
    }
    controller.clone_into(&mut seen.controller);
    // Without the receiver only the sender's count remains, which is half an RTT behind.
    let delivered = if seen.direction == direction { delivered.max(seen.delivered_bytes) } else { delivered };
    seen.delivered_bytes = delivered;
    seen.direction = direction;
    seen.retransmits = sent.retransmits;
    seen.marks = sent.marks;
    sink.row(&Row::Sample(SampleRow {
        t_s,
        flow: u64::from(number),
        goodput_bytes: delivered,
        rtt_latest_ms: f64::NAN, // the kernel stores only the smoothed RTT
        rtt_smoothed_ms: f64::from(info.rtt) / 1e3,
        rtt_min_ms: if info.min_rtt == u32::MAX { f64::NAN } else { f64::from(info.min_rtt) / 1e3 },
        rtt_var_ms: f64::from(info.rttvar) / 1e3,
        cwnd_bytes: sender.cwnd_bytes,
        inflight_bytes: sender.inflight_bytes,
        pacing_bps: sender.pacing.map_or(f64::NAN, |rate| rate as f64 * 8.0),
        delivery_bps: sender.delivery.map_or(f64::NAN, |rate| rate as f64 * 8.0),
        retransmits: sent.retransmits,
        losses: 0, // the kernel does not count them: written as unknown
        marks: sent.marks,
        state: ca_state(info.ca_state),
        cwnd_limited_s: (sent.busy_s - sent.receiver_limited_s - sent.buffer_limited_s).max(0.0),
        receiver_limited_s: sent.receiver_limited_s,
        sender_limited_s: (t_s - seen.first_s - sent.busy_s).max(0.0) + sent.buffer_limited_s,
    }));
}

/// `tcpi_ca_state` by its name in the samples table.
fn ca_state(number: u8) -> &'static str {
    CA_STATES.get(usize::from(number)).copied().unwrap_or("unknown")
}
