//! One emulation from beginning to end, as process 1 of its namespaces.
//!
//! Everything that happens comes in as a [`Word`] on one channel; what the parent is to know goes out as one JSON object a line ([`crate::lines`]).

use crate::account::{Account, FlowAccount};
use crate::bulk::{self, Progress};
use crate::capture::{self, Anchor, CaptureReport, Files};
use crate::clock::Clock;
use crate::closes::Closes;
use crate::descriptors;
use crate::diag::Diag;
use crate::error::{EmuError, system};
use crate::flows::Span;
use crate::gateway::counters::Counters;
use crate::gateway::office;
use crate::host::{self, Host};
use crate::interface::{self, Addresses, Dropped};
use crate::isolation::{Privilege, settle};
use crate::lines::{Done, Lines, Stopped};
use crate::names::name_server;
use crate::observation::Observation;
use crate::programs::{self, Ending, Reaper};
use crate::relay::{News, Relay, RelayReport};
use crate::sampler::{Observed, Sampler};
use crate::server::{self, Processes};
use crate::spec::{Spec, Workload, read_spec};
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

/// Between looks at whether the server listens.
const LISTEN_LOOK: Duration = Duration::from_millis(10);

/// How long a UDP socket alone is waited with: a server may open TCP's next, and a program that will listen may have one for something else. Chosen
/// here.
const TCP_TOO: Duration = Duration::from_millis(300);

/// How long a race's path and flows have to be ready for its beginning, so that its flows start at their time. Chosen here: seen were up to 4 ms.
const LEAD: Nanos = Nanos::from_millis(20);

/// How long after the program's end the kernel has to tell of the sockets that closed with it: it does so from a queue of work of its own, within
/// a few milliseconds on an idle machine. Chosen here.
const LAST_WORDS: Duration = Duration::from_millis(300);

/// Something happened.
enum Word {
    Relay(News),
    Ended(Pid, Ending),
    Terminate,
}

/// Runs one emulation; `control` brings the specification and then stays open as long as the parent lives, `supervisor` as long as the process
/// does that made the namespaces, `report` takes the lines. Returns the exit status.
#[must_use]
pub fn run(privilege: Privilege, mut control: File, supervisor: File, report: File) -> i32 {
    let Ok(mut lines) = Lines::new(report) else { return 1 }; // nobody can be told
    let outcome = prepare(privilege, &mut control, supervisor).and_then(|ends| emulate(ends, privilege, control, &mut lines));
    if let Err(error) = &outcome {
        lines.error(error);
    }
    lines.close();
    i32::from(outcome.is_err())
}

fn emulate(mut ends: Ends, privilege: Privilege, control: File, lines: &mut Lines) -> Result<(), EmuError> {
    let words = ends.words.clone();
    lifeline(control, move |_| drop(words.send(Word::Terminate)))?;
    let server = match ends.common.spec.workload.clone() {
        Workload::Program { server: Some(line), server_log, .. } => Some(ends.serve(&line, server_log.as_deref().map(Path::new))?),
        _ => None,
    };
    ends.begin(privilege, lines)?.run(server, lines)
}

/// What there is from the beginning to the end.
struct Common {
    spec: Spec,
    profile: Arc<Profile>,
    hosts: [Host; 2],
    addresses: [Addresses; 2],
    sampler: Sampler,
    gateway: Option<Arc<Counters>>,
    reaper: Reaper,
    inbox: Receiver<Word>,
    /// The program and its server; not what else process 1 has to wait for.
    watched: Vec<Pid>,
    ended: BTreeMap<Pid, Ending>,
    /// Why the program is to end before it does.
    asked: Option<Stopped>,
}

/// Both ends, while the path between them does not go yet.
struct Ends {
    common: Common,
    relay: Relay,
    files: Option<Files>,
    words: Sender<Word>,
}

/// The server, and what it started.
struct Server {
    pid: Pid,
    processes: Processes,
}

/// The path goes.
struct Session {
    common: Common,
    clock: Clock,
    start: Time,
    stop_relay: Arc<AtomicBool>,
    relay: JoinHandle<Result<RelayReport, EmuError>>,
    capture: Option<JoinHandle<CaptureReport>>,
    next_sample: Time,
}

