//! How the connections of a flow are made: hosts, controllers and random streams.

use crate::error::SimError;
use crate::proxy::Proxy;
use bentpipe_apps::ControllerChoice;
use bentpipe_cc::Controller;
use bentpipe_cc::controllers::{Built, Controllers};
use bentpipe_cc::error::RegistryError;
use bentpipe_cc::hints::{Facts, Needs};
use bentpipe_cc::hook_trace::{Header, Trace};
use bentpipe_cc::knowledge::Knowledge;
use bentpipe_cc::registry::{self, Config};
use bentpipe_profile::experiment::{Experiment, FlowSpec, HostSpec, HostTiming};
use bentpipe_profile::options::OptionValues;
use bentpipe_profile::{Direction, EventKind, Nanos, Profile, Rate, Streams, Time};
use bentpipe_transport::host_timing::DrawnTimes;
use bentpipe_transport::quic::Role;
use bentpipe_transport::{Quic, Receiver, ReceiverConfig, Sender, SenderConfig, Tcp};

/// Time between the pings of a terminal that a controller may know of. Chosen here: ten a second, as a node of the testbed sends them, but drifting against the
/// whole seconds on which edges of slots lie.
const PING_EVERY: Nanos = Nanos::from_millis(101);

/// Makes the connections of one flow.
pub struct Transports {
    /// Direction of the flow's data.
    pub direction: Direction,
    /// Time from which its senders transmit nothing.
    pub stop: Time,
    /// Index of its path in the network.
    pub path: u32,
    streams: Streams,
    /// Settings of the host that sends the flow's data, and of the other one.
    senders: [SenderConfig; 2],
    receivers: [ReceiverConfig; 2],
    host_timing: HostTiming,
    controller: String,
    options: OptionValues,
    facts: Facts,
    /// The path to come, if the controller knows it.
    future: Option<Future>,
    controllers: Controllers,
    /// The controller that was built to check its name and options, for the sender of the flow's data on the first connection.
    first: Option<Built>,
    /// Where the first controller of the end that sends the flow's data is recorded.
    trace: Option<Trace>,
    /// Whether events and RTT samples of data in the flow's direction are kept.
    is_observed: bool,
    /// Number of proxies that split each connection.
    pub proxy_count: usize,
}

/// The path to come, for controllers that know it.
struct Future {
    /// Capacity for the data of each end.
    capacity: [Vec<(Time, Rate)>; 2],
    ping_rtts: Vec<(Time, Nanos)>,
}

impl Future {
    /// That of a flow with data in this direction.
    fn of(profile: &Profile, direction: Direction) -> Self {
        Self {
            capacity: [direction, direction.reverse()].map(|direction| profile.capacity_by_send_time(direction)),
            ping_rtts: profile.ping_rtts(PING_EVERY),
        }
    }
}

impl Transports {
    /// Prepare connections. Times are the Profile's; `offset` is the start of the run.
    ///
    /// # Errors
    /// An unknown controller or option.
    #[allow(clippy::cast_possible_truncation)] // the network refuses more than 2^32 paths
    pub fn new(
        streams: Streams,
        spec: &FlowSpec,
        experiment: &Experiment,
        profile: &Profile,
        offset: Time,
        controllers: &Controllers,
    ) -> Result<Self, SimError> {
        let hosts = [experiment.host(spec.sender.as_ref()), experiment.host(spec.receiver.as_ref())];
        let mut transports = Self {
            direction: spec.direction,
            stop: spec.stop_ns.map_or(Time::MAX, |stop| offset + Nanos(stop.0)),
            path: experiment.path_of(&spec.profile) as u32,
            streams,
            senders: [0, 1].map(|end| SenderConfig { ecn: spec.ecn.min(hosts[end].ecn), ..sender_config(&hosts[end]) }),
            receivers: [0, 1].map(|end| receiver_config(&hosts[end])),
            host_timing: experiment.host_timing,
            controller: spec.controller.clone(),
            options: spec.options.clone(),
            facts: facts(profile),
            future: knows_path(&spec.controller).then(|| Future::of(profile, spec.direction)),
            controllers: controllers.clone(),
            first: None,
            trace: controllers.traces.as_ref().map(|traces| traces.next_flow()),
            is_observed: true,
            proxy_count: 0,
        };
        let config = transports.senders[0].controller_config(streams);
        transports.first = Some(transports.build(&transports.controller, &transports.options, &config)?);
        Ok(transports)
    }

