//! One emulation from beginning to end, as process 1 of its namespaces.
//!
//! Everything that happens arrives as an [`Event`] on one channel. Messages to the parent are one JSON object a line ([`crate::messages`]).

use crate::address::{self, Addresses};
use crate::capture::{self, Anchor, CaptureReport, Files};
use crate::clock::Clock;
use crate::close_events::CloseEvents;
use crate::descriptors;
use crate::diag::Diag;
use crate::error::{EmuError, system};
use crate::flows::Span;
use crate::gateway::counters::Counters;
use crate::gateway::event_loop;
use crate::host::Host;
use crate::interface::Dropped;
use crate::isolation::{Privilege, set_up_init};
use crate::messages::{Done, MessageWriter, Stopped};
use crate::names::name_server;
use crate::observation::Observation;
use crate::programs::{self, ChildReaper, ExitReason};
use crate::race_flows::{self, Progress};
use crate::relay::{Relay, RelayEvent, RelayReport};
use crate::result::{EmulationResult, FlowResult};
use crate::sampler::{ObservedFlow, Sampler};
use crate::server::{self, Processes};
use crate::spec::{Spec, Workload, read_spec};
use crate::sysctl;
use bentpipe_profile::experiment::{Application, EcnMode, Experiment, FlowSpec, HostSpec, ProfileRef};
use bentpipe_profile::run::{Events, Samples};
use bentpipe_profile::{Nanos, Profile, Streams, Time};
use nix::unistd::Pid;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::net::IpAddr;
use std::path::Path;
use std::process;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Time between checks whether the server listens.
const LISTEN_POLL_INTERVAL: Duration = Duration::from_millis(10);

/// Wait after a UDP socket appeared without a TCP one: a server may open TCP next, or use the UDP socket for something else. Chosen here.
const UDP_ONLY_WAIT: Duration = Duration::from_millis(300);

/// Time for the path and the flows of a race to set up before its start, so that flows start on time. Chosen here: up to 4 ms were measured.
const LEAD: Nanos = Nanos::from_millis(20);

/// Grace period for the kernel's close events after the program's end. The kernel sends them from a work queue, within a few milliseconds on an
/// idle machine. Chosen here.
const CLOSE_EVENTS_GRACE: Duration = Duration::from_millis(300);

/// Input of the session.
enum Event {
    Relay(RelayEvent),
    Ended(Pid, ExitReason),
    Terminate,
}

/// Runs one emulation and returns the exit status. `control` carries the specification and stays open while the parent lives; `supervisor` stays
/// open while the process lives that made the namespaces; messages go to `report`.
#[must_use]
pub fn run(privilege: Privilege, mut control: File, supervisor: File, report: File) -> i32 {
    let Ok(mut messages) = MessageWriter::new(report) else { return 1 }; // no channel for an error
    let outcome = prepare(privilege, &mut control, supervisor).and_then(|prepared| emulate(prepared, privilege, control, &mut messages));
    if let Err(error) = &outcome {
        messages.error(error);
    }
    messages.close();
    i32::from(outcome.is_err())
}

fn emulate(mut prepared: Prepared, privilege: Privilege, control: File, messages: &mut MessageWriter) -> Result<(), EmuError> {
    let events = prepared.events.clone();
    watch_pipe(control, move |_| drop(events.send(Event::Terminate)))?;
    let server = match prepared.context.spec.workload.clone() {
        Workload::Program { server: Some(line), server_log, .. } => {
            Some(prepared.start_server(&line, server_log.as_deref().map(Path::new))?)
        }
        _ => None,
    };
    prepared.begin(privilege, messages)?.run(server, messages)
}

/// State that lives as long as the emulation.
struct Context {
    spec: Spec,
    profile: Arc<Profile>,
    hosts: [Host; 2],
    addresses: [Addresses; 2],
    sampler: Sampler,
    gateway: Option<Arc<Counters>>,
    reaper: ChildReaper,
    events_rx: Receiver<Event>,
    /// The program and its server, without the orphans that process 1 reaps.
    watched: Vec<Pid>,
    ended: BTreeMap<Pid, ExitReason>,
    /// Why the program was stopped early.
    stop_reason: Option<Stopped>,
}

