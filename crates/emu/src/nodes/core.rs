//! A node without I/O: frames of other nodes and packets of its host in, the same out, by the node's part of the Profile and its scheme.

use super::bodies::Bodies;
use super::elements::{Outbox, Pass, WireEnd};
use super::envelope::{self, Envelope, Tunnelled};
use super::plan::{Plan, Role, owns, part};
use crate::ecn;
use crate::error::EmuError;
use crate::lateness::Lateness;
use bentpipe_link::windows::record_window;
use bentpipe_link::{Ecn, Element, Network, Outcome, Packet, Role as PacketRole};
use bentpipe_profile::experiment::RecoverySpec;
use bentpipe_profile::run::{Links, RunSink};
use bentpipe_profile::{Direction, EventKind, Nanos, NetworkSpec, Profile, Streams, Time};
use bentpipe_recovery::registry::SchemeError;
use bentpipe_recovery::satguard::handover::{Arrivals, Message};
use bentpipe_recovery::satguard::node::{self, Node};
use bentpipe_recovery::satguard::notices::Notice;
use bentpipe_recovery::wire::{CONTROL_BYTES, Fields, HEADER_BYTES};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, PoisonError};

/// Body of a control packet.
const NO_BODY: u32 = u32::MAX;
/// Flows with counters of their own in the rows of `links`: as many as the relay's.
const MAX_FLOWS: usize = 255;
/// Label of all other flows in the rows.
pub const OTHER_FLOWS: u32 = u32::MAX;
/// How long after a handover its last messages may arrive. Chosen here: longer than any hop's RTT.
const STRAGGLE: Nanos = Nanos::from_secs(5);

/// Receiver of what a node sends.
pub trait Sink {
    /// A packet to another node: its headers, and the host's packet or nothing.
    fn to_node(&mut self, to: Role, headers: &[u8], inner: &[u8]);
    /// A packet to the host at this node's end of the path.
    fn to_host(&mut self, label: u32, packet: &[u8]);
}

/// Counters of a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Packets of hosts that its elements dropped.
    pub lost: u64,
    /// Frames that it could not parse, or that do not belong on their wire.
    pub malformed: u64,
    /// Packets without a route, by direction.
    pub no_route: [u64; 2],
    /// Frames sent to other nodes.
    pub frames: u64,
    /// Bytes of the headers in front of hosts' packets in those frames, and of control packets.
    pub outer_bytes: u64,
    /// Packets retransmitted for another satellite.
    pub migrated: u64,
}

/// A migration from another satellite to this one.
struct Incoming {
    from: usize,
    attach: Time,
    arrivals: Arrivals<Packet>,
}

/// See the module.
pub struct NodeCore {
    role: Role,
    plan: Plan,
    part: Profile,
    network: Network,
    scheme: Option<Node>,
    is_numbered: bool,
    outbox: Outbox,
    sending: Vec<(usize, Packet)>,
    notices: Vec<Notice>,
    outcomes: Vec<(Outcome, Packet)>,
    bodies: Bodies,
    /// Handovers to this satellite, in order of time.
    incoming: Vec<Incoming>,
    /// The next satellite, by the time of the handover from this one.
    next_hops: BTreeMap<Time, usize>,
    flows: BTreeSet<u32>,
    counts: Counts,
    lateness: Lateness,
}