fn prepare(privilege: Privilege, control: &mut File, supervisor: File) -> Result<Ends, EmuError> {
    settle(privilege)?;
    descriptors::raise();
    let (spec, profile) = read_spec(control)?;
    let (words, inbox) = channel();
    // Without the process that made the namespaces, nobody would hear of the end.
    lifeline(supervisor, |_| {})?;
    let reaped = words.clone();
    let reaper = Reaper::start(move |pid, ending| drop(reaped.send(Word::Ended(pid, ending))))?;
    let (client, server) = interface::addresses(interface::free_depth()?);
    let (client_host, client_device) = Host::start("client", client, spec.mtu, true)?;
    let (server_host, server_device) = Host::start("server", server, spec.mtu, false)?;
    name_server(server, spec.mtu >= interface::IPV6_MTU)?;
    let hosts = [client_host, server_host];
    for host in &hosts {
        let settings = spec.hosts.clone();
        let keep_metrics = !matches!(spec.workload, Workload::Race { .. });
        let ecn = spec.ecn();
        host.run(move || host_settings(settings.as_ref(), keep_metrics, ecn))?;
    }
    let closes = hosts[0].run(Closes::listen).and_then(|client| Ok([client, hosts[1].run(Closes::listen)?]));
    let sampler = Sampler::new([hosts[0].run(Diag::open)?, hosts[1].run(Diag::open)?], closes);
    let profile = spec.path(profile)?;
    let streams = Streams::new(spec.seed);
    let (gateway, counters) = match spec.workload {
        Workload::Program { .. } => {
            let (gateway, counters) =
                office::open(&hosts[1], [client, server], spec.mtu, spec.gateway_controller.as_deref(), spec.internet)?;
            (Some(gateway), Some(counters))
        }
        Workload::Race { .. } => (None, None), // its flows have both ends here
    };
    // A device by the direction of what the host behind it sends.
    let devices = [client_device, server_device];
    let relay = Relay::new(Arc::clone(&profile), &spec.role, streams, (spec.begin, spec.at_end), devices, gateway)?;
    let files = spec.capture.as_deref().map(Path::new).map(Files::create).transpose()?;
    let addresses = [client, server];
    let (watched, ended) = (Vec::new(), BTreeMap::new());
    let common = Common { spec, profile, hosts, addresses, sampler, gateway: counters, reaper, inbox, watched, ended, asked: None };
    Ok(Ends { common, relay, files, words })
}

impl Ends {
    /// Starts the server and waits until it listens. The path does not go yet: what is sent waits at its end for it.
    fn serve(&mut self, line: &OsStr, log: Option<&Path>) -> Result<Server, EmuError> {
        let failed = |found: String| EmuError::Server { program: line.to_string_lossy().into_owned(), found };
        let (pid, said) = server::start(&self.common.hosts[1], line, log, &self.common.reaper)?;
        self.common.watched.push(pid);
        let processes = Processes::of(&self.common.hosts[1]);
        let patience = Duration::from_nanos(self.common.spec.listen_within_ns.0);
        let (began, mut on_udp) = (Instant::now(), None);
        while self.common.asked.is_none() {
            // Before the look at its sockets: one that ends in between may have left them to another. What goes on without its first process ends that
            // with 0.
            let ending = self.common.ended.get(&pid).filter(|&&ending| ending != Ending::Code(0) || processes.are_gone());
            let patient = ending.is_none() && began.elapsed() <= patience;
            let served = self.common.sampler.served()?;
            on_udp = if served.udp { on_udp.or_else(|| Some(Instant::now())) } else { None };
            if served.tcp || on_udp.is_some_and(|since: Instant| !patient || since.elapsed() >= TCP_TOO) {
                break;
            }
            if let Some(ending) = ending {
                return Err(failed(format!("ended before it listened ({ending}){}", said.last_lines())));
            }
            if !patient {
                let found = if served.inside {
                    "listens on the loopback only, which the path does not reach: bind it to all addresses (0.0.0.0, ::)"
                } else {
                    "listens neither on TCP nor on UDP (--listen-within)"
                };
                return Err(failed(format!("after {} s it {found}{}", patience.as_secs_f64(), said.last_lines())));
            }
            match self.common.inbox.recv_timeout(LISTEN_LOOK) {
                Ok(Word::Ended(ended, ending)) if ended == pid => drop(self.common.ended.insert(ended, ending)),
                Ok(Word::Terminate) => self.common.asked = Some(Stopped::Asked),
                _ => {}
            }
        }
        Ok(Server { pid, processes })
    }