/// Both hosts and the relay, before the path starts.
struct Prepared {
    context: Context,
    relay: Relay,
    files: Option<Files>,
    events: Sender<Event>,
}

/// The server and the processes that it started.
struct Server {
    pid: Pid,
    processes: Processes,
}

/// A running emulation.
struct Session {
    context: Context,
    clock: Clock,
    start: Time,
    stop_relay: Arc<AtomicBool>,
    relay: JoinHandle<Result<RelayReport, EmuError>>,
    capture: Option<JoinHandle<CaptureReport>>,
    next_sample: Time,
}

fn prepare(privilege: Privilege, control: &mut File, supervisor: File) -> Result<Prepared, EmuError> {
    set_up_init(privilege)?;
    descriptors::raise_limit();
    let (spec, profile) = read_spec(control)?;
    let (events, events_rx) = channel();
    // Without the process that made the namespaces, the exit status would reach no one.
    watch_pipe(supervisor, |_| {})?;
    let exit_events = events.clone();
    let reaper = ChildReaper::start(move |pid, ending| drop(exit_events.send(Event::Ended(pid, ending))))?;
    let (client, server) = address::addresses(address::free_depth()?);
    let (client_host, client_device) = Host::start("client", client, spec.mtu, true)?;
    let (server_host, server_device) = Host::start("server", server, spec.mtu, false)?;
    name_server(server, spec.mtu >= address::IPV6_MTU)?;
    let hosts = [client_host, server_host];
    for host in &hosts {
        let settings = spec.hosts.clone();
        let keep_metrics = !matches!(spec.workload, Workload::Race { .. });
        let ecn = spec.ecn();
        host.run(move || apply_host_settings(settings.as_ref(), keep_metrics, ecn))?;
    }
    let close_events = hosts[0].run(CloseEvents::listen).and_then(|client| Ok([client, hosts[1].run(CloseEvents::listen)?]));
    let sampler = Sampler::new([hosts[0].run(Diag::open)?, hosts[1].run(Diag::open)?], close_events);
    let profile = spec.path(profile)?;
    let streams = Streams::new(spec.seed);
    let (gateway, counters) = match spec.workload {
        Workload::Program { .. } => {
            let (gateway, counters) =
                event_loop::start(&hosts[1], [client, server], spec.mtu, spec.gateway_controller.as_deref(), spec.internet)?;
            (Some(gateway), Some(counters))
        }
        Workload::Race { .. } => (None, None), // both ends of its flows are inside
    };
    // Indexed by the direction in which the host behind the device sends.
    let devices = [client_device, server_device];
    let relay = Relay::new(Arc::clone(&profile), &spec.role, streams, (spec.begin, spec.at_end), devices, gateway)?;
    let files = spec.capture.as_deref().map(Path::new).map(Files::create).transpose()?;
    let addresses = [client, server];
    let (watched, ended) = (Vec::new(), BTreeMap::new());
    let context =
        Context { spec, profile, hosts, addresses, sampler, gateway: counters, reaper, events_rx, watched, ended, stop_reason: None };
    Ok(Prepared { context, relay, files, events })
}

impl Prepared {
    /// Starts the server and waits until it listens. The path has not started: packets sent now wait in the device.
    fn start_server(&mut self, line: &OsStr, log: Option<&Path>) -> Result<Server, EmuError> {
        let failed = |reason: String| EmuError::Server { program: line.to_string_lossy().into_owned(), reason };
        let (pid, output) = server::start(&self.context.hosts[1], line, log, &self.context.reaper)?;
        self.context.watched.push(pid);
        let processes = Processes::of(&self.context.hosts[1]);
        let timeout = Duration::from_nanos(self.context.spec.listen_within_ns.0);
        let (began, mut udp_since) = (Instant::now(), None);
        while self.context.stop_reason.is_none() {
            // Read before the socket table: a process that ends in between may have left its sockets to another. A daemon's first process exits with 0.
            let ending = self.context.ended.get(&pid).filter(|&&ending| ending != ExitReason::Code(0) || processes.are_gone());
            let is_waiting = ending.is_none() && began.elapsed() <= timeout;
            let sockets = self.context.sampler.listening_sockets()?;
            udp_since = if sockets.udp { udp_since.or_else(|| Some(Instant::now())) } else { None };
            if sockets.tcp || udp_since.is_some_and(|since: Instant| !is_waiting || since.elapsed() >= UDP_ONLY_WAIT) {
                break;
            }
            if let Some(ending) = ending {
                return Err(failed(format!("ended before it listened ({ending}){}", output.last_lines())));
            }
            if !is_waiting {
                let reason = if sockets.loopback {
                    "listens on the loopback only, which the path does not reach: bind it to all addresses (0.0.0.0, ::)"
                } else {
                    "listens neither on TCP nor on UDP (--listen-within)"
                };
                return Err(failed(format!("after {} s it {reason}{}", timeout.as_secs_f64(), output.last_lines())));
            }
            match self.context.events_rx.recv_timeout(LISTEN_POLL_INTERVAL) {
                Ok(Event::Ended(ended, ending)) if ended == pid => drop(self.context.ended.insert(ended, ending)),
                Ok(Event::Terminate) => self.context.stop_reason = Some(Stopped::Requested),
                _ => {}
            }
        }
        Ok(Server { pid, processes })
    }

