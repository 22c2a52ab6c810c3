//! A node's process: its network namespace, its wires, and the event loop around [`NodeCore`].

use super::attachment::{self, Inlet, Outlet};
use super::core::{NodeCore, Sink};
use super::plan::Role;
use super::protocol::{Answer, Channel, NodeReport, Order, Setup, WindowRow};
use super::recording::Recording;
use super::wire::{self, Receiver, Sender};
use crate::clock::{Clock, Timer};
use crate::error::{EmuError, system};
use crate::scheduling::{processor_time, raise_priority};
use crate::spec::read_spec;
use bentpipe_link::windows::LINK_WINDOW;
use bentpipe_profile::run::Links;
use bentpipe_profile::{Streams, Time};
use nix::errno::Errno;
use nix::sched::{CloneFlags, unshare};
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::Signal;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;

/// Most frames read from one wire before the node sends what is due and reads the next.
const BATCH: usize = 64;
/// Epoll tokens, after those of the wires.
const CONTROL: u64 = 1 << 32;
const TIMER: u64 = CONTROL + 1;
const HOST: u64 = CONTROL + 2;

/// Where a node sends.
struct Outlets {
    wires: Vec<Sender>,
    host: Option<Outlet>,
    recording: Option<Recording>,
}

impl Sink for Outlets {
    fn to_node(&mut self, to: Role, headers: &[u8], inner: &[u8]) {
        let Some(wire) = self.wires.iter_mut().find(|wire| wire.peer == to) else { return };
        if let Some(recording) = &mut self.recording {
            recording.record([wire.link_header(), headers, inner]);
        }
        wire.send(headers, inner);
    }

    fn to_host(&mut self, label: u32, packet: &[u8]) {
        if let Some(host) = &mut self.host {
            host.push(label, packet);
        }
    }
}

/// Run a node until the session stops it; returns the exit status. `control`: socket for messages; `host`: socket for the packets of the host at its end.
#[must_use]
pub fn run(control: OwnedFd, host: Option<OwnedFd>) -> i32 {
    let mut channel = Channel::new(UnixStream::from(control));
    let outcome = run_node(&mut channel, host);
    if let Err(error) = &outcome {
        let _ = channel.send(&Answer::Failed { reason: error.to_string() });
    }
    i32::from(outcome.is_err())
}

fn run_node(channel: &mut Channel, host: Option<OwnedFd>) -> Result<(), EmuError> {
    set_pdeathsig(Signal::SIGKILL).map_err(system("PR_SET_PDEATHSIG"))?;
    let (spec, profile) = read_spec(channel.reader())?;
    let profile = spec.path(profile)?;
    unshare(CloneFlags::CLONE_NEWNET).map_err(system("network namespace of a node"))?;
    answer(channel, &Answer::Done)?;
    let Order::Setup(setup) = order(channel)? else { return Err(EmuError::Internal("a node's orders are out of order")) };
    let Setup { role, wires: setups, ring_bytes, recording } = *setup;
    for wire in &setups {
        if let Some(pid) = wire.pid {
            wire::make_pair(&wire.peer.to_string(), &role.to_string(), pid)?;
        }
    }
    answer(channel, &Answer::Done)?;
    let Order::Open = order(channel)? else { return Err(EmuError::Internal("a node's orders are out of order")) };
    let (mut receivers, mut wires) = (Vec::new(), Vec::new());
    for wire in &setups {
        let (receiver, sender) = wire::open(wire.peer, &wire.peer.to_string(), wire.pid.is_some(), ring_bytes)?;
        receivers.push(receiver);
        wires.push(sender);
    }
    let core = NodeCore::new(&profile, role, spec.recovery(), Streams::new(spec.seed))?;
    let file = |folder| Recording::create(&Path::new(&folder).join(format!("{role}.pcap")));
    let recording = recording.map(file).transpose()?;
    let (inlet, host) = host.map(attachment::open).transpose()?.unzip();
    answer(channel, &Answer::Done)?;
    let Order::Start { anchor_ns, base } = order(channel)? else { return Err(EmuError::Internal("a node's orders are out of order")) };
    let node = NodeProcess { core, receivers, inlet, outlets: Outlets { wires, host, recording }, clock: Clock::at(anchor_ns, base) };
    node.run(channel, &spec.role)
}

fn order(channel: &mut Channel) -> Result<Order, EmuError> {
    channel.receive().map_err(system("read of the session's orders"))?.ok_or(EmuError::Orphaned)
}

fn answer(channel: &Channel, answer: &Answer) -> Result<(), EmuError> {
    channel.send(answer).map_err(system("answer to the session"))
}

struct NodeProcess {
    core: NodeCore,
    receivers: Vec<Receiver>,
    inlet: Option<Inlet>,
    outlets: Outlets,
    clock: Clock,
}

