//! One-way delays of the flows' data: from the first transmission of a segment to its first arrival, whoever retransmitted it. A datagram is sent
//! once.

use bentpipe_link::stats::DelayHistogram;
use bentpipe_link::{Outcome, Packet};
use bentpipe_profile::{Nanos, Time};
use bentpipe_transport::TcpPacket;
use std::collections::BTreeMap;

/// A segment: connection and first byte.
type Segment = (u32, u64);

/// The segments in flight, and the delays of each flow.
pub struct OneWay {
    /// First transmission of each segment that has not arrived.
    sent: BTreeMap<Segment, Time>,
    /// Flow, segment and its length of each packet on its way to the receiver, by its handle.
    inside: BTreeMap<u32, (usize, Segment, u64)>,
    delays: Vec<DelayHistogram>,
}

impl OneWay {
    /// Create an empty record for `flows` flows.
    #[must_use]
    pub fn new(flows: usize) -> Self {
        Self { sent: BTreeMap::new(), inside: BTreeMap::new(), delays: vec![DelayHistogram::default(); flows] }
    }

    /// Record that a connection of a flow sends a packet in the flow's direction, with the handle `body`.
    pub fn send(&mut self, flow: usize, connection: u32, packet: &TcpPacket, body: u32, now: Time) {
        let TcpPacket::Segment(segment, _) = packet else { return };
        if segment.len > 0 {
            let key = (connection, segment.seq);
            if !segment.retransmission {
                self.sent.insert(key, now);
            }
            self.inside.insert(body, (flow, key, u64::from(segment.len)));
        }
    }

    /// Record that the last proxy before the receiver passes data on, in segments of its own.
    pub fn pass_on(&mut self, flow: usize, connection: u32, packet: &TcpPacket, body: u32) {
        if let TcpPacket::Segment(segment, _) = packet
            && segment.len > 0
        {
            self.inside.insert(body, (flow, (connection, segment.seq), u64::from(segment.len)));
        }
    }

    /// Record that a datagram of a flow, which entered the network at `entered`, arrived at `now`.
    pub fn arrive(&mut self, flow: usize, entered: Time, now: Time) {
        self.record(flow, now.since(entered));
    }

    /// Record a delay of a flow's data.
    pub fn record(&mut self, flow: usize, delay: Nanos) {
        self.delays[flow].record(delay);
    }

    /// Record that the receiver computed a packet of a flow's connection from others.
    pub fn decode(&mut self, flow: usize, connection: u32, packet: &TcpPacket, now: Time) {
        if let TcpPacket::Segment(segment, _) = packet
            && let Some(sent) = self.sent.remove(&(connection, segment.seq))
        {
            self.delays[flow].record(now.since(sent));
        }
    }

    /// Forget a packet that found no route.
    pub fn forget(&mut self, body: u32) {
        self.inside.remove(&body);
    }

    /// Record that packets have left the network.
    pub fn leave(&mut self, outcomes: &[(Outcome, Packet)]) {
        for (outcome, packet) in outcomes {
            let Some((flow, (connection, first), bytes)) = self.inside.remove(&packet.body) else { continue };
            if *outcome != Outcome::Delivered {
                continue;
            }
            // A proxy's segment may hold the first bytes of several.
            while let Some((&segment, &sent)) = self.sent.range((connection, first)..(connection, first + bytes)).next() {
                self.sent.remove(&segment);
                self.delays[flow].record(packet.at.since(sent));
            }
        }
    }

    /// Return the median and the 99th percentile of a flow's delays [ms]; `None`: no data arrived.
    #[must_use]
    pub fn percentiles_ms(&self, flow: usize) -> [Option<f64>; 2] {
        [50, 99].map(|percent| Some(self.delays[flow].quantile_ms(percent, 100)).filter(|ms| ms.is_finite()))
    }
}
