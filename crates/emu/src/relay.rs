//! The event loop: it reads packets from one device, passes them through the Profile's link elements, and writes them to the other, in real time.
//!
//! ```text
//!   client's kernel ── TUN ──▶ Network (up)   ──▶ TUN ── server's kernel
//!                   ◀── TUN ── Network (down) ◀── TUN ──
//! ```
//! The [`Gateway`] at the server's end takes packets for other destinations and returns their replies.
//!
//! The elements use *logical* time: later elements see a late packet at its due time. So lateness is measured per packet and does not accumulate.

mod ends;
pub mod recovery;
mod report;

pub(crate) use ends::PathEnds;
pub use report::{RelayEvent, RelayReport};

use crate::capture::Tap;
use crate::clock::{Clock, Timer, WallClockDrift};
use crate::device::{Buffer, Device};
use crate::ecn;
use crate::error::{EmuError, system};
use crate::flows::FlowTable;
use crate::gateway::{Action, Gateway};
use crate::grouping::Grouping;
use crate::header::Header;
use crate::lateness::Lateness;
use crate::passages::Passages;
use crate::scheduling::Scheduling;
use crate::spec::{AtEnd, Begin};
use bentpipe_link::stats::DelayHistogram;
use bentpipe_link::windows::LINK_WINDOW;
use bentpipe_link::{Network, Outcome, Packet};
use bentpipe_profile::run::{Links, NoRoute};
use bentpipe_profile::{Direction, Nanos, Profile, Streams, Time};
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use recovery::PathRecovery;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Most reads from one device before the relay delivers due packets and reads the other.
const BATCH: usize = 16;

/// Epoll tokens, after the devices' 0 and 1.
const TIMER: u64 = 2;
const GATEWAY: u64 = 3;

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
    ends: PathEnds,
    profile: Arc<Profile>,
    role: String,
    recovery: PathRecovery,
    streams: Streams,
    begin: Begin,
    at_end: AtEnd,
    start: Time,
    passages: Passages,
    flows: FlowTable,
    outcomes: Vec<(Outcome, Packet)>,
    received: Vec<Buffer>,
    next_window: Time,
    is_over: bool,
    scheduling: Scheduling,
    ingress_wait: DelayHistogram,
    wakeup: Lateness,
    /// When each device was last found empty, plus the relay's sleep since then.
    empty_since: [Time; 2],
    report: RelayReport,
}