impl NodeCore {
    /// Create a node of a Profile. `recovery`: the scheme; `None`: there is none.
    ///
    /// # Errors
    /// A Profile that cannot be run on nodes, or a scheme that nodes do not have.
    pub fn new(profile: &Profile, role: Role, recovery: Option<&RecoverySpec>, streams: Streams) -> Result<Self, EmuError> {
        let plan = Plan::of(profile)?;
        let whole = NetworkSpec::from_profiles(&[profile])?;
        let scheme = match recovery.map(|spec| (spec.scheme.as_str(), &spec.options)) {
            None | Some(("none", _)) => None,
            Some((_, options)) if options.contains_key("marked_flows") => {
                return Err(EmuError::Nodes {
                    problem: "recovery option marked_flows".to_owned(),
                    expected: "none: nodes protect every flow",
                });
            }
            Some(("satguard", options)) => Some(Node::new(whole, options).map_err(SchemeError::from)?),
            Some((other, _)) => {
                return Err(EmuError::Nodes { problem: format!("recovery scheme {other}"), expected: "satguard or none" });
            }
        };
        let part = part(profile, &plan, role)?;
        let mut network = Network::new(&NetworkSpec::from_profiles(&[&part])?, streams)?;
        let outbox = Outbox::default();
        for &hop in &plan.satellites {
            let wire = || -> Box<dyn Element> { Box::new(WireEnd::new(hop, Arc::clone(&outbox))) };
            let end = |direction| {
                scheme.as_ref().map_or_else(|| -> Box<dyn Element> { Box::<Pass>::default() }, |node| node.link_end(hop, direction))
            };
            let ends = match role {
                Role::Terminal => [end(Direction::Up), wire()],
                Role::Satellite(own) if own == hop => [wire(), end(Direction::Down)],
                Role::Satellite(_) | Role::Ground => [wire(), Box::<Pass>::default()],
            };
            network.set_ends(hop, ends)?;
        }
        let outward = match role {
            Role::Terminal => Some(Direction::Up),
            Role::Ground => Some(Direction::Down),
            Role::Satellite(_) => None,
        };
        for direction in Direction::BOTH {
            if let (Some(outward), Some([ingress, egress])) = (outward, scheme.as_ref().and_then(|node| node.path_ends(direction))) {
                let pass = Box::<Pass>::default();
                network.set_path_ends(0, direction, if direction == outward { [ingress, pass] } else { [pass, egress] })?;
            }
        }
        let handovers = profile.events().iter().filter_map(|event| match event.kind {
            EventKind::Handover { to_hop, .. } if to_hop != event.hop => Some((event, to_hop)),
            _ => None,
        });
        let (mut incoming, mut next_hops) = (Vec::new(), BTreeMap::new());
        for (event, to) in handovers {
            if role == Role::Satellite(to) {
                incoming.push(Incoming { from: event.hop, attach: event.at_ns + event.interruption_ns, arrivals: Arrivals::default() });
            }
            if role == Role::Satellite(event.hop) {
                next_hops.insert(event.at_ns, to);
            }
        }
        incoming.sort_by_key(|incoming| incoming.attach);
        Ok(Self {
            role,
            plan,
            part,
            network,
            is_numbered: scheme.as_ref().is_some_and(Node::keeps_order),
            scheme,
            outbox,
            sending: Vec::new(),
            notices: Vec::new(),
            outcomes: Vec::new(),
            bodies: Bodies::default(),
            incoming,
            next_hops,
            flows: BTreeSet::new(),
            counts: Counts::default(),
            lateness: Lateness::default(),
        })
    }

    /// Return the counters.
    #[must_use]
    pub const fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Return how late packets left the node.
    #[must_use]
    pub const fn lateness(&self) -> &Lateness {
        &self.lateness
    }

    /// Return the scheme's counters.
    #[must_use]
    pub fn overhead(&self) -> BTreeMap<String, u64> {
        let scheme = self.scheme.iter().flat_map(|node| node.overhead().named());
        let mut overhead: BTreeMap<String, u64> = scheme.map(|(name, value)| (name.to_owned(), value)).collect();
        if let Some(migrated) = overhead.get_mut("migrated") {
            *migrated += self.counts.migrated;
        }
        overhead
    }

    /// Return how many packets the node has.
    #[must_use]
    pub const fn packets(&self) -> usize {
        self.bodies.count()
    }

    /// Apply what happened before the start of the clock.
    pub fn start(&mut self, at: Time) {
        self.network.run_until(at, &mut Vec::new());
        self.incoming.retain(|incoming| incoming.attach + STRAGGLE > at);
    }

    /// Return when [`NodeCore::advance`] is due.
    #[must_use]
    pub fn wake_at(&self) -> Option<Time> {
        let attach = self.incoming.iter().find(|incoming| !incoming.arrivals.is_attached()).map(|incoming| incoming.attach);
        [self.network.wake_at(), attach].into_iter().flatten().min()
    }

