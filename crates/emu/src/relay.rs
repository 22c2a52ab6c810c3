//! The event loop: it reads packets from one device, passes them through the Profile's link elements, and writes them to the other, in real time.
//!
//! ```text
//!   client's kernel ── TUN ──▶ Network (up)   ──▶ TUN ── server's kernel
//!                   ◀── TUN ── Network (down) ◀── TUN ──
//! ```
//! The [`Gateway`] at the server's end takes packets for other destinations and returns their replies.
//!
//! The elements use *logical* time: later elements see a late packet at its due time. So lateness is measured per packet and does not accumulate.

use crate::capture::{Content, Tap};
use crate::clock::{Clock, Timer, WallClockDrift};
use crate::device::{Buffer, Device};
use crate::ecn;
use crate::error::{EmuError, system};
use crate::flows::{FlowTable, Span};
use crate::gateway::{Action, Disposition, Gateway};
use crate::gro::GroBuffer;
use crate::header::{FlowKey, Header};
use crate::lateness::Lateness;
use crate::passages::Passages;
use crate::scheduling::Scheduling;
use crate::spec::{AtEnd, Begin};
use bentpipe_link::stats::DelayHistogram;
use bentpipe_link::windows::LINK_WINDOW;
use bentpipe_link::{Ecn, Network, Outcome, Packet};
use bentpipe_profile::run::{Links, NoRoute};
use bentpipe_profile::{Direction, Nanos, Profile, Streams, Time};
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use serde::Serialize;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Most reads from one device before the relay delivers due packets and reads the other.
const BATCH: usize = 16;

/// Epoll tokens, after the devices' 0 and 1.
const TIMER: u64 = 2;
const GATEWAY: u64 = 3;

/// Message from the relay to the session.
pub enum RelayEvent {
    /// First packet of a flow that has its own number.
    Flow(FlowKey, u32),
    /// The gateway split a connection: its two sets of addresses and ports.
    Split {
        /// As the client sees it.
        client: FlowKey,
        /// As the server's kernel sees it.
        server: FlowKey,
    },
    /// Rows of one window of the `links` table.
    Window(Box<Links>),
    /// The Profile is over (`--at-end stop`).
    ProfileEnded,
    /// The relay ends: first and last packet of each flow, by number.
    Spans(Vec<Span>),
}

/// The relay's counters and its measurements of its own lateness.
#[derive(Clone, Debug, Default, Serialize)]
pub struct RelayReport {
    /// Packets delivered.
    pub delivered: u64,
    /// Packets dropped by link elements.
    pub lost: u64,
    /// Packets dropped because there was no route.
    pub refused: u64,
    /// `refused` by direction.
    #[serde(skip)]
    pub no_route: NoRoute,
    /// Packets still on the path at the end.
    pub held: u64,
    /// Packets that the receiving kernel rejected.
    pub kernel_rejected: u64,
    /// Those of them that a device dropped with an error (`ENOBUFS`), by device.
    #[serde(skip)]
    pub reported_drops: [u64; 2],
    /// Packets that are not IP or are link-local multicast: no router forwards them, and neither does the path.
    pub not_forwarded: u64,
    /// Packets larger than the path's MTU: dropped before the path, and their senders informed by ICMP.
    pub too_large: u64,
    /// Buffers that could not be split into packets: dropped before the path.
    pub malformed: u64,
    /// Packets delivered in one buffer with the packet before, since both were due within 10 µs.
    pub coalesced: u64,
    /// Packets with a measured lateness.
    pub lateness_n: u64,
    /// Those of them that were later than [`crate::lateness::BOUND`].
    pub late: u64,
    /// Time between a packet's logical time and its delivery, median [ms]; `None`: no packets.
    pub lateness_p50_ms: Option<f64>,
    /// 99th percentile.
    pub lateness_p99_ms: Option<f64>,
    /// 99.9th percentile.
    pub lateness_p999_ms: Option<f64>,
    /// Largest.
    pub lateness_max_ms: Option<f64>,
    /// Upper bound of the time that packets waited in a device's queue before the relay read them, 99th percentile of reads [ms]: time since the queue
    /// was last found empty, without the time that the relay slept (a packet that arrives then wakes it: `wakeup_p99_ms`). `None`: no reads.
    pub ingress_wait_p99_ms: Option<f64>,
    /// Timer wake-ups.
    pub wakeups: u64,
    /// Those of them that were later than [`crate::lateness::BOUND`].
    pub wakeups_late: u64,
    /// Time between a timer's expiry and the relay's wake-up, 99th percentile [ms]; a packet that wakes the relay waits as long. `None`: no wake-ups.
    pub wakeup_p99_ms: Option<f64>,
    /// Packets of TCP connections beyond the largest flow number: the path carried them, but no flow of the summary includes their bytes.
    pub unnumbered: u64,
    /// Restarts of the Profile.
    pub loops: u64,
    /// Largest drift of the machine's wall clock from the Profile's clock [ms]; `None`: the Profile does not follow the wall clock.
    pub wall_clock_off_ms: Option<f64>,
    /// Whether the kernel granted `SCHED_FIFO`, which requires root.
    pub realtime: bool,
}