impl Relay {
    /// Creates a relay over `profile`; `streams` provide the per-packet draws.
    ///
    /// # Errors
    /// A Profile that is no network, or no descriptor left.
    pub fn new(
        profile: Arc<Profile>,
        role: &str,
        (mut recovery, streams): (PathRecovery, Streams),
        (begin, at_end): (Begin, AtEnd),
        devices: [Device; 2],
        gateway: Option<Gateway>,
        grouping: Grouping,
    ) -> Result<Self, EmuError> {
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC).map_err(system("epoll_create"))?;
        let timer = Timer::new()?;
        let gateway_fd = gateway.as_ref().map(AsFd::as_fd);
        let others = [(timer.as_fd(), TIMER)].into_iter().chain(gateway_fd.map(|fd| (fd, GATEWAY)));
        for (fd, name) in devices.iter().map(AsFd::as_fd).zip(0..).chain(others) {
            epoll.add(fd, EpollEvent::new(EpollFlags::EPOLLIN, name)).map_err(system("epoll_ctl"))?;
        }
        let network = recovery.network(&profile, streams)?;
        Ok(Self {
            clock: Clock::starting_at(Time::ZERO, Nanos(0)),
            wall_drift: WallClockDrift::now(),
            timer,
            epoll,
            ends: PathEnds::new(devices, gateway),
            profile,
            role: role.to_owned(),
            recovery,
            streams,
            begin,
            at_end,
            start: Time::ZERO,
            passages: Passages::new(network),
            flows: FlowTable::new(grouping),
            outcomes: Vec::new(),
            received: Vec::new(),
            next_window: Time::ZERO,
            is_over: false,
            scheduling: Scheduling::default(),
            ingress_wait: DelayHistogram::default(),
            wakeup: Lateness::default(),
            empty_since: [Time::ZERO; 2],
            report: RelayReport::default(),
        })
    }

    /// Captures every packet with `tap`.
    pub fn capture(&mut self, tap: Tap) {
        self.passages.current.network.record_stages();
        self.ends.tap = Some(tap);
    }

    /// Relays from the clock's base until `stop` is set; `stop` is checked at every event and at least twice a second.
    ///
    /// # Errors
    /// A device that fails.
    pub fn run(mut self, clock: Clock, stop: &AtomicBool, mut on_event: impl FnMut(RelayEvent)) -> Result<RelayReport, EmuError> {
        (self.clock, self.ends.clock) = (clock, clock);
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
                    self.ends.gateway.iter().for_each(Gateway::acknowledge);
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
        if !self.ends.devices[direction as usize].receive(|buffer| received.push(buffer))? {
            self.received = received;
            return Ok(false);
        }
        // After the read: an earlier time could precede the packet's sending and shorten the path.
        let now = self.clock.now();
        self.ingress_wait.record(now.since(self.empty_since[direction as usize]));
        self.advance(now)?;
        for mut buffer in received.drain(..) {
            if let (Some(gateway), Direction::Down) = (&mut self.ends.gateway, direction) {
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
                self.ends.devices[direction as usize].recycle(buffer);
                return;
            }
        };
        let key = self.flows.key(&header, direction);
        let (flow, new) = self.flows.slot(key, now);
        if let Some((flow, number)) = new {
            on_event(RelayEvent::Flow(flow, number));
        }
        let ecn = ecn::codepoint(buffer.packet());
        let (bytes, body) = self.ends.store(buffer);
        let packet = Packet { ecn, flow_hash: key.hash(), ..Packet::new(self.passages.current.time(now), 0, direction, flow, bytes, body) };
        if self.passages.current.network.send(packet).is_err() {
            self.report.refused += 1;
            self.ends.refuse(body, direction, now);
        } else if let Some(tap) = &mut self.ends.tap {
            tap.entered(&packet, now);
        }
    }

    /// Performs the gateway's actions. False: there were none.
    fn run_gateway(&mut self, on_event: &mut impl FnMut(RelayEvent)) -> Result<bool, EmuError> {
        let mut any = false;
        for _ in 0..BATCH {
            let Some(action) = self.ends.gateway.as_mut().and_then(Gateway::next_action) else { break };
            any = true;
            match action {
                Action::EnterPath(packet) => {
                    let now = self.clock.now();
                    self.advance(now)?;
                    match self.ends.devices[Direction::Down as usize].wrap(&packet) {
                        Some(buffer) => self.enter(buffer, Direction::Down, now, on_event),
                        None => self.report.too_large += 1,
                    }
                }
                Action::Admit { packet, client, server } => {
                    on_event(RelayEvent::Split { client, server });
                    self.ends.admit(&packet)?;
                }
            }
        }
        Ok(any)
    }

    /// Runs all passages to `now` and delivers due packets.
    fn advance(&mut self, now: Time) -> Result<(), EmuError> {
        let mut outcomes = std::mem::take(&mut self.outcomes);
        for number in 0..self.passages.count() {
            let passage = self.passages.get_mut(number);
            let (time, shift) = (passage.time(now), passage.shift);
            passage.network.run_until(time, &mut outcomes);
            report_stages(&mut self.ends.tap, &mut passage.network);
            self.ends.deliver(&mut outcomes, shift, now)?;
        }
        self.passages.end_drained();
        self.outcomes = outcomes;
        Ok(())
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
        let mut network = self.recovery.network(&self.profile, self.streams)?;
        network.run_until(at, &mut Vec::new());
        if self.ends.tap.is_some() {
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
        self.ends.close_capture(now);
        self.report.wall_clock_off_ms = matches!(self.begin, Begin::WallClock(_)).then(|| self.wall_drift.largest().as_secs_f64() * 1e3);
        self.report.unnumbered = self.flows.unnumbered();
        self.report.reported_drops = [0, 1].map(|end| self.ends.devices[end].reported_drops());
        for rejected in self.ends.devices.iter().map(Device::rejected) {
            self.report.too_large += rejected.too_large;
            self.report.malformed += rejected.malformed;
            self.report.not_forwarded += rejected.other;
        }
        let no_route = |direction| self.passages.current.network.no_route_drops(0, direction);
        self.report.no_route = NoRoute { up: no_route(Direction::Up), down: no_route(Direction::Down) };
        self.report.recovery = self.recovery.summary();
        self.report.held = self.passages.packets() as u64;
        self.ends.report(&mut self.report);
        self.report.ingress_wait_p99_ms = (self.ingress_wait.n() > 0).then(|| self.ingress_wait.quantile_ms(99, 100));
        (self.report.wakeups, self.report.wakeups_late) = (self.wakeup.n(), self.wakeup.late());
        self.report.wakeup_p99_ms = self.wakeup.quantile_ms(99, 100);
        self.report.wakeup_max_ms = self.wakeup.max_ms();
        self.report
    }
}