    /// Run the elements to `now`.
    pub fn advance(&mut self, now: Time, sink: &mut impl Sink) {
        while let Some(at) = self.wake_at().filter(|at| *at <= now) {
            self.network.run_until(at, &mut self.outcomes);
            for number in 0..self.incoming.len() {
                let incoming = &mut self.incoming[number];
                if incoming.attach <= at && !incoming.arrivals.is_attached() {
                    let packets: Vec<Packet> = incoming.arrivals.attach().collect();
                    for packet in packets {
                        self.retransmit(at, packet);
                    }
                }
            }
            self.flush(now, sink);
        }
        self.incoming.retain(|incoming| incoming.attach + STRAGGLE > now);
        self.bodies.collect(now);
    }

    /// Accept a packet of the host at this node's end of the path. `label`: of its flow.
    pub fn from_host(&mut self, now: Time, label: u32, inner: &[u8], sink: &mut impl Sink) {
        self.advance(now, sink);
        let direction = if self.role == Role::Terminal { Direction::Up } else { Direction::Down };
        let packet = self.packet(now, direction, label, ecn::codepoint(inner), inner);
        self.send(packet);
        self.flush(now, sink);
    }

    /// Accept a frame's packet from another node.
    pub fn from_node(&mut self, now: Time, from: Role, packet: &[u8], sink: &mut impl Sink) {
        let Ok(envelope) = envelope::decode(from, self.role, packet) else {
            self.counts.malformed += 1;
            return;
        };
        self.advance(now, sink);
        if !self.arrive(now, from, &envelope) {
            self.counts.malformed += 1;
        }
        self.flush(now, sink);
    }

    /// Process a parsed packet. False: it does not belong on this wire.
    fn arrive(&mut self, now: Time, from: Role, envelope: &Envelope<'_>) -> bool {
        let Envelope { label, ecn, fields, tunnelled, inner } = *envelope;
        if inner.is_some() && self.is_numbered && fields.fseq.is_none() {
            return false;
        }
        match (self.role, from, tunnelled) {
            (Role::Terminal, Role::Satellite(hop), None) => self.cross(now, hop, Direction::Down, envelope),
            (Role::Satellite(hop), Role::Terminal, None) => self.cross(now, hop, Direction::Up, envelope),
            (Role::Ground, Role::Satellite(hop), None) if inner.is_some() => self.cross(now, hop, Direction::Up, envelope),
            (Role::Satellite(_), Role::Ground, None) | (Role::Satellite(_), Role::Satellite(_), Some(Tunnelled::Forward)) => {
                let Some(inner) = inner else { return false };
                let mut packet = self.packet_in_path(now, Direction::Down, label, ecn, inner);
                node::set_fields(&mut packet, &Fields { fseq: fields.fseq, ..Fields::default() });
                self.send(packet);
                true
            }
            (Role::Satellite(_), Role::Satellite(before), Some(Tunnelled::Migration(message))) => {
                let Some(place) = self.incoming.iter().position(|incoming| incoming.from == before) else { return false };
                let message = match (message, inner) {
                    (Message::Copy(number, ()), Some(inner)) => {
                        let mut packet = self.packet_in_path(now, Direction::Down, label, ecn, inner);
                        node::set_fields(&mut packet, &Fields { fseq: fields.fseq, ..Fields::default() });
                        self.bodies.keep(packet.body, true);
                        self.bodies.leave(packet.body);
                        Message::Copy(number, packet)
                    }
                    (Message::Acknowledged(first, last), None) => Message::Acknowledged(first, last),
                    (Message::Withdrawn(number), None) => Message::Withdrawn(number),
                    _ => return false,
                };
                if let Some(packet) = self.incoming[place].arrivals.receive(message) {
                    self.retransmit(now, packet);
                }
                true
            }
            _ => false,
        }
    }