    /// Lets the path go, and the Profile's clock with it.
    fn begin(self, privilege: Privilege, lines: &mut Lines) -> Result<Session, EmuError> {
        let Self { common, mut relay, files, words } = self;
        let (spec, profile) = (&common.spec, &common.profile);
        let stop_relay = Arc::new(AtomicBool::new(false));
        let lead = if matches!(spec.workload, Workload::Race { .. }) { LEAD } else { Nanos(0) };
        // One moment for both clocks: what is set up from here on takes its time from the Profile's.
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
            .spawn(move || relay.run(clock, &stop, |item| drop(words.send(Word::Relay(item)))))
            .map_err(system("thread of the relay"))?;
        lines.started(&common.hosts, common.addresses, start, clock_unix_ns, privilege);
        Ok(Session { common, clock, start, stop_relay, relay, capture, next_sample: start })
    }
}

/// Ends the process, and with it everything inside, when the other end of `pipe` closes; `heard` is told of each byte.
fn lifeline(mut pipe: File, heard: impl Fn(u8) + Send + 'static) -> Result<(), EmuError> {
    let watch = move || {
        let mut byte = [0];
        loop {
            match pipe.read(&mut byte) {
                Ok(1) => heard(byte[0]),
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                _ => break,
            }
        }
        process::exit(1);
    };
    let spawned = thread::Builder::new().name("lifeline".to_owned()).spawn(watch);
    spawned.map(drop).map_err(system("thread of the lifeline"))
}

fn host_settings(settings: Option<&HostSpec>, keep_metrics: bool, ecn: Option<EcnMode>) -> Result<(), EmuError> {
    if !keep_metrics {
        // The next run must not begin with what this one learnt.
        host::require("ipv4/tcp_no_metrics_save", "1")?;
    }
    if let Some(ecn) = ecn {
        // 1: asks and accepts; 3: the same with accurate feedback, which kernels before Linux 6.18 refuse.
        let setting = match ecn {
            EcnMode::Off => "0",
            EcnMode::Classic => "1",
            EcnMode::Accurate => "3",
        };
        host::require("ipv4/tcp_ecn", setting)?;
    }
    if let Some(settings) = settings {
        host::require("ipv4/tcp_rmem", &format!("4096 131072 {}", settings.rmem_max_bytes.0))?;
        host::require("ipv4/tcp_wmem", &format!("4096 16384 {}", settings.wmem_max_bytes.0))?;
    }
    Ok(())
}

impl Session {
    fn run(mut self, server: Option<Server>, lines: &mut Lines) -> Result<(), EmuError> {
        match self.common.spec.workload.clone() {
            Workload::Program { command, .. } => {
                let (stopped, ending) = if let Some(asked) = self.common.asked {
                    (asked, Some(Ending::Signal(nix::libc::SIGTERM))) // while the server was waited for: the program does not begin any more
                } else {
                    let program = programs::start(&self.common.hosts[0], &command, &self.common.reaper)?;
                    self.common.watched.push(program);
                    self.wait_for(program, lines)?
                };
                self.sample(lines)?;
                if let Some(server) = server {
                    self.stop_server(&server, lines);
                    self.sample(lines)?;
                }
                self.hear_last_words(lines)?;
                self.finish(lines, stopped, ending, None)
            }
            Workload::Race { experiment } => {
                let progress = self.start_flows(&experiment)?;
                let end = self.start + experiment.duration_ns;
                let stopped = self.wait_until(end, lines)?;
                for (flow, progress) in experiment.flows.iter().zip(&progress) {
                    if let Some(found) = progress.failed() {
                        return Err(EmuError::Flow { controller: flow.controller.clone(), found: found.to_owned() });
                    }
                }
                let flows = self.race_account(&experiment, &progress);
                self.finish(lines, stopped, None, Some((*experiment, flows)))
            }
        }
    }

    fn wait_for(&mut self, program: Pid, lines: &mut Lines) -> Result<(Stopped, Option<Ending>), EmuError> {
        let mut deadline = None;
        loop {
            let stopped = if deadline.is_some() { self.common.asked.unwrap_or(Stopped::Program) } else { Stopped::Program };
            if let Some(&ending) = self.common.ended.get(&program) {
                return Ok((stopped, Some(ending)));
            }
            if deadline.is_some_and(|at| self.clock.now() >= at) {
                return Ok((stopped, None)); // ignores the signal: it ends with the namespace
            }
            // Without the relay there is no path, and `finish` says why.
            if deadline.is_none() && (self.common.asked.is_some() || self.relay.is_finished()) {
                programs::terminate(program);
                deadline = Some(self.clock.now() + self.common.spec.grace_ns);
            }
            self.hear_until(deadline, lines, |word| matches!(word, Word::Terminate | Word::Relay(News::ProfileEnded) | Word::Ended(..)))?;
        }
    }

