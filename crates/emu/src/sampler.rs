//! The kernel's view of every TCP flow as rows of the Run's `samples` table: what lives, at each look; what closed, at the look after.

use crate::close_events::CloseEvents;
use crate::diag::{Diag, ListeningSockets, TcpState};
use crate::endpoint::{Endpoint, carried_nothing};
use crate::error::EmuError;
use crate::flows::FlowKey;
use crate::gateway::rewrite::TCP;
use bentpipe_profile::Direction;
use bentpipe_profile::run::{CA_STATES, Samples};
use std::collections::BTreeMap;

/// What a flow's controller is called that closed before the sampler saw it: a close does not tell.
const UNKNOWN_CONTROLLER: &str = "unknown";

/// Looks that a close waits for the relay to tell of its flow; after them it is of no flow on the path.
const MAX_ATTEMPTS: u8 = 2;

/// A TCP flow, as last seen.
#[derive(Clone, Debug)]
pub struct ObservedFlow {
    /// Its ends.
    pub key: FlowKey,
    /// The way most of its data goes.
    pub direction: Direction,
    /// Controller of the data's sender.
    pub controller: String,
    /// When it was first sampled [s].
    pub first_s: f64,
    /// In-order bytes at the receiver.
    pub delivered_bytes: u64,
    /// Segments retransmitted.
    pub retransmits: u64,
    /// Marks echoed so far.
    pub marks: u64,
}

/// What a flow's sockets have come to, and whether anything is new since its last row.
#[derive(Default)]
struct Flow {
    ends: [Endpoint; 2],
    is_updated: bool,
}

/// A close that no flow is known for yet.
struct PendingClose {
    end: usize,
    state: TcpState,
    attempts: u8,
}

/// Looks at both namespaces' sockets.
pub struct Sampler {
    ends: [Diag; 2],
    /// `Err`: why this kernel does not tell.
    closes: Result<[CloseEvents; 2], String>,
    numbers: BTreeMap<FlowKey, u32>,
    /// What the server's kernel takes for another flow.
    client_by_server: BTreeMap<FlowKey, FlowKey>,
    /// The same the other way.
    server_by_client: BTreeMap<FlowKey, FlowKey>,
    flows: BTreeMap<FlowKey, Flow>,
    pending: Vec<PendingClose>,
    observed: BTreeMap<u32, ObservedFlow>,
}

impl Sampler {
    /// Over the client's and the server's socket tables and closes.
    #[must_use]
    pub fn new(ends: [Diag; 2], closes: Result<[CloseEvents; 2], EmuError>) -> Self {
        Self {
            ends,
            closes: closes.map_err(|e| e.to_string()),
            numbers: BTreeMap::new(),
            client_by_server: BTreeMap::new(),
            server_by_client: BTreeMap::new(),
            flows: BTreeMap::new(),
            pending: Vec::new(),
            observed: BTreeMap::new(),
        }
    }

    /// The relay's number of a flow.
    pub fn add_flow(&mut self, key: FlowKey, number: u32) {
        if key.protocol == TCP {
            self.numbers.insert(key, number);
        }
    }

    /// The server's kernel sees `client` as `server`: the gateway stands between.
    pub fn add_alias(&mut self, client: FlowKey, server: FlowKey) {
        // A client's end is used anew by later connections: what the server had for the earlier one is void. So there are never more than flows.
        if self.numbers.contains_key(&client) {
            if let Some(before) = self.server_by_client.insert(client, server)
                && self.client_by_server.get(&before) == Some(&client)
            {
                self.client_by_server.remove(&before);
            }
            self.client_by_server.insert(server, client);
        }
    }

    /// Flows by number, as last seen.
    #[must_use]
    pub const fn observed(&self) -> &BTreeMap<u32, ObservedFlow> {
        &self.observed
    }

    /// Whether a flow's bytes are those at its end, or now: the kernel told of its close, or it lives.
    #[must_use]
    pub fn is_complete(&self, key: FlowKey) -> bool {
        self.flows.get(&key).is_some_and(|flow| flow.ends.iter().any(Endpoint::has_current_counters))
    }