    /// Keep no events and RTT samples.
    pub const fn ignore(&mut self) {
        self.is_observed = false;
    }

    /// Make the transports of a connection that the end `opener` opens, and return them with their path. The first connection of a flow has
    /// the flow's own random streams. `controller`: that of the opener, if it is not the flow's.
    ///
    /// # Errors
    /// An unknown controller or option in `controller`.
    pub fn connect(
        &mut self,
        opener: usize,
        streams: Streams,
        controller: Option<&ControllerChoice>,
    ) -> Result<([Tcp; 2], u32), RegistryError> {
        let receiver = |end: usize, streams| {
            Receiver::new(ReceiverConfig { host_times: DrawnTimes::of(self.host_timing, streams), ..self.receivers[end] })
        };
        let (own, other) = (receiver(opener, streams.child("back")), receiver(1 - opener, streams));
        let mut opening = Tcp::opening(self.sender(opener, streams, controller)?, own);
        let mut accepting = Tcp::accepting(other);
        for tcp in [&mut opening, &mut accepting] {
            tcp.stop_at(self.stop);
        }
        if self.is_observed {
            let sending = if opener == 0 { &mut opening } else { &mut accepting };
            sending.observe();
        }
        Ok(([opening, accepting], self.path))
    }

    /// Make both ends of a QUIC connection that the end `opener` opens.
    ///
    /// # Errors
    /// None: [`Self::new`] has built the controller already.
    pub fn connect_quic(&mut self, opener: usize, streams: Streams) -> Result<[Quic; 2], RegistryError> {
        let mut make = |end: usize, role| {
            let config = Quic::sender_config(self.senders[end]);
            let streams = if end == 0 { streams } else { streams.child("back") };
            let mut quic = Quic::new(role, config, self.controller_of(end, &config.controller_config(streams))?);
            quic.stop_at(self.stop);
            if end == 0 && self.is_observed {
                quic.observe();
            }
            Ok::<_, RegistryError>(quic)
        };
        Ok([make(opener, Role::Client)?, make(1 - opener, Role::Server)?])
    }

    /// Make the flow's controller for one of its ends.
    fn controller_of(&mut self, end: usize, config: &Config) -> Result<Box<dyn Controller>, RegistryError> {
        let built = self.build(&self.controller, &self.options, config)?;
        let mut controller = match self.trace.take_if(|_| end == 0) {
            Some(trace) => built.start_recorded(trace, &Header::new(&self.controller, &self.options, config)),
            None => built.start(),
        };
        self.tell_future(end, &mut *controller);
        Ok(controller)
    }

    /// Make the sender of the end that accepted a connection; `end`: that end of the flow, `streams`: those of the connection.
    ///
    /// # Errors
    /// None: [`Self::new`] has built the controller already.
    pub fn accepting_sender(&mut self, end: usize, streams: Streams) -> Result<Sender, RegistryError> {
        self.sender(end, streams.child("back"), None)
    }

    /// Make the proxies of a connection whose opening end sends in `direction`. They have the settings of the host that sends the flow's data.
    ///
    /// # Errors
    /// None: [`Self::new`] has built the controller already.
    pub fn proxies(&self, direction: Direction, streams: Streams) -> Result<Vec<Proxy>, RegistryError> {
        let make = |stop: usize| {
            let own = |side: &str| streams.child(&format!("proxy/{stop}/{side}"));
            let receiver =
                |streams| Receiver::new(ReceiverConfig { host_times: DrawnTimes::of(self.host_timing, streams), ..self.receivers[0] });
            let mut accepting = Tcp::accepting(receiver(own("accepting")));
            let mut opening = Tcp::opening(self.proxy_sender(own("opening"))?, receiver(own("opening")));
            for tcp in [&mut accepting, &mut opening] {
                tcp.stop_at(self.stop);
            }
            Ok(Proxy::new(usize::from(direction == Direction::Down), accepting, opening))
        };
        (0..self.proxy_count).map(make).collect()
    }