    fn wait_until(&mut self, end: Time, lines: &mut Lines) -> Result<Stopped, EmuError> {
        self.hear_until(Some(end), lines, |word| matches!(word, Word::Terminate))?;
        self.sample(lines)?;
        Ok(self.common.asked.unwrap_or(Stopped::Program))
    }

    /// Takes what comes, and samples in time, until `deadline` or until a word is `enough`.
    fn hear_until(&mut self, deadline: Option<Time>, lines: &mut Lines, mut enough: impl FnMut(&Word) -> bool) -> Result<(), EmuError> {
        loop {
            let now = self.clock.now();
            if deadline.is_some_and(|at| now >= at) {
                return Ok(());
            }
            if now >= self.next_sample {
                self.sample(lines)?;
                let step = self.common.spec.sample_step_ns.0.max(1);
                self.next_sample = Time(self.start.0 + (now.since(self.start).0 / step + 1) * step);
            }
            let until = deadline.map_or(self.next_sample, |at| at.min(self.next_sample));
            if let Ok(word) = self.common.inbox.recv_timeout(Duration::from_nanos(until.since(now).0)) {
                let done = enough(&word);
                self.hear(word, lines);
                if done {
                    return Ok(());
                }
            }
            if self.relay.is_finished() {
                return Ok(()); // it failed: `finish` says how
            }
        }
    }

    fn hear(&mut self, word: Word, lines: &mut Lines) {
        match word {
            Word::Relay(News::Flow(key, number)) => self.common.sampler.learn(key, number),
            Word::Relay(News::Split { client, server }) => self.common.sampler.split(client, server),
            Word::Relay(News::Window(links)) => lines.table("links", &links.columns()),
            Word::Ended(pid, ending) => {
                if self.common.watched.contains(&pid) {
                    self.common.ended.insert(pid, ending);
                }
            }
            Word::Relay(News::Spans(_)) => {} // the relay's last word: `finish` takes it
            Word::Relay(News::ProfileEnded) => drop(self.common.asked.get_or_insert(Stopped::ProfileEnded)),
            Word::Terminate => drop(self.common.asked.get_or_insert(Stopped::Asked)),
        }
    }

    fn sample(&mut self, lines: &mut Lines) -> Result<(), EmuError> {
        let mut rows = Samples::default();
        self.common.sampler.sample(self.clock.now().since(self.start).as_secs_f64(), &mut rows)?;
        write_samples(&rows, lines);
        Ok(())
    }

    /// Waits a moment for the closes, and the numbers, of flows that ended with the program.
    fn hear_last_words(&mut self, lines: &mut Lines) -> Result<(), EmuError> {
        let began = Instant::now();
        loop {
            while let Ok(word) = self.common.inbox.try_recv() {
                self.hear(word, lines);
            }
            let mut rows = Samples::default();
            self.common.sampler.sample_closed(self.clock.now().since(self.start).as_secs_f64(), &mut rows)?;
            write_samples(&rows, lines);
            if self.common.sampler.is_settled() || began.elapsed() >= LAST_WORDS {
                return Ok(());
            }
            thread::sleep(LISTEN_LOOK);
        }
    }

    /// A server that writes its results on the way out gets the time for it.
    fn stop_server(&mut self, server: &Server, lines: &mut Lines) {
        server::terminate(server.pid, &server.processes.living());
        let began = Instant::now();
        let grace = Duration::from_nanos(self.common.spec.grace_ns.0);
        // What then remains ends with the namespace.
        while began.elapsed() < grace && !(self.common.ended.contains_key(&server.pid) && server.processes.living().is_empty()) {
            if let Ok(word) = self.common.inbox.recv_timeout(LISTEN_LOOK) {
                self.hear(word, lines);
            }
        }
    }

    fn start_flows(&self, experiment: &Experiment) -> Result<Vec<Arc<Progress>>, EmuError> {
        let addresses = self.common.addresses.map(|a| IpAddr::V4(a.v4));
        let end = self.start + experiment.duration_ns;
        let hosts = [&self.common.hosts[0], &self.common.hosts[1]];
        (0_u16..)
            .zip(&experiment.flows)
            .map(|(index, flow)| bulk::start(hosts, addresses, index, flow, self.clock, self.start, end))
            .collect()
    }