    /// Whether a flow is over: an end of it is, and was not opened anew.
    #[must_use]
    pub fn is_over(&self, key: FlowKey) -> bool {
        self.flows.get(&key).is_some_and(|flow| flow.ends.iter().any(Endpoint::is_closed))
    }

    /// TCP flows that are in no sample though they may have carried something. Where every close was told they have not: they were refused, or never
    /// answered.
    #[must_use]
    pub fn flows_without_samples(&self) -> usize {
        if self.closes_missed() == (0, None) { 0 } else { self.unsampled() }
    }

    fn unsampled(&self) -> usize {
        self.numbers.values().filter(|&number| !self.observed.contains_key(number)).count()
    }

    /// How often closes were lost, and why there are none at all, if so.
    #[must_use]
    pub fn closes_missed(&self) -> (u64, Option<&str>) {
        match &self.closes {
            Ok(ends) => (ends.iter().map(CloseEvents::missed).sum(), None),
            Err(why) => (0, Some(why)),
        }
    }

    /// Messages about sockets that could not be read.
    #[must_use]
    pub fn unreadable(&self) -> u64 {
        self.ends.iter().map(Diag::unreadable).sum()
    }

    /// Whether nothing is to be waited for: no socket has gone without its close, no flow is without a sample.
    #[must_use]
    pub fn has_all_closes(&self) -> bool {
        let is_pending = |flow: &Flow| flow.ends.iter().any(Endpoint::is_missing_close);
        self.closes.is_err() || (self.unsampled() == 0 && !self.flows.values().any(is_pending))
    }

    /// The server's socket table, to wait for a server.
    ///
    /// # Errors
    /// [`EmuError::System`].
    pub fn listening_sockets(&mut self) -> Result<ListeningSockets, EmuError> {
        self.ends[1].listening_sockets()
    }

    /// One row at `t_s` for each flow that the relay has seen and that lives, or has closed since the last look.
    ///
    /// # Errors
    /// [`EmuError::System`].
    pub fn sample(&mut self, t_s: f64, samples: &mut Samples) -> Result<(), EmuError> {
        // Closes first: what is in the table after them lives, or its close is yet to be read.
        self.read_close_events()?;
        for flow in self.flows.values_mut() {
            flow.ends.iter_mut().for_each(Endpoint::mark_unseen);
        }
        for end in 0..2 {
            for state in self.ends[end].connections()? {
                let Some(key) = self.flow_of(end, &state) else { continue };
                let flow = self.flows.entry(key).or_default();
                flow.ends[end].record_open(state);
                flow.is_updated = true;
            }
        }
        self.write_rows(t_s, samples);
        Ok(())
    }

    /// One row at `t_s` for each flow that has closed since the last look.
    ///
    /// # Errors
    /// [`EmuError::System`].
    pub fn sample_closed(&mut self, t_s: f64, samples: &mut Samples) -> Result<(), EmuError> {
        self.read_close_events()?;
        self.write_rows(t_s, samples);
        Ok(())
    }

    fn read_close_events(&mut self) -> Result<(), EmuError> {
        let mut closed = std::mem::take(&mut self.pending);
        if let Ok(ends) = &mut self.closes {
            for (end, closes) in ends.iter_mut().enumerate() {
                closes.drain(|state| closed.push(PendingClose { end, state, attempts: 0 }))?;
            }
        }
        for mut pending in closed {
            let Some(key) = self.flow_of(pending.end, &pending.state) else {
                pending.attempts += 1;
                if pending.attempts < MAX_ATTEMPTS {
                    self.pending.push(pending);
                }
                continue;
            };
            let is_known = self.flows.get(&key).is_some_and(|flow| flow.ends[pending.end].is_same_socket(&pending.state));
            if carried_nothing(&pending.state.info) && !is_known {
                continue;
            }
            let flow = self.flows.entry(key).or_default();
            flow.ends[pending.end].record_close(pending.state);
            flow.is_updated = true;
        }
        Ok(())
    }

    /// The flow that a socket at `end` belongs to.
    fn flow_of(&self, end: usize, state: &TcpState) -> Option<FlowKey> {
        let (client, server) = if end == 0 { (state.local, state.remote) } else { (state.remote, state.local) };
        let mut key = FlowKey { client, server, protocol: TCP };
        if end == 1 {
            key = self.client_by_server.get(&key).copied().unwrap_or(key);
        }
        Some(key).filter(|key| self.numbers.contains_key(key))
    }