/// Packets that leave the path at nearly the same time.
#[derive(Default)]
struct Burst {
    buffer: GroBuffer,
    /// Its packets, each with its due time and its bytes for the capture.
    packets: Vec<(Packet, Time, Option<Content>)>,
}

/// Passes the network's stage records to the capture.
fn report_stages(tap: &mut Option<Tap>, network: &mut Network) {
    if let Some(tap) = tap {
        network.take_stages().for_each(|stage| tap.record_stage(&stage));
    }
}

/// See the module.
pub struct Relay {
    clock: Clock,
    wall_drift: WallClockDrift,
    timer: Timer,
    epoll: Epoll,
    /// Indexed by the direction of the packets read from it: the client's, the server's.
    devices: [Device; 2],
    gateway: Option<Gateway>,
    profile: Arc<Profile>,
    role: String,
    streams: Streams,
    begin: Begin,
    at_end: AtEnd,
    start: Time,
    passages: Passages,
    flows: FlowTable,
    bodies: Vec<Option<Buffer>>,
    free: Vec<u32>,
    outcomes: Vec<(Outcome, Packet)>,
    received: Vec<Buffer>,
    next_window: Time,
    is_over: bool,
    lateness: Lateness,
    scheduling: Scheduling,
    ingress_wait: DelayHistogram,
    wakeup: Lateness,
    /// When each device was last found empty, plus the relay's sleep since then.
    empty_since: [Time; 2],
    report: RelayReport,
    tap: Option<Tap>,
    /// By direction.
    bursts: [Burst; 2],
}

