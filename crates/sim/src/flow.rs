//! A flow: its application and the two ends of its connection.

use crate::error::SimError;
use bentpipe_cc::Controller;
use bentpipe_cc::hints::Facts;
use bentpipe_cc::registry::{self, Config, Plugins};
use bentpipe_link::stats::DelayHistogram;
use bentpipe_profile::experiment::{Application, Experiment, FlowSpec, HostSpec};
use bentpipe_profile::run::FlowFacts;
use bentpipe_profile::{Bytes, Direction, EventKind, Nanos, Profile, Streams, Time};
use bentpipe_transport::{Endpoint, Receiver, ReceiverConfig, Sender, SenderConfig, SenderStats, Tcp};

/// One flow of the Experiment while it runs.
pub struct Flow {
    /// Index of its path in the network.
    pub path: u32,
    /// Direction of its data.
    pub direction: Direction,
    /// The ends of its connection: that of the sending host, which opens it, and that of the receiving host.
    pub ends: [Tcp; 2],
    /// Time at which it opens.
    pub start: Time,
    /// Time at which it stops sending; `Time::MAX`: the end of the run.
    pub stop: Time,
    /// Time at which all the application's bytes were delivered.
    pub completed: Option<Time>,
    /// RTT samples, one per ACK that gave one.
    pub rtts: DelayHistogram,
    /// Index of the Experiment's cross-traffic source; used for transfers of cross traffic only.
    pub source: usize,
    started: bool,
    application: Application,
    next_write: Time,
}

impl Flow {
    /// Set up a flow on path number `path`. Times are the Profile's; `offset` is the start of the run. Random numbers come from `streams`. The
    /// controller comes from `plugins`, else from the registry, which gives it the path hints that it needs.
    ///
    /// # Errors
    /// An unknown controller or option.
    #[allow(clippy::cast_possible_truncation)] // the network refuses more than 2^16 Profiles
    pub fn new(
        streams: Streams,
        path: usize,
        spec: &FlowSpec,
        experiment: &Experiment,
        profile: &Profile,
        offset: Time,
        plugins: &Plugins<'_>,
    ) -> Result<Self, SimError> {
        let sender_host = experiment.host(spec.sender.as_ref());
        let receiver_host = experiment.host(spec.receiver.as_ref());
        let config = SenderConfig { ecn: spec.ecn.min(sender_host.ecn), host_times: Some(streams), ..sender_config(&sender_host) };
        let controller_config = config.controller_config(streams);
        let controller = match plugins(&spec.controller, &controller_config, &spec.options) {
            Some(plugin) => plugin,
            None => registry_controller(spec, &controller_config, profile)?,
        };
        let receiver = || Receiver::new(ReceiverConfig { streams, ..receiver_config(&receiver_host) });
        let mut opening = Tcp::opening(Sender::new(config, controller), receiver());
        let start = offset + Nanos(spec.start_ns.0);
        let stop = spec.stop_ns.map_or(Time::MAX, |stop| offset + Nanos(stop.0));
        opening.stop_at(stop);
        Ok(Self {
            path: path as u32,
            direction: spec.direction,
            ends: [opening, Tcp::accepting(receiver())],
            start,
            stop,
            completed: None,
            rtts: DelayHistogram::default(),
            source: 0,
            started: false,
            application: spec.application.clone(),
            next_write: start,
        })
    }

    /// Next time at which the host has work even if no packet arrives.
    #[must_use]
    pub fn wake_at(&self) -> Option<Time> {
        if !self.started {
            return Some(self.start);
        }
        let write = match self.application {
            Application::Paced { .. } if self.next_write < self.stop => Some(self.next_write),
            _ => None,
        };
        let mut wake = write.unwrap_or(Time::MAX);
        for end in &self.ends {
            if let Some(at) = end.wake_at() {
                wake = wake.min(at);
            }
        }
        (wake != Time::MAX).then_some(wake)
    }

    /// Open the connection when its start has come, and write the application's data due by `now`.
    pub fn run_application(&mut self, now: Time) {
        if !self.started && self.start <= now {
            self.started = true;
            self.ends[0].open(now);
            match self.application {
                Application::Bulk => self.ends[0].write(now, Bytes::MAX),
                Application::Bytes(bytes) => {
                    self.ends[0].write(now, bytes);
                    self.ends[0].close();
                }
                Application::Paced { .. } => {}
            }
        }
        if let Application::Paced { write_bytes, every_ns } = self.application {
            while self.started && self.next_write <= now && self.next_write < self.stop {
                self.ends[0].write(now, Bytes(write_bytes.0));
                self.next_write = self.next_write + every_ns;
            }
        }
    }

    /// Statistics of its sender.
    ///
    /// # Panics
    /// Never: the end that opens a connection has a sender.
    #[must_use]
    pub fn stats(&self) -> SenderStats {
        self.ends[0].stats().expect("the opening end has a sender")
    }

    /// Payload delivered in order so far.
    #[must_use]
    pub fn delivered(&self) -> Bytes {
        self.ends[1].delivered()
    }

    /// Return the figures that the summary needs.
    #[must_use]
    pub fn facts(&self) -> FlowFacts {
        let stats = self.stats();
        FlowFacts {
            start: self.start,
            stop: self.stop,
            completed: self.completed,
            delivered_bytes: self.delivered().0,
            retransmits: stats.retransmits,
            losses: stats.lost,
            timeouts: stats.timeouts,
            marks: self.ends[1].marks(),
            rtt_median_ms: self.rtts.quantile_ms(50, 100),
            rtt_p95_ms: self.rtts.quantile_ms(95, 100),
        }
    }

    /// Whether the flow has started.
    #[must_use]
    pub const fn is_started(&self) -> bool {
        self.started
    }
}

/// Build a controller from the registry and give it the path hints that it needs.
fn registry_controller(spec: &FlowSpec, config: &Config, profile: &Profile) -> Result<Box<dyn Controller>, SimError> {
    let mut controller = registry::build(&spec.controller, config, &spec.options)?;
    for hint in registry::path_hints(&spec.controller, &spec.options, config.streams, || facts(profile))? {
        controller.on_path_hint(&hint);
    }
    Ok(controller)
}

/// Return the facts behind path hints: handover times and the wall-clock start of the Profile.
fn facts(profile: &Profile) -> Facts {
    let handovers = profile.events().iter().filter(|event| matches!(event.kind, EventKind::Handover { .. }));
    Facts { reconfigurations: handovers.map(|event| event.at_ns).collect(), start_unix_ns: profile.start().0 }
}

fn sender_config(host: &HostSpec) -> SenderConfig {
    SenderConfig { wmem_max: host.wmem_max_bytes, wmem_segment: host.wmem_segment_bytes, fq: host.fq, ..SenderConfig::default() }
}

fn receiver_config(host: &HostSpec) -> ReceiverConfig {
    ReceiverConfig { rmem_max: host.rmem_max_bytes, gro_segments: host.gro_segments, ecn: host.ecn, ..ReceiverConfig::default() }
}
