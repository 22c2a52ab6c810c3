//! The session's side of the nodes, in the place of [`crate::relay`]: packets between the hosts' devices and the nodes at the ends of the path, flows, rows and
//! the nodes' counters.

use super::attachment::{self, Inlet, Outlet};
use super::core::{NodeCore, OTHER_FLOWS};
use super::envelope::{LABEL, LARGEST_INNER};
use super::plan::{Plan, Role};
use super::protocol::{Answer, Channel, NodeReport, Order, Setup, WindowRow, WireSetup, failed};
use crate::clock::{Clock, Timer};
use crate::device::{Buffer, Device};
use crate::error::{EmuError, system};
use crate::flows::{FlowTable, UNNUMBERED_FLOWS};
use crate::gateway::{Action, Gateway};
use crate::grouping::Grouping;
use crate::header::Header;
use crate::relay::{PathEnds, RelayEvent, RelayReport};
use crate::scheduling::raise_priority;
use crate::spec::{AtEnd, Spec};
use bentpipe_link::{Outcome, Packet};
use bentpipe_profile::run::{Links, NoRoute, RecoverySummary};
use bentpipe_profile::{Direction, Nanos, Profile, Streams, Time};
use nix::errno::Errno;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Most reads from one device before the bridge reads the other.
const BATCH: usize = 16;
/// Timeout for a node to execute an order. Chosen here.
const ANSWER_WITHIN: Duration = Duration::from_secs(20);
/// Memory of all wires' rings together, and the most and least of one [bytes]. Chosen here: 50 ms at 1 Gbit/s with up to eight wires.
const RINGS: usize = 128 << 20;
const RING: [usize; 2] = [2 << 20, 8 << 20];

/// A node's process, started with the session.
pub struct NodeHandle {
    /// Its process, as the session sees it.
    pub pid: u32,
    /// Socket for messages.
    pub control: OwnedFd,
    /// Socket for packets; only nodes at the ends of the path have one.
    pub host: Option<OwnedFd>,
}

struct Connected {
    role: Role,
    channel: Channel,
    report: Option<NodeReport>,
}

/// See the module.
pub struct Bridge {
    nodes: Vec<Connected>,
    /// By the direction of the packets that they send to the nodes.
    inlets: [Inlet; 2],
    outlets: [Outlet; 2],
    ends: PathEnds,
    flows: FlowTable,
    /// Numbers of flows by label.
    labels: BTreeMap<u32, u32>,
    last_label: Option<(u32, u32)>,
    name: String,
    scheme: Option<String>,
    profile_end: Option<Time>,
    received: Vec<Buffer>,
    outcomes: Vec<(Outcome, Packet)>,
    clock: Clock,
    report: RelayReport,
}