    fn write_rows(&mut self, t_s: f64, samples: &mut Samples) {
        let (numbers, observed) = (&self.numbers, &mut self.observed);
        for (key, flow) in self.flows.iter_mut().filter(|(_, flow)| flow.is_updated) {
            flow.is_updated = false;
            if let Some(&number) = numbers.get(key) {
                write_row(observed, number, *key, &flow.ends, t_s, samples);
            }
        }
    }
}

fn write_row(flows: &mut BTreeMap<u32, ObservedFlow>, number: u32, key: FlowKey, ends: &[Endpoint; 2], t_s: f64, samples: &mut Samples) {
    let totals = [ends[0].totals(), ends[1].totals()];
    // Where one end is not ours, or is gone, the other says how much went each way.
    let [up, down] = [totals[0].acked.max(totals[1].received), totals[1].acked.max(totals[0].received)];
    let direction = if up >= down { Direction::Up } else { Direction::Down };
    let sender = &ends[direction as usize];
    let Some(info) = sender.info() else { return };
    let (sent, received) = (&totals[direction as usize], totals[direction.reverse() as usize].received);
    // What is acknowledged has arrived; what has arrived is acknowledged half an RTT later.
    let delivered = if ends[direction.reverse() as usize].has_current_counters() { received } else { sent.acked.max(received) };
    let seen = flows.entry(number).or_insert_with(|| ObservedFlow {
        key,
        direction,
        controller: UNKNOWN_CONTROLLER.to_owned(),
        first_s: t_s,
        delivered_bytes: 0,
        retransmits: 0,
        marks: 0,
    });
    let mss = u64::from(info.snd_mss);
    let packets_out = (info.unacked + info.retrans).saturating_sub(info.sacked + info.lost);
    let rtt_ms = f64::from(info.rtt) / 1e3;
    sender.controller().unwrap_or(UNKNOWN_CONTROLLER).clone_into(&mut seen.controller);
    // A receiver that is gone leaves the sender's count, which is half an RTT behind.
    let delivered = if seen.direction == direction { delivered.max(seen.delivered_bytes) } else { delivered };
    seen.delivered_bytes = delivered;
    seen.direction = direction;
    seen.retransmits = sent.retransmits;
    seen.marks = sent.marks;
    let s = samples;
    s.t_s.push(t_s);
    s.flow.push(u64::from(number));
    s.goodput_bytes.push(delivered);
    s.rtt_latest_ms.push(f64::NAN); // the kernel keeps a smoothed one only
    s.rtt_smoothed_ms.push(rtt_ms);
    s.rtt_min_ms.push(if info.min_rtt == u32::MAX { f64::NAN } else { f64::from(info.min_rtt) / 1e3 });
    s.rtt_var_ms.push(f64::from(info.rttvar) / 1e3);
    s.cwnd_bytes.push(u64::from(info.snd_cwnd) * mss);
    s.inflight_bytes.push(u64::from(packets_out) * mss);
    s.pacing_bps.push(if info.pacing_rate == u64::MAX { f64::NAN } else { info.pacing_rate as f64 * 8.0 });
    s.delivery_bps.push(if info.delivery_rate == 0 { f64::NAN } else { info.delivery_rate as f64 * 8.0 });
    s.retransmits.push(sent.retransmits);
    s.losses.push(0); // not kept by the kernel: written as unknown
    s.marks.push(sent.marks);
    s.state.push(ca_state(info.ca_state).to_owned());
    s.cwnd_limited_s.push((sent.busy_s - sent.receiver_limited_s - sent.buffer_limited_s).max(0.0));
    s.receiver_limited_s.push(sent.receiver_limited_s);
    s.sender_limited_s.push((t_s - seen.first_s - sent.busy_s).max(0.0) + sent.buffer_limited_s);
}

/// `tcpi_ca_state` by its name in the samples table.
fn ca_state(number: u8) -> &'static str {
    CA_STATES.get(usize::from(number)).copied().unwrap_or("unknown")
}
