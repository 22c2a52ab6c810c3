//! How an Experiment is set up.

use super::coding::Coding;
use super::pings::Pings;
use super::proxies::Proxies;
use super::quic::QuicConnections;
use super::{AppPlugins, Simulation, index_u32};
use crate::batches::Batches;
use crate::cross_traffic::Source;
use crate::error::SimError;
use crate::flow::Flow;
use crate::one_way::OneWay;
use crate::output::Output;
use crate::payloads::Payloads;
use bentpipe_cc::controllers::Controllers;
use bentpipe_link::Network;
use bentpipe_link::windows::LINK_WINDOW;
use bentpipe_profile::experiment::Experiment;
use bentpipe_profile::run::{Events, PendingEvents};
use bentpipe_profile::{NetworkSpec, Profile, ProfileError, Streams, Time};
use bentpipe_recovery::registry::{AtHosts, Installed, install};
use std::collections::{BinaryHeap, VecDeque};
use std::sync::Arc;

impl Simulation {
    /// Set up an Experiment on its Profiles, in the order in which it names them.
    ///
    /// # Errors
    /// [`SimError`].
    pub fn new(experiment: Experiment, profiles: Vec<Arc<Profile>>) -> Result<Self, SimError> {
        Self::with_plugins(experiment, profiles, &Controllers::default(), &|_, _| None)
    }

    /// Set up an Experiment whose flows' controllers come from `controllers`, and applications that are not in the registry from `apps`.
    ///
    /// # Errors
    /// [`SimError`].
    pub fn with_plugins(
        experiment: Experiment,
        profiles: Vec<Arc<Profile>>,
        controllers: &Controllers,
        apps: &AppPlugins<'_>,
    ) -> Result<Self, SimError> {
        experiment.check()?;
        if profiles.len() != experiment.profiles.len() {
            return Err(SimError::ProfileCount { expected: experiment.profiles.len(), given: profiles.len() });
        }
        let references = profiles.into_iter().zip(&experiment.profiles);
        let paths = references.map(|(profile, reference)| experiment.path(&reference.role, &profile));
        let profiles = paths.collect::<Result<Vec<_>, _>>()?;
        let refs: Vec<&Profile> = profiles.iter().map(AsRef::as_ref).collect();
        let network = NetworkSpec::from_profiles(&refs)?;
        Self::on(experiment, profiles, &network, controllers, apps)
    }

    /// Set up an Experiment on a network. The roles of its Profiles are the names of the network's paths, in the same order; it has no queue rules.
    ///
    /// # Errors
    /// [`SimError`].
    pub fn over_network(
        experiment: Experiment,
        network: &NetworkSpec,
        controllers: &Controllers,
        apps: &AppPlugins<'_>,
    ) -> Result<Self, SimError> {
        experiment.check()?;
        let refuse = |field: &str, value: String, expected: &str| {
            Err(ProfileError::Experiment { field: field.to_owned(), value, expected: expected.to_owned() }.into())
        };
        if !experiment.queues.is_empty() {
            return refuse("queues", format!("{} rules", experiment.queues.len()), "none: set the queues of the network's links");
        }
        let (given, expected) = (experiment.profiles.len(), network.paths().len());
        if given != expected {
            return Err(SimError::ProfileCount { expected: given, given: expected });
        }
        for (i, (reference, path)) in experiment.profiles.iter().zip(network.paths()).enumerate() {
            if reference.role != path.name {
                return refuse(&format!("profiles[{i}].role"), reference.role.clone(), &format!("{}, the name of path {i}", path.name));
            }
        }
        let profiles = (0..expected).map(|path| network.profile(path).map(Arc::new)).collect::<Result<Vec<_>, _>>()?;
        Self::on(experiment, profiles, network, controllers, apps)
    }