    /// Let a packet arrive over a link with ends. False: it has neither content nor an acknowledgement.
    fn cross(&mut self, now: Time, hop: usize, direction: Direction, envelope: &Envelope<'_>) -> bool {
        let Envelope { label, ecn, fields, inner, .. } = *envelope;
        let has_end = self.role != Role::Ground && self.scheme.is_some();
        let fields = if has_end { fields } else { Fields { fseq: fields.fseq, ..Fields::default() } };
        let mut packet = match inner {
            Some(inner) => self.packet_in_path(now, direction, label, ecn, inner),
            None if has_end && fields.hack.is_some() => {
                let control = Packet::new(now, 0, direction, OTHER_FLOWS, u32::from(CONTROL_BYTES), NO_BODY);
                Packet { role: PacketRole::Control, ..control }
            }
            None => return false,
        };
        node::set_fields(&mut packet, &fields);
        let body = packet.body;
        if self.network.arrive(hop, packet, &mut self.outcomes).is_err() {
            self.counts.no_route[direction as usize] += 1;
            self.bodies.leave(body);
        }
        true
    }

    /// Send a copy from another satellite ahead of the queue.
    fn retransmit(&mut self, at: Time, packet: Packet) {
        let mut packet = Packet { at, hop_entered: at, entered: at, ..packet };
        self.counts.migrated += 1;
        node::set_migrated(&mut packet);
        self.send(packet);
    }

    fn send(&mut self, packet: Packet) {
        if self.network.send(packet).is_err() {
            self.counts.no_route[packet.direction as usize] += 1;
            self.bodies.keep(packet.body, false);
            self.bodies.leave(packet.body);
        }
    }

    /// Return a packet of a host, with its content stored.
    fn packet(&mut self, now: Time, direction: Direction, label: u32, ecn: Ecn, inner: &[u8]) -> Packet {
        let body = self.bodies.store(now, inner);
        let is_known = self.flows.contains(&label) || self.flows.len() < MAX_FLOWS && self.flows.insert(label);
        let flow = if is_known { label } else { OTHER_FLOWS };
        #[allow(clippy::cast_possible_truncation)] // at most LARGEST_INNER
        let bytes = inner.len() as u32;
        Packet { ecn, flow_hash: label, ..Packet::new(now, 0, direction, flow, bytes, body) }
    }

    /// As [`NodeCore::packet`], for one that has passed the ingress of its path.
    fn packet_in_path(&mut self, now: Time, direction: Direction, label: u32, ecn: Ecn, inner: &[u8]) -> Packet {
        let packet = self.packet(now, direction, label, ecn, inner);
        let header = if self.is_numbered { HEADER_BYTES } else { 0 };
        Packet { bytes: packet.bytes.saturating_add(header), ..packet }
    }

    /// Pass on what the elements have done so far.
    fn flush(&mut self, now: Time, sink: &mut impl Sink) {
        let mut sending = std::mem::take(&mut self.sending);
        sending.append(&mut self.outbox.lock().unwrap_or_else(PoisonError::into_inner));
        for (hop, packet) in sending.drain(..) {
            self.leave_link(now, hop, &packet, sink);
        }
        self.sending = sending;
        if let Some(node) = &self.scheme {
            let mut notices = std::mem::take(&mut self.notices);
            node.notices().take(&mut notices);
            for notice in notices.drain(..) {
                match notice {
                    Notice::Kept(body) => self.bodies.keep(body, true),
                    Notice::Freed(body) => self.bodies.keep(body, false),
                    Notice::Migrates(handover, message) => self.migrate(handover.at, message, sink),
                }
            }
            self.notices = notices;
        }
        let mut outcomes = std::mem::take(&mut self.outcomes);
        for (outcome, packet) in outcomes.drain(..) {
            match (outcome, self.role, packet.direction) {
                (Outcome::Dropped(_), ..) => self.counts.lost += 1,
                (_, Role::Terminal, Direction::Down) | (_, Role::Ground, Direction::Up) => self.deliver(now, &packet, sink),
                (_, Role::Satellite(_), Direction::Up) => {
                    let fields = Fields { fseq: node::fields(&packet, self.is_numbered).fseq, ..Fields::default() };
                    self.transmit(now, Role::Ground, &packet, fields, None, sink);
                }
                _ => {}
            }
            self.bodies.leave(packet.body);
        }
        self.outcomes = outcomes;
    }