impl Relay {
    /// Creates a relay over `profile`; `streams` provide the per-packet draws.
    ///
    /// # Errors
    /// A Profile that is no network, or no descriptor left.
    pub fn new(
        profile: Arc<Profile>,
        role: &str,
        streams: Streams,
        (begin, at_end): (Begin, AtEnd),
        devices: [Device; 2],
        gateway: Option<Gateway>,
    ) -> Result<Self, EmuError> {
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC).map_err(system("epoll_create"))?;
        let timer = Timer::new()?;
        let gateway_fd = gateway.as_ref().map(AsFd::as_fd);
        let others = [(timer.as_fd(), TIMER)].into_iter().chain(gateway_fd.map(|fd| (fd, GATEWAY)));
        for (fd, name) in devices.iter().map(AsFd::as_fd).zip(0..).chain(others) {
            epoll.add(fd, EpollEvent::new(EpollFlags::EPOLLIN, name)).map_err(system("epoll_ctl"))?;
        }
        let network = Network::new(&[&profile], streams)?;
        Ok(Self {
            clock: Clock::starting_at(Time::ZERO, Nanos(0)),
            wall_drift: WallClockDrift::now(),
            timer,
            epoll,
            devices,
            gateway,
            profile,
            role: role.to_owned(),
            streams,
            begin,
            at_end,
            start: Time::ZERO,
            passages: Passages::new(network),
            flows: FlowTable::default(),
            bodies: Vec::new(),
            free: Vec::new(),
            outcomes: Vec::new(),
            received: Vec::new(),
            next_window: Time::ZERO,
            is_over: false,
            lateness: Lateness::default(),
            scheduling: Scheduling::default(),
            ingress_wait: DelayHistogram::default(),
            wakeup: Lateness::default(),
            empty_since: [Time::ZERO; 2],
            report: RelayReport::default(),
            tap: None,
            bursts: Default::default(),
        })
    }

    /// Captures every packet with `tap`.
    pub fn capture(&mut self, tap: Tap) {
        self.passages.current.network.record_stages();
        self.tap = Some(tap);
    }

    /// Relays from the clock's base until `stop` is set; `stop` is checked at every event and at least twice a second.
    ///
    /// # Errors
    /// A device that fails.
    pub fn run(mut self, clock: Clock, stop: &AtomicBool, mut on_event: impl FnMut(RelayEvent)) -> Result<RelayReport, EmuError> {
        self.clock = clock;
        self.wall_drift = WallClockDrift::now();
        self.start = clock.base();
        self.next_window = self.start + LINK_WINDOW;
        self.empty_since = [self.start; 2];
        self.passages.current.network.run_until(self.start, &mut Vec::new()); // apply routes and events before the start
        self.scheduling.enable(self.clock.now())?;
        self.report.realtime = self.scheduling.allows_realtime();
        let mut events = [EpollEvent::empty(); 4];
        while !stop.load(Ordering::Relaxed) {
            let mut idle = true;
            for direction in Direction::BOTH {
                let before = self.clock.now();
                for _ in 0..BATCH {
                    if !self.read_device(direction, &mut on_event)? {
                        self.empty_since[direction as usize] = before;
                        break;
                    }
                    idle = false;
                }
                self.advance(self.clock.now())?;
            }
            idle &= !self.run_gateway(&mut on_event)?;
            let now = self.clock.now();
            self.check_deadlines(now, &mut on_event)?;
            self.scheduling.update(now)?;
            if !idle {
                continue;
            }
            let due = self.wake_at();
            let spin = self.scheduling.spin();
            if due.since(now) > spin {
                let wake = self.scheduling.wake_time(due);
                self.timer.set(&self.clock, Some(wake))?;
                let slept = self.clock.now();
                let ready = match self.epoll.wait(&mut events, EpollTimeout::from(500_u16)) {
                    Ok(ready) => ready,
                    Err(nix::errno::Errno::EINTR) => 0,
                    Err(e) => return Err(system("epoll_wait")(e)),
                };
                let is_ready = |name: u64| events[..ready].iter().any(|event| event.data() == name);
                if is_ready(TIMER) {
                    self.timer.acknowledge();
                    self.wakeup.record(self.clock.now().since(wake));
                }
                // A packet that arrived during the sleep ended it. A packet from before the sleep has waited that much longer.
                let asleep = self.clock.now().since(slept);
                self.empty_since = self.empty_since.map(|empty| empty + asleep);
                if is_ready(GATEWAY) {
                    self.gateway.iter().for_each(Gateway::acknowledge);
                }
            }
            self.advance(self.clock.now())?;
        }
        self.window(self.clock.now(), &mut on_event);
        on_event(RelayEvent::Spans(self.flows.spans().to_vec()));
        Ok(self.report())
    }

    /// Moves packets from the device at the start of `direction` into the network. False: none were waiting.
    fn read_device(&mut self, direction: Direction, on_event: &mut impl FnMut(RelayEvent)) -> Result<bool, EmuError> {
        let mut received = std::mem::take(&mut self.received);
        if !self.devices[direction as usize].receive(|buffer| received.push(buffer))? {
            self.received = received;
            return Ok(false);
        }
        // After the read: an earlier time could precede the packet's sending and shorten the path.
        let now = self.clock.now();
        self.ingress_wait.record(now.since(self.empty_since[direction as usize]));
        self.advance(now)?;
        for mut buffer in received.drain(..) {
            if let (Some(gateway), Direction::Down) = (&mut self.gateway, direction) {
                gateway.inbound(buffer.packet_mut());
            }
            self.enter(buffer, direction, now, on_event);
        }
        self.received = received;
        Ok(true)
    }

    fn enter(&mut self, buffer: Buffer, direction: Direction, now: Time, on_event: &mut impl FnMut(RelayEvent)) {
        let header = match Header::read(buffer.packet()) {
            Some(header) if !header.is_link_local_multicast() => header,
            read => {
                let is_cut = read.is_none() && buffer.packet().first().is_some_and(|first| matches!(first >> 4, 4 | 6));
                *if is_cut { &mut self.report.malformed } else { &mut self.report.not_forwarded } += 1;
                self.devices[direction as usize].recycle(buffer);
                return;
            }
        };
        let key = self.flows.key(&header, direction);
        let (flow, new) = self.flows.slot(key, now);
        if let Some(number) = new {
            on_event(RelayEvent::Flow(key, number));
        }
        let ecn = ecn::codepoint(buffer.packet());
        let (bytes, body) = self.store(buffer);
        let packet = Packet { ecn, flow_hash: key.hash(), ..Packet::new(self.passages.current.time(now), 0, direction, flow, bytes, body) };
        if self.passages.current.network.send(packet).is_err() {
            self.report.refused += 1;
            if let (Some(tap), Some(buffer)) = (&mut self.tap, &self.bodies[body as usize]) {
                tap.refused(direction, buffer.packet(), now);
            }
            self.release(body, direction);
        } else if let Some(tap) = &mut self.tap {
            tap.entered(&packet, now);
        }
    }

    /// Performs the gateway's actions. False: there were none.
    fn run_gateway(&mut self, on_event: &mut impl FnMut(RelayEvent)) -> Result<bool, EmuError> {
        let mut any = false;
        for _ in 0..BATCH {
            let Some(action) = self.gateway.as_mut().and_then(Gateway::next_action) else { break };
            any = true;
            match action {
                Action::EnterPath(packet) => {
                    let now = self.clock.now();
                    self.advance(now)?;
                    match self.devices[Direction::Down as usize].wrap(&packet) {
                        Some(buffer) => self.enter(buffer, Direction::Down, now, on_event),
                        None => self.report.too_large += 1,
                    }
                }
                Action::Admit { packet, client, server } => {
                    on_event(RelayEvent::Split { client, server });
                    let device = &mut self.devices[Direction::Up.reverse() as usize];
                    let Some(buffer) = device.wrap(&packet) else { continue };
                    if !device.send(&buffer)? {
                        self.report.kernel_rejected += 1;
                    }
                    device.recycle(buffer);
                }
            }
        }
        Ok(any)
    }

    #[allow(clippy::cast_possible_truncation)] // packets and their number are small
    fn store(&mut self, buffer: Buffer) -> (u32, u32) {
        let bytes = buffer.packet().len() as u32;
        let body = self.free.pop().unwrap_or_else(|| {
            self.bodies.push(None);
            self.bodies.len() as u32 - 1
        });
        self.bodies[body as usize] = Some(buffer);
        (bytes, body)
    }

    fn release(&mut self, body: u32, direction: Direction) {
        if let Some(buffer) = self.bodies[body as usize].take() {
            self.free.push(body);
            self.devices[direction as usize].recycle(buffer);
        }
    }

    /// Runs all passages to `now` and delivers due packets.
    fn advance(&mut self, now: Time) -> Result<(), EmuError> {
        let mut outcomes = std::mem::take(&mut self.outcomes);
        for number in 0..self.passages.count() {
            let passage = self.passages.get_mut(number);
            let (time, shift) = (passage.time(now), passage.shift);
            passage.network.run_until(time, &mut outcomes);
            report_stages(&mut self.tap, &mut passage.network);
            self.deliver(&mut outcomes, shift, now)?;
        }
        self.passages.end_drained();
        self.outcomes = outcomes;
        Ok(())
    }

    /// Delivers or drops packets that left the network. Later packets enter at `now` or after.
    fn deliver(&mut self, outcomes: &mut Vec<(Outcome, Packet)>, shift: Nanos, now: Time) -> Result<(), EmuError> {
        let may_coalesce = outcomes.len() > 1;
        for (outcome, packet) in outcomes.drain(..) {
            match outcome {
                Outcome::Delivered => self.deliver_packet(packet, packet.at + shift, may_coalesce, now)?,
                Outcome::Dropped(cause) => {
                    self.report.lost += 1;
                    if let (Some(tap), Some(buffer)) = (&mut self.tap, &self.bodies[packet.body as usize]) {
                        tap.dropped(&packet, buffer.packet(), cause, now);
                    }
                }
            }
            self.release(packet.body, packet.direction);
        }
        Direction::BOTH.into_iter().try_for_each(|direction| self.flush_burst(direction, now))
    }

    /// Delivers a packet to the kernel or the gateway at its end of the path. With `may_coalesce` it may wait for the next packet of this call.
    fn deliver_packet(&mut self, packet: Packet, due: Time, may_coalesce: bool, now: Time) -> Result<(), EmuError> {
        let Some(buffer) = &mut self.bodies[packet.body as usize] else { return Ok(()) };
        if packet.ecn == Ecn::Ce {
            ecn::mark(buffer.packet_mut());
        }
        // Copied before the gateway, which may rewrite its addresses.
        let captured = self.tap.as_mut().and_then(|tap| tap.copy(packet.body, buffer.packet()));
        let way_out = self.gateway.as_mut().filter(|_| packet.direction == Direction::Up);
        if way_out.is_some_and(|gateway| gateway.outbound(buffer.packet_mut()) == Disposition::Consumed) {
            self.record_delivery(&packet, due, captured, true, now);
            return Ok(());
        }
        let device = packet.direction.reverse() as usize;
        // Coalescing recomputes the checksum, and a sender's wrong checksum must stay wrong.
        if may_coalesce && buffer.is_checksum_computed() && self.devices[device].accepts_bursts() {
            for _ in 0..2 {
                let Some(buffer) = &self.bodies[packet.body as usize] else { return Ok(()) };
                let burst = &mut self.bursts[packet.direction as usize];
                if burst.buffer.append(buffer.packet(), due) {
                    burst.packets.push((packet, due, captured));
                    return Ok(());
                }
                if burst.buffer.is_empty() {
                    break;
                }
                self.flush_burst(packet.direction, now)?; // earlier packets go first
            }
        }
        let Some(buffer) = &self.bodies[packet.body as usize] else { return Ok(()) };
        let is_accepted = self.devices[device].send(buffer)?;
        self.record_delivery(&packet, due, captured, is_accepted, now);
        Ok(())
    }

    /// Writes the coalesced packets to the kernel at the end of `direction`.
    fn flush_burst(&mut self, direction: Direction, now: Time) -> Result<(), EmuError> {
        let burst = &mut self.bursts[direction as usize];
        if burst.buffer.is_empty() {
            return Ok(());
        }
        let is_accepted = self.devices[direction.reverse() as usize].send_burst(&mut burst.buffer)?.unwrap_or(false);
        let mut packets = std::mem::take(&mut burst.packets);
        self.report.coalesced += packets.len() as u64 - 1;
        for (packet, due, captured) in packets.drain(..) {
            self.record_delivery(&packet, due, captured, is_accepted, now);
        }
        self.bursts[direction as usize].packets = packets;
        Ok(())
    }

    fn record_delivery(&mut self, packet: &Packet, due: Time, captured: Option<Content>, is_accepted: bool, now: Time) {
        let handed_at = self.clock.now();
        let late = handed_at.since(due);
        self.lateness.record(late);
        if is_accepted {
            self.report.delivered += 1;
        } else {
            self.report.kernel_rejected += 1;
        }
        if let Some(tap) = &mut self.tap {
            tap.delivered(packet, captured, handed_at, late, is_accepted, now);
        }
    }

    fn wake_at(&self) -> Time {
        let profile_end = Some(self.profile_end()).filter(|_| !self.is_over && self.at_end != AtEnd::Hold);
        [self.passages.wake_at(), profile_end].into_iter().flatten().fold(self.next_window, Time::min)
    }

    fn profile_end(&self) -> Time {
        Time(self.profile.duration().0) + self.passages.current.shift
    }

    /// Writes a due window of the `links` table and handles the Profile's end.
    fn check_deadlines(&mut self, now: Time, on_event: &mut impl FnMut(RelayEvent)) -> Result<(), EmuError> {
        if now >= self.next_window {
            self.window(self.next_window, on_event);
            while self.next_window <= now {
                self.next_window = self.next_window + LINK_WINDOW;
            }
        }
        if !self.is_over && now >= self.profile_end() {
            match self.at_end {
                AtEnd::Hold => self.is_over = true,
                AtEnd::Stop => {
                    self.is_over = true;
                    on_event(RelayEvent::ProfileEnded);
                }
                AtEnd::Loop => self.restart()?,
            }
        }
        Ok(())
    }

    /// Restarts the Profile, at the time that its clock rule gives. Packets on the path finish in the old passage's elements.
    fn restart(&mut self) -> Result<(), EmuError> {
        let end = self.profile_end();
        let at = self.begin.restart_at(end);
        let shift = Nanos(end.0 - at.0);
        let mut network = Network::new(&[&self.profile], self.streams)?;
        network.run_until(at, &mut Vec::new());
        if self.tap.is_some() {
            network.record_stages();
        }
        self.passages.restart(network, shift);
        self.report.loops += 1;
        Ok(())
    }

    fn window(&mut self, at: Time, on_event: &mut impl FnMut(RelayEvent)) {
        self.wall_drift.update();
        let mut links = Links::default();
        let t_s = at.since(self.start).as_secs_f64();
        self.passages.record_window(&self.profile, &self.role, at, t_s, &mut links);
        // The elements count by slot; the tables by flow number.
        for flow in &mut links.flow {
            *flow = u32::try_from(*flow).map_or(*flow, |slot| i64::from(self.flows.number(slot)));
        }
        on_event(RelayEvent::Window(Box::new(links)));
    }

    fn report(mut self) -> RelayReport {
        let now = self.clock.now();
        if let Some(tap) = &mut self.tap {
            tap.close(&self.bodies, now);
        }
        self.report.wall_clock_off_ms = matches!(self.begin, Begin::WallClock(_)).then(|| self.wall_drift.largest().as_secs_f64() * 1e3);
        self.report.unnumbered = self.flows.unnumbered();
        self.report.reported_drops = [0, 1].map(|end| self.devices[end].reported_drops());
        for rejected in self.devices.iter().map(Device::rejected) {
            self.report.too_large += rejected.too_large;
            self.report.malformed += rejected.malformed;
            self.report.not_forwarded += rejected.other;
        }
        let no_route = |direction| self.passages.current.network.no_route_drops(0, direction);
        self.report.no_route = NoRoute { up: no_route(Direction::Up), down: no_route(Direction::Down) };
        self.report.held = self.passages.packets() as u64;
        (self.report.lateness_n, self.report.late) = (self.lateness.n(), self.lateness.late());
        self.report.lateness_p50_ms = self.lateness.quantile_ms(50, 100);
        self.report.lateness_p99_ms = self.lateness.quantile_ms(99, 100);
        self.report.lateness_p999_ms = self.lateness.quantile_ms(999, 1000);
        self.report.lateness_max_ms = self.lateness.max_ms();
        self.report.ingress_wait_p99_ms = (self.ingress_wait.n() > 0).then(|| self.ingress_wait.quantile_ms(99, 100));
        (self.report.wakeups, self.report.wakeups_late) = (self.wakeup.n(), self.wakeup.late());
        self.report.wakeup_p99_ms = self.wakeup.quantile_ms(99, 100);
        self.report
    }
}
