//! Cross traffic: each transfer has a connection, which is made when the transfer begins and removed when all its bytes were delivered.

use crate::connection::{Connection, Owner, Stream};
use crate::error::SimError;
use crate::transports::Transports;
use bentpipe_cc::controllers::Controllers;
use bentpipe_profile::app::AppSpec;
use bentpipe_profile::cross::Arrivals;
use bentpipe_profile::experiment::{EcnMode, Experiment, FlowSpec};
use bentpipe_profile::run::CrossSummary;
use bentpipe_profile::{Bytes, Nanos, Profile, Streams, Time};
use std::sync::Arc;

/// One cross-traffic source of an Experiment.
pub struct Source {
    arrivals: Arrivals,
    transports: Transports,
    streams: Streams,
    offset: Time,
    duration: Nanos,
    /// Number of the connection of the next transfer; `usize::MAX`: none follows.
    pub next_connection: usize,
    /// Start and size of the next transfer.
    next: (Time, Bytes),
    summary: CrossSummary,
    /// Sum of the durations of completed transfers [s].
    completed_total_s: f64,
}

impl Source {
    /// Create source number `index` of the Experiment. `offset`: start of the run on the Profile's clock.
    ///
    /// # Errors
    /// An unknown controller or option.
    pub fn new(index: usize, experiment: &Experiment, profiles: &[Arc<Profile>], offset: Time) -> Result<Self, SimError> {
        let cross = &experiment.cross[index];
        let streams = Streams::new(experiment.seed);
        let spec = FlowSpec {
            profile: cross.profile.clone(),
            direction: cross.direction,
            controller: cross.controller.clone(),
            options: cross.options.clone(),
            start_ns: Time::ZERO,
            stop_ns: None,
            app: AppSpec::Bulk, // each transfer has its own size
            sender: cross.sender.clone(),
            receiver: cross.receiver.clone(),
            ecn: EcnMode::Off,
        };
        let profile = &profiles[experiment.path_of(&cross.profile)];
        let own = streams.child(&format!("cross/{index}"));
        let mut transports = Transports::new(own, &spec, experiment, profile, offset, &Controllers::default())?;
        transports.ignore();
        Ok(Self {
            arrivals: cross.arrivals(&index.to_string(), streams),
            transports,
            streams: own,
            offset,
            duration: experiment.duration_ns,
            next_connection: usize::MAX,
            next: (Time::MAX, Bytes::ZERO),
            completed_total_s: 0.0,
            summary: CrossSummary { controller: cross.controller.clone(), direction: cross.direction.name(), ..CrossSummary::default() },
        })
    }

    /// How its connections are made.
    #[must_use]
    pub const fn transports(&self) -> &Transports {
        &self.transports
    }

    /// Let this many proxies split each of its connections.
    pub const fn set_proxies(&mut self, count: usize) {
        self.transports.proxy_count = count;
    }

    /// Draw the next transfer, for connection number `connection`. Returns its start; `None`: no more start before the run ends.
    pub fn draw_next(&mut self, connection: usize) -> Option<Time> {
        self.next_connection = usize::MAX;
        let (at, size) = self.arrivals.next().filter(|(at, _)| at.0 < self.duration.0)?;
        self.summary.transfers += 1;
        self.summary.offered_bytes += size.0;
        self.next = (self.offset + Nanos(at.0), size);
        self.next_connection = connection;
        Some(self.next.0)
    }

    /// Make the connection of the transfer that begins now, and write its data.
    ///
    /// # Errors
    /// None: [`Self::new`] has built the controller already.
    pub fn begin(&mut self, source: usize, now: Time) -> Result<Connection, SimError> {
        let random = self.streams.child(&self.summary.transfers.to_string());
        let (mut ends, path) = self.transports.connect(0, random, None)?;
        ends[0].open(now);
        ends[0].write(now, self.next.1);
        ends[0].close();
        Ok(Connection {
            owner: Owner::Cross { source },
            path,
            direction: self.transports.direction,
            counted_as: u32::MAX, // with all that have no counters of their own
            opened: now,
            completed: None,
            random,
            ends,
            streams: [Stream::without_app(), Stream::without_app()],
            proxies: self.transports.proxies(self.transports.direction, random)?,
        })
    }

    /// Add a transfer to the summary when it is removed: it is complete, or the run is over.
    pub fn record_transfer(&mut self, transfer: &Connection) {
        self.summary.delivered_bytes += transfer.ends[1].delivered().0;
        if let Some(completed) = transfer.completed {
            self.summary.completed += 1;
            self.completed_total_s += completed.since(transfer.opened).as_secs_f64();
        }
    }

    /// Return the summary; `run_duration` covers the whole run.
    #[must_use]
    pub fn finish(mut self, run_duration: Nanos) -> CrossSummary {
        let summary = &mut self.summary;
        summary.goodput_bps = summary.delivered_bytes as f64 * 8.0 / run_duration.as_secs_f64();
        summary.mean_s = (summary.completed > 0).then(|| self.completed_total_s / summary.completed as f64);
        self.summary
    }
}