    /// Make a sender of a proxy.
    ///
    /// # Errors
    /// None: [`Self::new`] has built the controller already.
    pub fn proxy_sender(&self, streams: Streams) -> Result<Sender, RegistryError> {
        let config = SenderConfig { host_times: DrawnTimes::of(self.host_timing, streams), ..self.senders[0] };
        Ok(Sender::new(config, self.proxy_controller(streams)?))
    }

    /// Make a controller of a proxy: the flow's.
    ///
    /// # Errors
    /// None: [`Self::new`] has built the controller already.
    pub fn proxy_controller(&self, streams: Streams) -> Result<Box<dyn Controller>, RegistryError> {
        Ok(self.build(&self.controller, &self.options, &self.senders[0].controller_config(streams))?.start())
    }

    /// Random streams of connection number `number`.
    #[must_use]
    pub fn streams_of(&self, number: u64) -> Streams {
        if number == 0 { self.streams } else { self.streams.child(&format!("connection/{number}")) }
    }

    fn sender(&mut self, end: usize, streams: Streams, choice: Option<&ControllerChoice>) -> Result<Sender, RegistryError> {
        let config = SenderConfig { host_times: DrawnTimes::of(self.host_timing, streams), ..self.senders[end] };
        let controller_config = config.controller_config(streams);
        let first = self.first.take().filter(|_| end == 0 && streams == self.streams && choice.is_none());
        let trace = self.trace.take_if(|_| end == 0);
        let (name, options) = choice.map_or((&self.controller, &self.options), |choice| (&choice.name, &choice.options));
        let built = match first {
            Some(built) => built,
            None => self.build(name, options, &controller_config)?,
        };
        let mut controller = match trace {
            Some(trace) => built.start_recorded(trace, &Header::new(name, options, &controller_config)),
            None => built.start(),
        };
        self.tell_future(end, &mut *controller);
        Ok(Sender::new(config, controller))
    }

    /// Return whether its controller knows more than a sender does.
    #[must_use]
    pub const fn knows_path(&self) -> bool {
        self.future.is_some()
    }

    /// Tell a controller of an end the path to come, if it is one that knows it.
    fn tell_future(&self, end: usize, controller: &mut dyn Controller) {
        if let Some(future) = &self.future {
            controller.on_knowledge(&Knowledge::Capacity(&future.capacity[end]));
            controller.on_knowledge(&Knowledge::PingRtts(&future.ping_rtts));
        }
    }

    fn build(&self, name: &str, options: &OptionValues, config: &Config) -> Result<Built, RegistryError> {
        self.controllers.build(name, options, config, || self.facts.clone())
    }
}

/// Return whether a controller of the registry receives what only a simulator knows.
fn knows_path(controller: &str) -> bool {
    registry::find(controller).is_ok_and(|entry| entry.needs == Needs::Future)
}

/// Return the facts behind path hints: handover times and the wall-clock start of the Profile.
fn facts(profile: &Profile) -> Facts {
    let handovers = profile.events().iter().filter(|event| matches!(event.kind, EventKind::Handover { .. }));
    Facts { reconfigurations: handovers.map(|event| event.at_ns).collect(), start_unix_ns: profile.start().0 }
}

fn sender_config(host: &HostSpec) -> SenderConfig {
    SenderConfig {
        wmem_max: host.wmem_max_bytes,
        wmem_segment: host.wmem_segment_bytes,
        fq: host.fq,
        rto_max: Nanos::from_millis(host.rto_max_ms),
        frto: host.frto,
        ..SenderConfig::default()
    }
}

fn receiver_config(host: &HostSpec) -> ReceiverConfig {
    ReceiverConfig { rmem_max: host.rmem_max_bytes, gro_segments: host.gro_segments, ecn: host.ecn, ..ReceiverConfig::default() }
}