    /// Starts the path and the Profile's clock.
    fn begin(self, privilege: Privilege, messages: &mut MessageWriter) -> Result<Session, EmuError> {
        let Self { context, mut relay, files, events } = self;
        let (spec, profile) = (&context.spec, &context.profile);
        let stop_relay = Arc::new(AtomicBool::new(false));
        let lead = if matches!(spec.workload, Workload::Race { .. }) { LEAD } else { Nanos(0) };
        // One instant for both clocks: later set-up takes its time from the Profile's.
        let machine = SystemTime::now() + Duration::from_nanos(lead.0);
        let start = spec.begin.resolve(profile.start(), machine);
        let clock = Clock::starting_at(start, lead);
        let clock_unix_ns = machine.duration_since(UNIX_EPOCH).map_or(0, |d| d.as_nanos());
        let capture = match files {
            Some(files) => {
                let anchor = Anchor { unix_ns: u64::try_from(clock_unix_ns).unwrap_or(0), at: start };
                let (tap, writer) = capture::start(files, Arc::clone(profile), anchor)?;
                relay.capture(tap);
                Some(writer)
            }
            None => None,
        };
        let stop = Arc::clone(&stop_relay);
        let relay = thread::Builder::new()
            .name("relay".to_owned())
            .spawn(move || relay.run(clock, &stop, |item| drop(events.send(Event::Relay(item)))))
            .map_err(system("thread of the relay"))?;
        messages.started(&context.hosts, context.addresses, start, clock_unix_ns, privilege);
        Ok(Session { context, clock, start, stop_relay, relay, capture, next_sample: start })
    }
}

/// Ends the process, and so everything in its PID namespace, when the other end of `pipe` closes. Calls `on_byte` for each byte.
fn watch_pipe(mut pipe: File, on_byte: impl Fn(u8) + Send + 'static) -> Result<(), EmuError> {
    let watch = move || {
        let mut byte = [0];
        loop {
            match pipe.read(&mut byte) {
                Ok(1) => on_byte(byte[0]),
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                _ => break,
            }
        }
        process::exit(1);
    };
    let spawned = thread::Builder::new().name("watch_pipe".to_owned()).spawn(watch);
    spawned.map(drop).map_err(system("thread of a pipe watcher"))
}

fn apply_host_settings(settings: Option<&HostSpec>, keep_metrics: bool, ecn: Option<EcnMode>) -> Result<(), EmuError> {
    if !keep_metrics {
        // Cached metrics of this run must not influence the next.
        sysctl::set_sysctl("ipv4/tcp_no_metrics_save", "1")?;
    }
    if let Some(ecn) = ecn {
        // 1: request and accept ECN; 3: AccECN too, which kernels before Linux 6.18 refuse.
        let setting = match ecn {
            EcnMode::Off => "0",
            EcnMode::Classic => "1",
            EcnMode::Accurate => "3",
        };
        sysctl::set_sysctl("ipv4/tcp_ecn", setting)?;
    }
    if let Some(settings) = settings {
        sysctl::set_sysctl("ipv4/tcp_rmem", &format!("4096 131072 {}", settings.rmem_max_bytes.0))?;
        sysctl::set_sysctl("ipv4/tcp_wmem", &format!("4096 16384 {}", settings.wmem_max_bytes.0))?;
    }
    Ok(())
}