    /// What the race's flows came to. The relay numbers flows as it meets them; the ports say which is which.
    fn race_account(&self, experiment: &Experiment, progress: &[Arc<Progress>]) -> Vec<FlowAccount> {
        let index_of = |seen: &Observed| {
            let ports = [seen.key.client.port(), seen.key.server.port()];
            let index = ports.into_iter().filter_map(|p| p.checked_sub(bulk::FIRST_PORT)).map(usize::from);
            index.filter(|&i| i < experiment.flows.len()).min()
        };
        let seen: BTreeMap<usize, (u32, &Observed)> =
            self.common.sampler.observed().iter().filter_map(|(&number, seen)| Some((index_of(seen)?, (number, seen)))).collect();
        let flows = experiment.flows.iter().zip(progress).enumerate().map(|(index, (flow, progress))| {
            let seen = seen.get(&index);
            FlowAccount {
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
        lines: &mut Lines,
        stopped: Stopped,
        ending: Option<Ending>,
        race: Option<(Experiment, Vec<FlowAccount>)>,
    ) -> Result<(), EmuError> {
        let end = self.clock.now();
        let failed = |_| EmuError::Internal("the relay's thread failed");
        if self.relay.is_finished() {
            // It ends when it is told to, or fails; its devices are gone with it.
            self.relay.join().map_err(failed)??;
            return Err(EmuError::Internal("the relay ended before its time"));
        }
        let mut dropped = [Dropped::default(); 2]; // a device and its counters go with the relay
        for (host, count) in self.common.hosts.iter().zip(&mut dropped) {
            *count = host.dropped()?;
        }
        self.stop_relay.store(true, Ordering::Relaxed);
        let report = self.relay.join().map_err(failed)??;
        let device_drops = [0, 1].map(|end| dropped[end].untold(report.told_lost[end]));
        let capture = self.capture.map(JoinHandle::join).transpose();
        let capture = capture.map_err(|_| EmuError::Internal("the capture's thread failed"))?;
        let mut spans = Vec::new();
        while let Ok(word) = self.common.inbox.try_recv() {
            match word {
                Word::Relay(News::Window(links)) => lines.table("links", &links.columns()),
                Word::Relay(News::Spans(found)) => spans = found,
                _ => {}
            }
        }
        let mut events = Events::default();
        events.push_path(&self.common.profile, self.start, end);
        lines.table("events", &events.columns());
        let start_late_max_ms = race.as_ref().and_then(|(_, flows)| start_late_max_ms(flows, &spans));
        let observation = Observation { sampler: &self.common.sampler, spans: &spans, start: self.start };
        let (experiment, flows) = race.unwrap_or_else(|| {
            let flows = observation.specs(&self.common.spec.role);
            (program_experiment(&self.common.spec, &self.common.profile, (self.start, end), flows), observation.accounts())
        });
        let account = Account { experiment, flows, start: self.start, end, packets: report.delivered, no_route: report.no_route };
        let endpoints = self.common.sampler.observed().values().map(|seen| (seen.key.client, seen.key.server)).collect();
        let gateway = self.common.gateway.as_deref();
        let (closes_missed, closes_unavailable) = self.common.sampler.closes_missed();
        lines.done(&Done {
            stopped,
            ending,
            relay: report,
            gateway,
            capture,
            device_drops,
            account,
            flows_without_samples: self.common.sampler.flows_without_samples(),
            sockets_unreadable: self.common.sampler.unreadable(),
            start_late_max_ms,
            closes_missed,
            closes_unavailable,
            endpoints,
            rows_lost: lines.lost(),
        });
        Ok(())
    }
}

/// By how much the first packet of a flow came to the path after the flow's time, the largest.
fn start_late_max_ms(flows: &[FlowAccount], spans: &[Span]) -> Option<f64> {
    let first = |flow: &FlowAccount| Some(spans.get(flow.number? as usize)?.first.since(flow.start).as_secs_f64() * 1e3);
    flows.iter().filter_map(first).reduce(f64::max)
}

fn write_samples(rows: &Samples, lines: &mut Lines) {
    if !rows.t_s.is_empty() {
        lines.table("samples", &rows.columns());
    }
}

/// What a program did from `during.0` to `during.1`, as an Experiment.
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