impl NodeProcess {
    fn run(mut self, channel: &mut Channel, name: &str) -> Result<(), EmuError> {
        channel.set_waits(false).map_err(system("a node's socket"))?;
        raise_priority();
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC).map_err(system("epoll_create"))?;
        let mut timer = Timer::new()?;
        let add = |fd: std::os::fd::BorrowedFd<'_>, token| {
            epoll.add(fd, EpollEvent::new(EpollFlags::EPOLLIN, token)).map_err(system("epoll_ctl"))
        };
        for (token, receiver) in (0..).zip(&self.receivers) {
            add(receiver.as_fd(), token)?;
        }
        add(channel.as_fd(), CONTROL)?;
        add(timer.as_fd(), TIMER)?;
        if let Some(inlet) = &self.inlet {
            add(inlet.as_fd(), HOST)?;
        }
        let start = self.clock.base();
        self.core.start(start);
        let mut next_window = start + LINK_WINDOW;
        let mut events = [EpollEvent::empty(); 8];
        loop {
            let mut is_idle = !self.read()?;
            let now = self.clock.now();
            self.core.advance(now, &mut self.outlets);
            let is_full = match &mut self.outlets.host {
                Some(host) => host.flush()?,
                None => false,
            };
            if now >= next_window {
                self.window(channel, name, next_window)?;
                while next_window <= now {
                    next_window = next_window + LINK_WINDOW;
                }
                is_idle = false;
            }
            if !is_idle {
                continue;
            }
            let wake = self.core.wake_at().map_or(next_window, |at| at.min(next_window));
            let wake = if is_full { wake.min(now + bentpipe_profile::Nanos::from_micros(200)) } else { wake };
            timer.set(&self.clock, Some(wake))?;
            let ready = match epoll.wait(&mut events, EpollTimeout::from(500_u16)) {
                Ok(ready) => ready,
                Err(Errno::EINTR) => 0,
                Err(e) => return Err(system("epoll_wait")(e)),
            };
            let is_ready = |token: u64| events[..ready].iter().any(|event| event.data() == token);
            if is_ready(TIMER) {
                timer.acknowledge();
            }
            if is_ready(CONTROL) {
                match channel.receive() {
                    Ok(Some(Order::Stop)) => return self.stop(channel, name),
                    Ok(_) => {}
                    Err(_) => return Err(EmuError::Orphaned),
                }
            }
        }
    }

    /// Read frames and packets of the host. False: none waited.
    fn read(&mut self) -> Result<bool, EmuError> {
        let mut any = false;
        for receiver in &mut self.receivers {
            for _ in 0..BATCH {
                let (core, outlets, clock, peer) = (&mut self.core, &mut self.outlets, &self.clock, receiver.peer);
                let read = receiver.receive(|packet| {
                    // A frame that is no IPv6 packet is malformed like any other.
                    core.from_node(clock.now(), peer, packet.unwrap_or_default(), outlets);
                });
                if !read.map_err(system("read from a node's wire"))? {
                    break;
                }
                any = true;
            }
        }
        if let Some(inlet) = &mut self.inlet {
            let (core, outlets, clock) = (&mut self.core, &mut self.outlets, &self.clock);
            match inlet.receive(|label, packet| core.from_host(clock.now(), label, packet, outlets))? {
                Some(false) => return Err(EmuError::Orphaned),
                read => any |= read.is_some(),
            }
        }
        Ok(any)
    }

    fn window(&mut self, channel: &Channel, name: &str, at: Time) -> Result<(), EmuError> {
        let mut links = Links::default();
        self.core.window(name, at, at.since(self.clock.base()).as_secs_f64(), &mut links);
        let rows: Vec<WindowRow> = links.rows().map(|row| WindowRow::of(&row)).collect();
        if rows.is_empty() { Ok(()) } else { answer(channel, &Answer::Window(rows)) }
    }

    fn stop(mut self, channel: &Channel, name: &str) -> Result<(), EmuError> {
        let now = self.clock.now();
        self.core.advance(now, &mut self.outlets);
        self.window(channel, name, now)?;
        let mut frames_lost = self.outlets.wires.iter().map(|wire| wire.refused).sum();
        for receiver in &self.receivers {
            frames_lost += receiver.overflow()?.count()?;
        }
        if let Some(recording) = self.outlets.recording.take() {
            recording.close()?;
        }
        let lateness = self.core.lateness();
        let report = NodeReport {
            counts: *self.core.counts(),
            overhead: self.core.overhead(),
            frames_lost,
            unread: self.outlets.host.as_ref().map_or(0, |host| host.dropped),
            held: self.core.packets() as u64,
            lateness_n: lateness.n(),
            late: lateness.late(),
            lateness_p50_ms: lateness.quantile_ms(50, 100),
            lateness_p99_ms: lateness.quantile_ms(99, 100),
            lateness_p999_ms: lateness.quantile_ms(999, 1000),
            lateness_max_ms: lateness.max_ms(),
            processor_ns: processor_time()?,
        };
        answer(channel, &Answer::Report(Box::new(report)))
    }
}