impl Session {
    fn run(mut self, server: Option<Server>, messages: &mut MessageWriter) -> Result<(), EmuError> {
        match self.context.spec.workload.clone() {
            Workload::Program { command, .. } => {
                let (stopped, ending) = if let Some(stop_reason) = self.context.stop_reason {
                    (stop_reason, Some(ExitReason::Signal(nix::libc::SIGTERM))) // stopped while the server started: the program is not started
                } else {
                    let program = programs::start(&self.context.hosts[0], &command, &self.context.reaper)?;
                    self.context.watched.push(program);
                    self.wait_for(program, messages)?
                };
                self.sample(messages)?;
                if let Some(server) = server {
                    self.stop_server(&server, messages);
                    self.sample(messages)?;
                }
                self.drain_close_events(messages)?;
                self.finish(messages, stopped, ending, None)
            }
            Workload::Race { experiment } => {
                let progress = self.start_flows(&experiment)?;
                let end = self.start + experiment.duration_ns;
                let stopped = self.wait_until(end, messages)?;
                for (flow, progress) in experiment.flows.iter().zip(&progress) {
                    if let Some(reason) = progress.failed() {
                        return Err(EmuError::Flow { controller: flow.controller.clone(), reason: reason.to_owned() });
                    }
                }
                let flows = self.race_results(&experiment, &progress);
                self.finish(messages, stopped, None, Some((*experiment, flows)))
            }
        }
    }

    fn wait_for(&mut self, program: Pid, messages: &mut MessageWriter) -> Result<(Stopped, Option<ExitReason>), EmuError> {
        let mut deadline = None;
        loop {
            let stopped = if deadline.is_some() { self.context.stop_reason.unwrap_or(Stopped::Program) } else { Stopped::Program };
            if let Some(&ending) = self.context.ended.get(&program) {
                return Ok((stopped, Some(ending)));
            }
            if deadline.is_some_and(|at| self.clock.now() >= at) {
                return Ok((stopped, None)); // it ignores the signal: the kernel kills it with the namespace
            }
            // Without the relay there is no path; `finish` returns its error.
            if deadline.is_none() && (self.context.stop_reason.is_some() || self.relay.is_finished()) {
                programs::terminate(program);
                deadline = Some(self.clock.now() + self.context.spec.grace_ns);
            }
            self.process_until(deadline, messages, |event| {
                matches!(event, Event::Terminate | Event::Relay(RelayEvent::ProfileEnded) | Event::Ended(..))
            })?;
        }
    }

    fn wait_until(&mut self, end: Time, messages: &mut MessageWriter) -> Result<Stopped, EmuError> {
        self.process_until(Some(end), messages, |event| matches!(event, Event::Terminate))?;
        self.sample(messages)?;
        Ok(self.context.stop_reason.unwrap_or(Stopped::Program))
    }

    /// Handles events and takes samples until `deadline`, or until `enough` returns true for an event.
    fn process_until(
        &mut self,
        deadline: Option<Time>,
        messages: &mut MessageWriter,
        mut enough: impl FnMut(&Event) -> bool,
    ) -> Result<(), EmuError> {
        loop {
            let now = self.clock.now();
            if deadline.is_some_and(|at| now >= at) {
                return Ok(());
            }
            if now >= self.next_sample {
                self.sample(messages)?;
                let step = self.context.spec.sample_step_ns.0.max(1);
                self.next_sample = Time(self.start.0 + (now.since(self.start).0 / step + 1) * step);
            }
            let until = deadline.map_or(self.next_sample, |at| at.min(self.next_sample));
            if let Ok(event) = self.context.events_rx.recv_timeout(Duration::from_nanos(until.since(now).0)) {
                let done = enough(&event);
                self.handle(event, messages);
                if done {
                    return Ok(());
                }
            }
            if self.relay.is_finished() {
                return Ok(()); // it failed: `finish` returns its error
            }
        }
    }