impl Bridge {
    /// Set the nodes up. `request`: the octets of the request for the emulation, which each node reads too. `handles`: in the order of [`Plan::roles`].
    ///
    /// # Errors
    /// A request that nodes cannot run, or a node that fails.
    pub fn new(
        (spec, profile): (&Spec, &Profile),
        request: &[u8],
        handles: Vec<NodeHandle>,
        devices: [Device; 2],
        gateway: Option<Gateway>,
        grouping: Grouping,
    ) -> Result<Self, EmuError> {
        let refused = |problem: String, expected| EmuError::Nodes { problem, expected };
        if spec.mtu > LARGEST_INNER {
            return Err(refused(format!("--mtu {}", spec.mtu), "at most 1528: hops of 1600 bytes, less 72 of the encapsulation"));
        }
        if spec.at_end == AtEnd::Loop {
            return Err(refused("--at-end loop".to_owned(), "hold or stop: nodes do not repeat the Profile"));
        }
        let plan = Plan::of(profile)?;
        drop(NodeCore::new(profile, Role::Ground, spec.recovery(), Streams::new(spec.seed))?); // refuses what no node can run, before they start
        let roles = plan.roles();
        if handles.len() != roles.len() {
            return Err(EmuError::Internal("as many nodes were started as the Profile does not have"));
        }
        let pids: BTreeMap<Role, u32> = roles.iter().copied().zip(handles.iter().map(|handle| handle.pid)).collect();
        let (mut nodes, mut hosts) = (Vec::new(), Vec::new());
        for (role, handle) in roles.into_iter().zip(handles) {
            let socket = UnixStream::from(handle.control);
            let waits = socket.set_read_timeout(Some(ANSWER_WITHIN)).and_then(|()| socket.set_write_timeout(Some(ANSWER_WITHIN)));
            waits.map_err(system("a node's socket"))?;
            nodes.push(Connected { role, channel: Channel::new(socket), report: None });
            hosts.extend(handle.host);
        }
        let [terminal, ground] = <[OwnedFd; 2]>::try_from(hosts).map_err(|_| EmuError::Internal("nodes without sockets for packets"))?;
        let ((up_inlet, up_outlet), (down_inlet, down_outlet)) = (attachment::open(terminal)?, attachment::open(ground)?);
        for node in &mut nodes {
            use std::io::Write as _;
            node.channel.reader().get_mut().write_all(request).map_err(|e| failed(node.role, &e))?;
        }
        nodes.iter_mut().try_for_each(Connected::done)?;
        let wires = plan.wires();
        let ring_bytes = (RINGS / (2 * wires.len().max(1))).clamp(RING[0], RING[1]);
        for node in &nodes {
            let own = |&(maker, other): &(Role, Role)| match node.role {
                role if role == maker => Some(WireSetup { peer: other, pid: pids.get(&other).copied() }),
                role if role == other => Some(WireSetup { peer: maker, pid: None }),
                _ => None,
            };
            let recording: Option<OsString> = spec.capture.clone();
            let setup = Setup { role: node.role, wires: wires.iter().filter_map(own).collect(), ring_bytes, recording };
            node.order(&Order::Setup(Box::new(setup)))?;
        }
        nodes.iter_mut().try_for_each(Connected::done)?;
        nodes.iter().try_for_each(|node| node.order(&Order::Open))?;
        nodes.iter_mut().try_for_each(Connected::done)?;
        Ok(Self {
            nodes,
            inlets: [up_inlet, down_inlet],
            outlets: [up_outlet, down_outlet],
            ends: PathEnds::new(devices, gateway),
            flows: FlowTable::new(grouping),
            labels: BTreeMap::new(),
            last_label: None,
            name: spec.role.clone(),
            scheme: spec.recovery().map(|recovery| recovery.scheme.clone()),
            profile_end: (spec.at_end == AtEnd::Stop).then(|| Time(profile.duration().0)),
            received: Vec::new(),
            outcomes: Vec::new(),
            clock: Clock::starting_at(Time::ZERO, Nanos(0)),
            report: RelayReport::default(),
        })
    }

