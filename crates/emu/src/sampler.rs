//! The kernel's view of every TCP flow as rows of the Run's `samples` table.

use crate::diag::{Diag, TcpState};
use crate::error::EmuError;
use crate::flows::FlowKey;
use crate::gateway::rewrite::TCP;
use bentpipe_profile::Direction;
use bentpipe_profile::run::{CA_STATES, Samples};
use std::collections::BTreeMap;

/// A TCP flow, as last seen.
#[derive(Clone, Debug)]
pub struct Observed {
    /// Its ends.
    pub key: FlowKey,
    /// The way most of its data goes.
    pub direction: Direction,
    /// Controller of the data's sender.
    pub controller: String,
    /// When it was first seen [s].
    pub first_s: f64,
    /// When it was last seen [s].
    pub last_s: f64,
    /// In-order bytes at the receiver.
    pub delivered_bytes: u64,
    /// Segments sent again.
    pub retransmits: u64,
}

/// Looks at both namespaces' sockets.
pub struct Sampler {
    ends: [Diag; 2],
    numbers: BTreeMap<FlowKey, u32>,
    /// What the server's kernel takes for another flow.
    aliases: BTreeMap<FlowKey, FlowKey>,
    /// The same the other way.
    servers: BTreeMap<FlowKey, FlowKey>,
    seen: BTreeMap<u32, Observed>,
}

impl Sampler {
    /// Over the client's and the server's socket tables.
    #[must_use]
    pub const fn new(ends: [Diag; 2]) -> Self {
        Self { ends, numbers: BTreeMap::new(), aliases: BTreeMap::new(), servers: BTreeMap::new(), seen: BTreeMap::new() }
    }

    /// The relay's number of a flow.
    pub fn learn(&mut self, key: FlowKey, number: u32) {
        if key.protocol == TCP {
            self.numbers.insert(key, number);
        }
    }

    /// The server's kernel sees `client` as `server`: the gateway stands between.
    pub fn split(&mut self, client: FlowKey, server: FlowKey) {
        // A client's end is used anew by later connections: what the server had for the earlier one is void. So there are never more than flows.
        if self.numbers.contains_key(&client) {
            if let Some(before) = self.servers.insert(client, server)
                && self.aliases.get(&before) == Some(&client)
            {
                self.aliases.remove(&before);
            }
            self.aliases.insert(server, client);
        }
    }

    /// Flows by number, as last seen.
    #[must_use]
    pub const fn observed(&self) -> &BTreeMap<u32, Observed> {
        &self.seen
    }

    /// The server's socket table, to wait for a server.
    ///
    /// # Errors
    /// [`EmuError::System`].
    pub fn is_served(&mut self) -> Result<bool, EmuError> {
        self.ends[1].is_served()
    }

    /// One row for each flow that the relay has seen, at `t_s`.
    ///
    /// # Errors
    /// [`EmuError::System`].
    pub fn sample(&mut self, t_s: f64, samples: &mut Samples) -> Result<(), EmuError> {
        let mut flows: BTreeMap<FlowKey, [Option<TcpState>; 2]> = BTreeMap::new();
        for (end, diag) in self.ends.iter_mut().enumerate() {
            for state in diag.connections()? {
                let (client, server) = if end == 0 { (state.local, state.remote) } else { (state.remote, state.local) };
                let mut key = FlowKey { client, server, protocol: TCP };
                if end == 1 {
                    key = self.aliases.get(&key).copied().unwrap_or(key);
                }
                flows.entry(key).or_default()[end] = Some(state);
            }
        }
        for (key, states) in flows {
            let Some(&number) = self.numbers.get(&key) else { continue };
            self.row(number, key, &states, t_s, samples);
        }
        Ok(())
    }

    fn row(&mut self, number: u32, key: FlowKey, states: &[Option<TcpState>; 2], t_s: f64, samples: &mut Samples) {
        let sent = |state: &Option<TcpState>| state.as_ref().map_or(0, |s| s.info.bytes_acked);
        let received = |state: &Option<TcpState>| state.as_ref().map_or(0, |s| s.info.bytes_received);
        // Where one end is not ours, or is gone, the other says how much went each way.
        let [up, down] = [sent(&states[0]).max(received(&states[1])), sent(&states[1]).max(received(&states[0]))];
        let direction = if up >= down { Direction::Up } else { Direction::Down };
        let Some(sender) = &states[direction as usize] else { return };
        let receiver = &states[direction.reverse() as usize];
        let info = &sender.info;
        let delivered = receiver.as_ref().map_or(info.bytes_acked, |s| s.info.bytes_received);
        let seen = self.seen.entry(number).or_insert_with(|| Observed {
            key,
            direction,
            controller: String::new(),
            first_s: t_s,
            last_s: t_s,
            delivered_bytes: 0,
            retransmits: 0,
        });
        let mss = u64::from(info.snd_mss);
        let packets_out = (info.unacked + info.retrans).saturating_sub(info.sacked + info.lost);
        let rtt_ms = f64::from(info.rtt) / 1e3;
        seen.controller.clone_from(&sender.controller);
        seen.last_s = t_s;
        // A receiver that is gone leaves the sender's count, which is half a round trip behind.
        let delivered = if seen.direction == direction { delivered.max(seen.delivered_bytes) } else { delivered };
        seen.delivered_bytes = delivered;
        seen.direction = direction;
        seen.retransmits = u64::from(info.total_retrans);
        let s = samples;
        let (receiver_limited_s, buffer_limited_s) = (micros(info.rwnd_limited), micros(info.sndbuf_limited));
        let busy_s = micros(info.busy_time);
        s.t_s.push(t_s);
        s.flow.push(u64::from(number));
        s.goodput_bytes.push(delivered);
        s.rtt_latest_ms.push(f64::NAN); // the kernel keeps a smoothed one only
        s.rtt_smoothed_ms.push(rtt_ms);
        s.rtt_min_ms.push(if info.min_rtt == u32::MAX { f64::NAN } else { f64::from(info.min_rtt) / 1e3 });
        s.cwnd_bytes.push(u64::from(info.snd_cwnd) * mss);
        s.inflight_bytes.push(u64::from(packets_out) * mss);
        s.pacing_bps.push(if info.pacing_rate == u64::MAX { f64::NAN } else { info.pacing_rate as f64 * 8.0 });
        s.delivery_bps.push(if info.delivery_rate == 0 { f64::NAN } else { info.delivery_rate as f64 * 8.0 });
        s.retransmits.push(u64::from(info.total_retrans));
        s.losses.push(0); // not kept by the kernel: written as unknown
        s.marks.push(u64::from(info.delivered_ce));
        s.state.push(ca_state(info.ca_state).to_owned());
        s.cwnd_limited_s.push((busy_s - receiver_limited_s - buffer_limited_s).max(0.0));
        s.receiver_limited_s.push(receiver_limited_s);
        s.sender_limited_s.push((t_s - seen.first_s - busy_s).max(0.0) + buffer_limited_s);
    }
}

/// `tcpi_ca_state` by its name in the samples table.
fn ca_state(number: u8) -> &'static str {
    CA_STATES.get(usize::from(number)).copied().unwrap_or("unknown")
}

fn micros(us: u64) -> f64 {
    us as f64 / 1e6
}