    fn handle(&mut self, event: Event, messages: &mut MessageWriter) {
        match event {
            Event::Relay(RelayEvent::Flow(key, number)) => self.context.sampler.add_flow(key, number),
            Event::Relay(RelayEvent::Split { client, server }) => self.context.sampler.add_alias(client, server),
            Event::Relay(RelayEvent::Window(links)) => messages.table("links", &links.columns()),
            Event::Ended(pid, ending) => {
                if self.context.watched.contains(&pid) {
                    self.context.ended.insert(pid, ending);
                }
            }
            Event::Relay(RelayEvent::Spans(_)) => {} // sent when the relay ends: `finish` reads it
            Event::Relay(RelayEvent::ProfileEnded) => drop(self.context.stop_reason.get_or_insert(Stopped::ProfileEnded)),
            Event::Terminate => drop(self.context.stop_reason.get_or_insert(Stopped::Requested)),
        }
    }

    fn sample(&mut self, messages: &mut MessageWriter) -> Result<(), EmuError> {
        let mut rows = Samples::default();
        self.context.sampler.sample(self.clock.now().since(self.start).as_secs_f64(), &mut rows)?;
        write_samples(&rows, messages);
        Ok(())
    }

    /// Waits up to [`CLOSE_EVENTS_GRACE`] for close events and flow numbers of flows that ended with the program.
    fn drain_close_events(&mut self, messages: &mut MessageWriter) -> Result<(), EmuError> {
        let began = Instant::now();
        loop {
            while let Ok(event) = self.context.events_rx.try_recv() {
                self.handle(event, messages);
            }
            let mut rows = Samples::default();
            self.context.sampler.sample_closed(self.clock.now().since(self.start).as_secs_f64(), &mut rows)?;
            write_samples(&rows, messages);
            if self.context.sampler.has_all_closes() || began.elapsed() >= CLOSE_EVENTS_GRACE {
                return Ok(());
            }
            thread::sleep(LISTEN_POLL_INTERVAL);
        }
    }

    /// Stops the server, with a grace period to write its results.
    fn stop_server(&mut self, server: &Server, messages: &mut MessageWriter) {
        server::terminate(server.pid, &server.processes.living());
        let began = Instant::now();
        let grace = Duration::from_nanos(self.context.spec.grace_ns.0);
        // The kernel kills the rest with the namespace.
        while began.elapsed() < grace && !(self.context.ended.contains_key(&server.pid) && server.processes.living().is_empty()) {
            if let Ok(event) = self.context.events_rx.recv_timeout(LISTEN_POLL_INTERVAL) {
                self.handle(event, messages);
            }
        }
    }

    fn start_flows(&self, experiment: &Experiment) -> Result<Vec<Arc<Progress>>, EmuError> {
        let addresses = self.context.addresses.map(|a| IpAddr::V4(a.v4));
        let end = self.start + experiment.duration_ns;
        let hosts = [&self.context.hosts[0], &self.context.hosts[1]];
        (0_u16..)
            .zip(&experiment.flows)
            .map(|(index, flow)| race_flows::start(hosts, addresses, index, flow, self.clock, self.start, end))
            .collect()
    }

    /// Results of the race's flows. The relay numbers flows by first packet; the ports identify them.
    fn race_results(&self, experiment: &Experiment, progress: &[Arc<Progress>]) -> Vec<FlowResult> {
        let index_of = |seen: &ObservedFlow| {
            let ports = [seen.key.client.port(), seen.key.server.port()];
            let index = ports.into_iter().filter_map(|p| p.checked_sub(race_flows::FIRST_PORT)).map(usize::from);
            index.filter(|&i| i < experiment.flows.len()).min()
        };
        let seen: BTreeMap<usize, (u32, &ObservedFlow)> =
            self.context.sampler.observed().iter().filter_map(|(&number, seen)| Some((index_of(seen)?, (number, seen)))).collect();
        let flows = experiment.flows.iter().zip(progress).enumerate().map(|(index, (flow, progress))| {
            let seen = seen.get(&index);
            FlowResult {
                number: seen.map(|(number, _)| *number),
                start: self.start + Nanos(flow.start_ns.0),
                stop: flow.stop_ns.map_or(Time::MAX, |stop| self.start + Nanos(stop.0)),
                completed: progress.completed().filter(|_| matches!(flow.application, Application::Bytes(_))),
                delivered_bytes: progress.received_bytes.load(Ordering::Relaxed),
                is_complete: true,
                retransmits: seen.map_or(0, |(_, s)| s.retransmits),
                marks: seen.map_or(0, |(_, s)| s.marks),
            }
        });
        flows.collect()
    }