    /// Pass packets from the clock's base until `stop` is set.
    ///
    /// # Errors
    /// A device or a node that fails.
    pub fn run(mut self, clock: Clock, stop: &AtomicBool, mut on_event: impl FnMut(RelayEvent)) -> Result<RelayReport, EmuError> {
        (self.clock, self.ends.clock) = (clock, clock);
        let start = Order::Start { anchor_ns: clock.anchor_ns(), base: clock.base() };
        self.nodes.iter().try_for_each(|node| node.order(&start))?;
        raise_priority();
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC).map_err(system("epoll_create"))?;
        let mut timer = Timer::new()?;
        let add = |fd: std::os::fd::BorrowedFd<'_>| epoll.add(fd, EpollEvent::new(EpollFlags::EPOLLIN, 0)).map_err(system("epoll_ctl"));
        self.ends.devices.iter().map(AsFd::as_fd).try_for_each(add)?;
        self.inlets.iter().map(AsFd::as_fd).try_for_each(add)?;
        self.nodes.iter().map(|node| node.channel.as_fd()).try_for_each(add)?;
        self.ends.gateway.iter().map(AsFd::as_fd).try_for_each(add)?;
        add(timer.as_fd())?;
        for node in &self.nodes {
            node.channel.set_waits(false).map_err(|e| failed(node.role, &e))?;
        }
        let mut events = [EpollEvent::empty(); 16];
        while !stop.load(Ordering::Relaxed) {
            let mut is_idle = true;
            for direction in Direction::BOTH {
                for _ in 0..BATCH {
                    if !self.read_device(direction, &mut on_event)? {
                        break;
                    }
                    is_idle = false;
                }
            }
            is_idle &= !self.run_gateway(&mut on_event)?;
            is_idle &= !self.read_nodes()?;
            let mut waits = false;
            for outlet in &mut self.outlets {
                waits |= outlet.flush()?;
            }
            self.read_messages(&mut on_event)?;
            if self.profile_end.is_some_and(|end| self.clock.now() >= end) {
                self.profile_end = None;
                on_event(RelayEvent::ProfileEnded);
            }
            if !is_idle {
                continue;
            }
            let retry = waits.then(|| self.clock.now() + Nanos::from_micros(200));
            timer.set(&self.clock, retry.into_iter().chain(self.profile_end).min())?;
            match epoll.wait(&mut events, EpollTimeout::from(500_u16)) {
                Ok(_) | Err(Errno::EINTR) => {}
                Err(e) => return Err(system("epoll_wait")(e)),
            }
            timer.acknowledge();
            self.ends.gateway.iter().for_each(Gateway::acknowledge);
        }
        self.stop(&mut on_event)
    }

    /// Move packets from the device at the start of `direction` to its node. False: none were waiting.
    fn read_device(&mut self, direction: Direction, on_event: &mut impl FnMut(RelayEvent)) -> Result<bool, EmuError> {
        let mut received = std::mem::take(&mut self.received);
        let any = self.ends.devices[direction as usize].receive(|buffer| received.push(buffer))?;
        let now = self.clock.now();
        for mut buffer in received.drain(..) {
            if let (Some(gateway), Direction::Down) = (&mut self.ends.gateway, direction) {
                gateway.inbound(buffer.packet_mut());
            }
            self.enter(&buffer, direction, now, on_event);
            self.ends.devices[direction as usize].recycle(buffer);
        }
        self.received = received;
        Ok(any)
    }

    fn enter(&mut self, buffer: &Buffer, direction: Direction, now: Time, on_event: &mut impl FnMut(RelayEvent)) {
        let packet = buffer.packet();
        let header = match Header::read(packet) {
            Some(header) if !header.is_link_local_multicast() => header,
            read => {
                let is_cut = read.is_none() && packet.first().is_some_and(|first| matches!(first >> 4, 4 | 6));
                *if is_cut { &mut self.report.malformed } else { &mut self.report.not_forwarded } += 1;
                return;
            }
        };
        let key = self.flows.key(&header, direction);
        let (slot, new) = self.flows.slot(key, now);
        if let Some((flow, number)) = new {
            on_event(RelayEvent::Flow(flow, number));
        }
        let (label, number) = (key.hash() & LABEL, self.flows.number(slot));
        if self.last_label != Some((label, number)) {
            self.labels.insert(label, number);
            self.last_label = Some((label, number));
        }
        self.outlets[direction as usize].push(label, packet);
    }

    fn run_gateway(&mut self, on_event: &mut impl FnMut(RelayEvent)) -> Result<bool, EmuError> {
        let mut any = false;
        for _ in 0..BATCH {
            let Some(action) = self.ends.gateway.as_mut().and_then(Gateway::next_action) else { break };
            any = true;
            match action {
                Action::EnterPath(packet) => match self.ends.devices[Direction::Down as usize].wrap(&packet) {
                    Some(buffer) => {
                        self.enter(&buffer, Direction::Down, self.clock.now(), on_event);
                        self.ends.devices[Direction::Down as usize].recycle(buffer);
                    }
                    None => self.report.too_large += 1,
                },
                Action::Admit { packet, client, server } => {
                    on_event(RelayEvent::Split { client, server });
                    self.ends.admit(&packet)?;
                }
            }
        }
        Ok(any)
    }

    /// Deliver packets that have left the path to the hosts.
    fn read_nodes(&mut self) -> Result<bool, EmuError> {
        let mut any = false;
        for end in 0..2 {
            // What the terminal delivers has come down.
            let direction = Direction::BOTH[end].reverse();
            let (ends, outcomes, now) = (&mut self.ends, &mut self.outcomes, self.clock.now());
            let read = self.inlets[end].receive(|label, packet| {
                let Some(buffer) = ends.devices[direction as usize].wrap_unchecked(packet) else { return };
                let (bytes, body) = ends.store(buffer);
                outcomes.push((Outcome::Delivered, Packet::new(now, 0, direction, label, bytes, body)));
            })?;
            match read {
                Some(false) => {
                    self.read_messages(&mut |_| {})?; // it may have said why
                    return Err(failed(self.nodes[end].role, &"its process has ended"));
                }
                read => any |= read.is_some(),
            }
            self.ends.deliver(&mut self.outcomes, Nanos(0), now)?;
        }
        Ok(any)
    }

    /// Read what the nodes report.
    fn read_messages(&mut self, on_event: &mut impl FnMut(RelayEvent)) -> Result<(), EmuError> {
        for node in &mut self.nodes {
            while node.report.is_none() {
                match node.channel.receive::<Answer>() {
                    Ok(None) => break,
                    Ok(Some(Answer::Window(rows))) => on_event(RelayEvent::Window(Box::new(window(&rows, &self.name, &self.labels)))),
                    Ok(Some(Answer::Report(report))) => node.report = Some(*report),
                    Ok(Some(Answer::Done)) => {}
                    Ok(Some(Answer::Failed { reason })) => return Err(failed(node.role, &reason)),
                    Err(_) => return Err(failed(node.role, &"its process has ended")),
                }
            }
        }
        Ok(())
    }

    /// Stop the nodes, and sum up their counters.
    fn stop(mut self, on_event: &mut impl FnMut(RelayEvent)) -> Result<RelayReport, EmuError> {
        self.nodes.iter().try_for_each(|node| node.order(&Order::Stop))?;
        for number in 0..self.nodes.len() {
            self.nodes[number].channel.set_waits(true).map_err(|e| failed(self.nodes[number].role, &e))?;
            while self.nodes[number].report.is_none() {
                let node = &mut self.nodes[number];
                match node.channel.receive::<Answer>().map_err(|e| failed(node.role, &e))? {
                    Some(Answer::Window(rows)) => on_event(RelayEvent::Window(Box::new(window(&rows, &self.name, &self.labels)))),
                    Some(Answer::Report(report)) => node.report = Some(*report),
                    Some(Answer::Failed { reason }) => return Err(failed(node.role, &reason)),
                    Some(Answer::Done) => {}
                    None => return Err(failed(node.role, &"no report in time")),
                }
            }
        }
        on_event(RelayEvent::Spans(self.flows.spans().to_vec()));
        self.ends.report(&mut self.report);
        let mut report = self.report;
        report.unnumbered = self.flows.unnumbered();
        report.reported_drops = [0, 1].map(|end| self.ends.devices[end].reported_drops());
        for rejected in self.ends.devices.iter().map(Device::rejected) {
            report.too_large += rejected.too_large;
            report.malformed += rejected.malformed;
            report.not_forwarded += rejected.other;
        }
        report.kernel_rejected += self.outlets.iter().map(|outlet| outlet.dropped).sum::<u64>();
        // The bridge does not know when packets are due: the nodes do.
        (report.lateness_n, report.late) = (0, 0);
        (report.lateness_p50_ms, report.lateness_p99_ms, report.lateness_p999_ms, report.lateness_max_ms) = (None, None, None, None);
        let mut overhead: BTreeMap<String, u64> = BTreeMap::new();
        let mut add = |name: &str, value: u64| {
            let total = overhead.entry(name.to_owned()).or_default();
            *total = if name.starts_with("peak_") { value.max(*total) } else { *total + value };
        };
        for node in self.nodes.iter().filter_map(|node| node.report.as_ref()) {
            let counts = &node.counts;
            report.lost += counts.lost;
            report.no_route.up += counts.no_route[Direction::Up as usize];
            report.no_route.down += counts.no_route[Direction::Down as usize];
            report.held += node.held;
            report.kernel_rejected += node.frames_lost + node.unread;
            report.lateness_n += node.lateness_n;
            report.late += node.late;
            for (most, of_node) in [
                (&mut report.lateness_p50_ms, node.lateness_p50_ms),
                (&mut report.lateness_p99_ms, node.lateness_p99_ms),
                (&mut report.lateness_p999_ms, node.lateness_p999_ms),
                (&mut report.lateness_max_ms, node.lateness_max_ms),
            ] {
                *most = [*most, of_node].into_iter().flatten().reduce(f64::max);
            }
            node.overhead.iter().for_each(|(name, &value)| add(name, value));
            add("node_frames", counts.frames);
            add("node_header_bytes", counts.outer_bytes);
            add("node_malformed", counts.malformed);
            add("node_frames_lost", node.frames_lost);
            add("node_processor_ms", node.processor_ns / 1_000_000);
        }
        report.refused = report.no_route.up + report.no_route.down;
        report.no_route = NoRoute { ..report.no_route };
        report.recovery = Some(RecoverySummary { scheme: self.scheme.unwrap_or_else(|| "none".to_owned()), overhead });
        Ok(report)
    }
}

impl Connected {
    fn order(&self, order: &Order) -> Result<(), EmuError> {
        self.channel.send(order).map_err(|e| failed(self.role, &e))
    }

    /// Wait until the node has executed its order.
    fn done(&mut self) -> Result<(), EmuError> {
        match self.channel.receive::<Answer>() {
            Ok(Some(Answer::Done)) => Ok(()),
            Ok(Some(Answer::Failed { reason })) => Err(failed(self.role, &reason)),
            Ok(Some(_)) => Err(EmuError::Internal("a node's answers are out of order")),
            Ok(None) => Err(failed(self.role, &"it does not answer")),
            Err(e) => Err(failed(self.role, &e)),
        }
    }
}

/// Return the rows of a node's window, with the numbers of flows.
fn window(rows: &[WindowRow], name: &str, labels: &BTreeMap<u32, u32>) -> Links {
    let mut links = Links::default();
    for row in rows {
        let number = |label| if label == OTHER_FLOWS { UNNUMBERED_FLOWS } else { labels.get(&label).copied().unwrap_or(UNNUMBERED_FLOWS) };
        let flow = row.label().map_or(-1, |label| i64::from(number(label)));
        links.push(&row.row(name, flow));
    }
    links
}