    /// A packet has left a link by its far end.
    fn leave_link(&mut self, now: Time, hop: usize, packet: &Packet, sink: &mut impl Sink) {
        let (to, has_end) = match self.role {
            Role::Satellite(own) if own == hop => (Role::Terminal, self.scheme.is_some()),
            Role::Terminal => (Role::Satellite(hop), self.scheme.is_some()),
            Role::Satellite(_) | Role::Ground => (Role::Satellite(hop), false),
        };
        let is_tunnel = matches!((self.role, to), (Role::Satellite(_), Role::Satellite(_)));
        if is_tunnel && node::is_migrated(packet) {
            return; // its copy went before
        }
        let fields = node::fields(packet, self.is_numbered && packet.role != PacketRole::Control);
        let fields = if has_end { fields } else { Fields { fseq: fields.fseq, ..Fields::default() } };
        self.transmit(now, to, packet, fields, is_tunnel.then_some(Tunnelled::Forward), sink);
    }

    /// Send a message of a migration to the next satellite.
    fn migrate(&mut self, at: Time, message: Message<Packet>, sink: &mut impl Sink) {
        let Some(&to) = self.next_hops.get(&at) else { return };
        let (message, packet) = match message {
            Message::Copy(number, packet) => (Message::Copy(number, ()), Some(packet)),
            Message::Acknowledged(first, last) => (Message::Acknowledged(first, last), None),
            Message::Withdrawn(number) => (Message::Withdrawn(number), None),
        };
        let control = || Packet { role: PacketRole::Control, ..Packet::new(at, 0, Direction::Down, OTHER_FLOWS, 0, NO_BODY) };
        let packet = packet.unwrap_or_else(control);
        let fseq = node::fields(&packet, self.is_numbered && packet.role != PacketRole::Control).fseq;
        self.put(Role::Satellite(to), &packet, Fields { fseq, ..Fields::default() }, Some(Tunnelled::Migration(message)), sink);
    }

    /// Send a packet that is due at `packet.at`.
    fn transmit(&mut self, now: Time, to: Role, packet: &Packet, fields: Fields, tunnelled: Option<Tunnelled>, sink: &mut impl Sink) {
        self.lateness.record(now.since(packet.at));
        self.put(to, packet, fields, tunnelled, sink);
    }

    fn put(&mut self, to: Role, packet: &Packet, fields: Fields, tunnelled: Option<Tunnelled>, sink: &mut impl Sink) {
        let inner = if packet.role == PacketRole::Control { None } else { Some(self.bodies.get(packet.body)) };
        let inner = match inner {
            Some(None) => return, // a duplicate of a packet that arrived
            other => other.flatten(),
        };
        let envelope = Envelope { label: packet.flow_hash & envelope::LABEL, ecn: packet.ecn, fields, tunnelled, inner };
        let headers = envelope::encode(self.role, to, &envelope);
        self.counts.frames += 1;
        self.counts.outer_bytes += headers.as_slice().len() as u64;
        sink.to_node(to, headers.as_slice(), inner.unwrap_or_default());
    }

    /// Deliver a packet to the host, with the mark of the path (RFC 6040 §4.2).
    fn deliver(&mut self, now: Time, packet: &Packet, sink: &mut impl Sink) {
        self.lateness.record(now.since(packet.at));
        if let Some(inner) = self.bodies.get_mut(packet.body) {
            if packet.ecn == Ecn::Ce {
                ecn::mark(inner);
            }
            sink.to_host(packet.flow_hash, inner);
        }
    }

    /// Give the rows of `links` of the hops that this node applies, in the window that ends at `at`. Flows are labels.
    pub fn window(&mut self, name: &str, at: Time, t_s: f64, sink: &mut dyn RunSink) {
        let mut links = Links::default();
        record_window(&mut self.network, 0, &self.part, name, at, t_s, &mut links);
        self.network.begin_window();
        for row in links.rows() {
            let hop = self.part.hops().iter().position(|hop| hop.name == row.hop);
            if hop.is_some_and(|hop| owns(&self.plan, self.role, hop, row.direction == Direction::Up.name())) {
                sink.row(&bentpipe_profile::run::Row::Link(row));
            }
        }
    }
}