    fn finish(
        self,
        messages: &mut MessageWriter,
        stopped: Stopped,
        ending: Option<ExitReason>,
        race: Option<(Experiment, Vec<FlowResult>)>,
    ) -> Result<(), EmuError> {
        let end = self.clock.now();
        let failed = |_| EmuError::Internal("the relay's thread failed");
        if self.relay.is_finished() {
            // It ended without being stopped, so it failed; its devices are gone with it.
            self.relay.join().map_err(failed)??;
            return Err(EmuError::Internal("the relay ended before its time"));
        }
        let mut dropped = [Dropped::default(); 2]; // read now: a device and its counters vanish with the relay
        for (host, count) in self.context.hosts.iter().zip(&mut dropped) {
            *count = host.dropped()?;
        }
        self.stop_relay.store(true, Ordering::Relaxed);
        let report = self.relay.join().map_err(failed)??;
        let device_drops = [0, 1].map(|end| dropped[end].unreported(report.reported_drops[end]));
        let capture = self.capture.map(JoinHandle::join).transpose();
        let capture = capture.map_err(|_| EmuError::Internal("the capture's thread failed"))?;
        let mut spans = Vec::new();
        while let Ok(event) = self.context.events_rx.try_recv() {
            match event {
                Event::Relay(RelayEvent::Window(links)) => messages.table("links", &links.columns()),
                Event::Relay(RelayEvent::Spans(reason)) => spans = reason,
                _ => {}
            }
        }
        let mut events = Events::default();
        events.push_path(&self.context.profile, self.start, end);
        messages.table("events", &events.columns());
        let start_late_max_ms = race.as_ref().and_then(|(_, flows)| start_late_max_ms(flows, &spans));
        let observation = Observation { sampler: &self.context.sampler, spans: &spans, start: self.start };
        let (experiment, flows) = race.unwrap_or_else(|| {
            let flows = observation.specs(&self.context.spec.role);
            (program_experiment(&self.context.spec, &self.context.profile, (self.start, end), flows), observation.results())
        });
        let result = EmulationResult { experiment, flows, start: self.start, end, packets: report.delivered, no_route: report.no_route };
        let endpoints = self.context.sampler.observed().values().map(|seen| (seen.key.client, seen.key.server)).collect();
        let gateway = self.context.gateway.as_deref();
        let (closes_missed, closes_unavailable) = self.context.sampler.closes_missed();
        messages.done(&Done {
            stopped,
            ending,
            relay: report,
            gateway,
            capture,
            device_drops,
            result,
            flows_without_samples: self.context.sampler.flows_without_samples(),
            sockets_unreadable: self.context.sampler.unreadable(),
            start_late_max_ms,
            closes_missed,
            closes_unavailable,
            endpoints,
            rows_lost: messages.rows_lost(),
        });
        Ok(())
    }
}

/// Largest delay between a flow's start time and its first packet at the path [ms].
fn start_late_max_ms(flows: &[FlowResult], spans: &[Span]) -> Option<f64> {
    let first = |flow: &FlowResult| Some(spans.get(flow.number? as usize)?.first.since(flow.start).as_secs_f64() * 1e3);
    flows.iter().filter_map(first).reduce(f64::max)
}

fn write_samples(rows: &Samples, messages: &mut MessageWriter) {
    if !rows.t_s.is_empty() {
        messages.table("samples", &rows.columns());
    }
}

/// The Experiment that describes a program's flows from `during.0` to `during.1`.
fn program_experiment(spec: &Spec, profile: &Profile, during: (Time, Time), flows: Vec<FlowSpec>) -> Experiment {
    let (start, end) = during;
    Experiment {
        name: "program".to_owned(),
        seed: spec.seed,
        duration_ns: end.since(start),
        warmup_ns: Nanos(0),
        sample_step_ns: spec.sample_step_ns,
        offset_ns: Nanos(start.0),
        profiles: vec![ProfileRef { role: spec.role.clone(), name: profile.name().to_owned(), hash: profile.content_hash() }],
        hosts: BTreeMap::new(),
        flows,
        queues: spec.queues.clone(),
        cross: Vec::new(),
    }
}