    /// Set up a checked Experiment on the network `spec`. `profiles`: its paths.
    fn on(
        experiment: Experiment,
        profiles: Vec<Arc<Profile>>,
        spec: &NetworkSpec,
        controllers: &Controllers,
        apps: &AppPlugins<'_>,
    ) -> Result<Self, SimError> {
        let start = Time::ZERO + experiment.offset_ns;
        let end = start + experiment.duration_ns;
        if let Some(short) = profiles.iter().find(|p| p.duration().0 < end.0) {
            return Err(SimError::TooLong {
                run_s: experiment.duration_ns.as_secs_f64(),
                offset_s: start.as_secs_f64(),
                profile: short.name().to_owned(),
                profile_s: short.duration().as_secs_f64(),
            });
        }
        let mut network = Network::new(spec, Streams::new(experiment.seed))?;
        let installed = match &experiment.recovery {
            Some(recovery) => install(&recovery.scheme, &recovery.options, &mut network, spec)?,
            None => Installed::default(),
        };
        let mut flows = experiment
            .flows
            .iter()
            .enumerate()
            .map(|(i, spec)| {
                let streams = Streams::new(experiment.seed).child(&format!("flow/{i}"));
                let ends = apps(&spec.app, streams).or_else(|| bentpipe_apps::build(&spec.app, streams));
                let ends = ends.ok_or_else(|| SimError::unknown_app(i, &spec.app))?;
                Flow::new(streams, spec, ends, &experiment, &profiles[experiment.path_of(&spec.profile)], start, controllers)
            })
            .collect::<Result<Vec<_>, SimError>>()?;
        network.set_separate_flows(index_u32(flows.len() + experiment.pings.len()));
        let mut sources =
            (0..experiment.cross.len()).map(|i| Source::new(i, &experiment, &profiles, start)).collect::<Result<Vec<_>, _>>()?;
        let tells_losses = flows.iter().any(|flow| flow.transports.knows_path());
        let one_way = experiment.recovery.as_ref().map(|_| OneWay::new(flows.len()));
        let (mut coding, mut proxies) = (None, None);
        if let (Some(hosts), Some(overhead)) = (installed.hosts, installed.overhead.clone()) {
            match hosts {
                AtHosts::Tambur(options) => coding = Some(Box::new(Coding::new(&options, flows.len(), overhead))),
                AtHosts::Mpep(plan) => proxies = Some(Box::new(Proxies::new(plan, start, overhead))),
            }
        }
        if let Some(proxies) = &proxies {
            for flow in &mut flows {
                flow.transports.proxy_count = proxies.on_path(flow.path() as usize);
            }
            for source in &mut sources {
                source.set_proxies(proxies.on_path(source.transports().path as usize));
            }
        }
        let mut outcomes = Vec::new();
        network.run_until(start, &mut outcomes); // apply routes and events from before the run
        network.look_ahead_to(end.min(start + LINK_WINDOW));
        let path_events = PendingEvents::new(Events::of_network(spec, start, end));
        let mut simulation = Self {
            timer_due: vec![Time::MAX; flows.len()],
            batches: Batches::default(),
            pings: Pings::new(&experiment, start),
            next_sample: start + experiment.sample_step_ns,
            next_window: start + LINK_WINDOW,
            experiment,
            profiles,
            network,
            connections: (0..flows.len()).map(|_| None).collect(),
            flows,
            sources,
            quic: QuicConnections::default(),
            touched: VecDeque::new(),
            payloads: Payloads::default(),
            datagrams: Payloads::default(),
            one_way,
            coding,
            proxies,
            overhead: installed.overhead,
            timers: BinaryHeap::new(),
            timer_count: 0,
            now: start,
            start,
            end,
            outcomes,
            output: Output::default(),
            path_events,
            tells_losses,
            packets: 0,
        };
        for flow in 0..simulation.flows.len() {
            simulation.schedule_timer(flow);
        }
        for source in 0..simulation.sources.len() {
            simulation.schedule_transfer(source);
        }
        Ok(simulation)
    }
}
