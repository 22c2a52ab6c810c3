//! Set-up: hosts, relay, gateway and server, until the path starts.

use super::context::{Context, Event, LISTEN_POLL_INTERVAL, Server, watch_pipe};
use super::numbers::Numbers;
use super::results::program_header;
use super::running::Session;
use crate::address;
use crate::capture::{self, Anchor, Files};
use crate::clock::Clock;
use crate::close_events::CloseEvents;
use crate::descriptors;
use crate::diag::Diag;
use crate::error::{EmuError, system};
use crate::gateway::event_loop;
use crate::grouping::Grouping;
use crate::host::Host;
use crate::isolation::{Privilege, set_up_init};
use crate::messages::{MessageWriter, Stopped};
use crate::names::name_server;
use crate::nodes::bridge::{Bridge, NodeHandle};
use crate::programs::{ChildReaper, ExitReason};
use crate::race::SharedItems;
use crate::relay::recovery::PathRecovery;
use crate::relay::{Relay, RelayEvent, RelayReport};
use crate::sampler::Sampler;
use crate::server::{self, Processes};
use crate::spec::{Workload, read_profile, read_spec};
use crate::sysctl;
use bentpipe_profile::experiment::{EcnMode, HostSpec};
use bentpipe_profile::run::{Events, PendingEvents, Row, RunSink};
use bentpipe_profile::{Nanos, Profile, Streams, Time};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Wait after a UDP socket appeared without a TCP one: a server may open TCP next, or use the UDP socket for something else. Chosen here.
const UDP_ONLY_WAIT: Duration = Duration::from_millis(300);

/// Time for the path and the flows of a race to set up before its start, so that flows start on time. Chosen here: up to 4 ms were measured.
const LEAD: Nanos = Nanos::from_millis(20);

/// End of a wait for a second before it: then the relay is ready in time. Chosen here: above [`LEAD`] and a late wake-up.
const BEFORE_SECOND: Duration = Duration::from_millis(100);

/// The path between the hosts.
pub enum Path {
    /// A thread of this process.
    Relay(Box<Relay>),
    /// Processes of their own.
    Nodes(Box<Bridge>),
}

impl Path {
    fn run(self, clock: Clock, stop: &AtomicBool, on_event: impl FnMut(RelayEvent)) -> Result<RelayReport, EmuError> {
        match self {
            Self::Relay(relay) => relay.run(clock, stop, on_event),
            Self::Nodes(bridge) => bridge.run(clock, stop, on_event),
        }
    }
}

/// Both hosts and the relay, before the path starts.
pub struct Prepared {
    pub context: Context,
    pub path: Path,
    /// The path beside the first, with its Profile.
    pub beside: Option<(Box<Relay>, Arc<Profile>)>,
    pub files: Option<Files>,
    pub events: Sender<Event>,
}

/// Enters the namespaces, reads the specification from `control` and makes everything that the path needs.
///
/// # Errors
/// A namespace, device, setting or file that the kernel refuses; a wrong specification.
pub fn prepare(privilege: Privilege, control: &mut File, supervisor: File, nodes: Vec<NodeHandle>) -> Result<Prepared, EmuError> {
    set_up_init(privilege)?;
    descriptors::raise_limit();
    let mut request = Tee { from: control, copy: Vec::new() };
    let (spec, profile) = read_spec(&mut request)?;
    let beside = spec.beside.then(|| read_profile(&mut request)).transpose()?;
    let request = request.copy;
    let (events, events_rx) = channel();
    // Without the process that made the namespaces, the exit status would reach no one.
    watch_pipe(supervisor, |_| {})?;
    let exit_events = events.clone();
    let reaper = ChildReaper::start(move |pid, ending| drop(exit_events.send(Event::Ended(pid, ending))))?;
    let depth = address::free_depth()?;
    let (client, server) = address::addresses(depth);
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
    let grouping = match &spec.workload {
        Workload::Program { .. } => Grouping::default(),
        Workload::Race { experiment } => Grouping::race(experiment.flows.iter().map(|flow| flow.direction).collect()),
    };
    let role = matches!(spec.workload, Workload::Program { .. }).then(|| spec.role.clone());
    let sampler = Sampler::new([hosts[0].run(Diag::open)?, hosts[1].run(Diag::open)?], close_events, grouping.clone(), role);
    let numbers = Numbers::new(&spec.workload);
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
    let has_nodes = !nodes.is_empty();
    let path = if has_nodes {
        Path::Nodes(Box::new(Bridge::new((&spec, &profile), &request, nodes, devices, gateway, grouping)?))
    } else {
        let recovery = PathRecovery::new(spec.recovery());
        let times = (spec.begin, spec.at_end);
        let relay = Relay::new(Arc::clone(&profile), &spec.role, (recovery, streams), times, devices, gateway, grouping)?;
        Path::Relay(Box::new(relay))
    };
    let beside = match beside {
        Some(profile) => {
            let (client, server) = address::addresses(depth.wrapping_add(1));
            let devices = [hosts[0].add_path(client, spec.mtu)?, hosts[1].add_path(server, spec.mtu)?];
            let (profile, draws) = (Arc::new(profile), (PathRecovery::new(None), streams.child("beside")));
            let times = (spec.begin, spec.at_end);
            let relay = Relay::new(Arc::clone(&profile), "beside", draws, times, devices, None, Grouping::default())?;
            Some((Box::new(relay), profile))
        }
        None => None,
    };
    // Nodes record their frames themselves.
    let files = spec.capture.as_deref().filter(|_| !has_nodes).map(std::path::Path::new).map(Files::create).transpose()?;
    let addresses = [client, server];
    let (watched, ended) = (Vec::new(), BTreeMap::new());
    let context = Context {
        spec,
        profile,
        hosts,
        addresses,
        sampler,
        numbers,
        gateway: counters,
        reaper,
        events_rx,
        watched,
        ended,
        stop_reason: None,
    };
    Ok(Prepared { context, path, beside, files, events })
}

impl Prepared {
    /// Starts the server and waits until it listens. The path has not started: packets sent now wait in the device.
    pub fn start_server(&mut self, line: &OsStr, log: Option<&std::path::Path>) -> Result<Server, EmuError> {
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

    /// Waits until a little before the time at which the machine's clock agrees with the Profile's; a stop ends the wait.
    fn wait_for_second(&mut self) {
        let context = &mut self.context;
        let wait = context.spec.begin.wait(context.profile.start(), SystemTime::now() + BEFORE_SECOND);
        let until = Instant::now() + Duration::from_nanos(wait.0);
        while context.stop_reason.is_none()
            && let Some(left) = until.checked_duration_since(Instant::now())
        {
            if matches!(context.events_rx.recv_timeout(left), Ok(Event::Terminate)) {
                context.stop_reason = Some(Stopped::Requested);
            }
        }
    }

    /// Starts the path and the Profile's clock.
    pub fn begin(mut self, privilege: Privilege, messages: &mut MessageWriter) -> Result<Session, EmuError> {
        self.wait_for_second();
        let Self { context, mut path, beside, files, events } = self;
        let (spec, profile) = (&context.spec, &context.profile);
        let stop_relay = Arc::new(AtomicBool::new(false));
        let lead = if matches!(spec.workload, Workload::Race { .. }) { LEAD } else { Nanos(0) };
        // One instant for both clocks: later set-up takes its time from the Profile's.
        let earliest = SystemTime::now() + Duration::from_nanos(lead.0);
        let wait = spec.begin.wait(profile.start(), earliest);
        let (lead, machine) = (lead + wait, earliest + Duration::from_nanos(wait.0));
        let start = spec.begin.resolve(profile.start(), machine);
        let clock = Clock::starting_at(start, lead);
        let clock_unix_ns = machine.duration_since(UNIX_EPOCH).map_or(0, |d| d.as_nanos());
        let capture = match files {
            Some(files) => {
                let anchor = Anchor { unix_ns: u64::try_from(clock_unix_ns).unwrap_or(0), at: start };
                let (tap, writer) = capture::start(files, Arc::clone(profile), anchor)?;
                if let Path::Relay(relay) = &mut path {
                    relay.capture(tap);
                }
                Some(writer)
            }
            None => None,
        };
        let stop = Arc::clone(&stop_relay);
        let relay = thread::Builder::new()
            .name("relay".to_owned())
            .spawn(move || path.run(clock, &stop, |item| drop(events.send(Event::Relay(item)))))
            .map_err(system("thread of the relay"))?;
        let beside = match beside {
            Some((relay, profile)) => {
                let clock = Clock::starting_at(spec.begin.resolve(profile.start(), machine), lead);
                let stop = Arc::clone(&stop_relay);
                let run = move || relay.run(clock, &stop, |_| {}); // the tables are those of the first path
                Some(thread::Builder::new().name("beside".to_owned()).spawn(run).map_err(system("thread of the relay"))?)
            }
            None => None,
        };
        messages.started(&context.hosts, context.addresses, start, clock_unix_ns, privilege);
        match &context.spec.workload {
            Workload::Race { experiment } => experiment.announce("emulated", [context.profile.as_ref()], start, messages),
            Workload::Program { .. } => messages.row(&Row::Header(&program_header(&context.spec, &context.profile, start))),
        }
        let path_events = PendingEvents::new(Events::of_path(&context.profile, start, Time::MAX));
        Ok(Session {
            context,
            clock,
            start,
            stop_relay,
            relay,
            beside,
            capture,
            next_sample: start,
            path_events,
            items: SharedItems::default(),
        })
    }
}

/// Reads from a pipe and keeps a copy.
struct Tee<'a> {
    from: &'a mut File,
    copy: Vec<u8>,
}

impl Read for Tee<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = self.from.read(buffer)?;
        self.copy.extend_from_slice(&buffer[..length]);
        Ok(length)
    }
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
        if settings.rto_max_ms != HostSpec::default().rto_max_ms {
            sysctl::set_sysctl("ipv4/tcp_rto_max_ms", &settings.rto_max_ms.to_string())?; // from Linux 6.15
            // With 15 time-outs of a second a connection would give up after 15 s. The simulator's never does.
            sysctl::set_sysctl("ipv4/tcp_retries2", "255")?;
        }
        if !settings.frto {
            sysctl::set_sysctl("ipv4/tcp_frto", "0")?;
        }
    }
    Ok(())
}
