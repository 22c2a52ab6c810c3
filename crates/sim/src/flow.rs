//! A flow: the applications at its two ends, and the connections between them.

use crate::connection::{Connection, Owner, Stream};
use crate::data_ends::DataEnds;
use crate::error::SimError;
use crate::quic::{QuicConnection, View};
use crate::transports::Transports;
use bentpipe_apps::timers::Timers;
use bentpipe_apps::{Actions, App, ControllerChoice, Ends, StreamId};
use bentpipe_cc::controllers::Controllers;
use bentpipe_cc::error::RegistryError;
use bentpipe_link::stats::DelayHistogram;
use bentpipe_profile::experiment::{Experiment, FlowSpec};
use bentpipe_profile::run::FlowFacts;
use bentpipe_profile::{Direction, Nanos, Profile, Rate, Streams, Time};
use bentpipe_transport::SenderStats;

/// One end of a flow: its application, with its timers and streams.
pub struct FlowEnd {
    /// The application.
    pub app: Box<dyn App>,
    /// The actions that it has not been given yet.
    pub actions: Actions,
    /// Its timers, on the network's clock.
    pub timers: Timers,
    /// Connection of each stream, of those that this end opened and of those that it accepted.
    opened: Vec<u32>,
    accepted: Vec<u32>,
}

impl FlowEnd {
    fn new(app: Box<dyn App>) -> Self {
        Self { app, actions: Actions::default(), timers: Timers::default(), opened: Vec::new(), accepted: Vec::new() }
    }

    /// Number a connection that the other end opened.
    #[allow(clippy::cast_possible_truncation)] // far fewer than 2^31 connections
    pub fn accept(&mut self, connection: u32) -> StreamId {
        self.accepted.push(connection);
        StreamId(StreamId::ACCEPTED + self.accepted.len() as u32 - 1)
    }

    /// Record the connection of the next stream that this end opens.
    pub fn open(&mut self, connection: u32) {
        self.opened.push(connection);
    }

    /// Return the connection of a stream; `None`: there is no such stream.
    #[must_use]
    pub fn connection(&self, stream: StreamId) -> Option<u32> {
        let accepted = stream.0.checked_sub(StreamId::ACCEPTED);
        accepted.map_or_else(|| self.opened.get(stream.0 as usize), |index| self.accepted.get(index as usize)).copied()
    }
}

/// One flow of the Experiment while it runs.
pub struct Flow {
    /// Its ends: 0 sends the flow's data, 1 receives them.
    pub ends: [FlowEnd; 2],
    /// Its connections, in the order in which they were opened; those that are over are removed.
    pub connections: Vec<u32>,
    /// Number of connections opened so far.
    pub opened: u64,
    /// When all data had been delivered.
    pub completed: Option<Time>,
    /// RTT samples, one per ACK that gave one.
    pub rtts: DelayHistogram,
    /// Messages of both ends that have not arrived yet, and answers that were requested but are not written yet.
    pub outstanding: u64,
    /// Whether an application said that neither end writes more, except answers.
    pub is_finishing: bool,
    /// Whether it has started.
    pub is_started: bool,
    /// Time at which it starts.
    pub start: Time,
    /// Time at which it stops sending; `Time::MAX`: the end of the run.
    pub stop: Time,
    /// Next time at which its applications have work even if nothing arrives; `Time::MAX`: never.
    pub wake: Time,
    /// How its connections are made.
    pub transports: Transports,
    /// Totals of the connections that are over.
    past: FlowTotals,
}

/// Counters of a flow over all its connections.
#[derive(Clone, Copy, Debug, Default)]
pub struct FlowTotals {
    /// Payload delivered in order.
    pub delivered: u64,
    /// Segments retransmitted.
    pub retransmits: u64,
    /// Segments marked lost.
    pub losses: u64,
    /// Retransmission time-outs.
    pub timeouts: u64,
    /// CE marks echoed to the sender.
    pub echoed_marks: u64,
    /// Data packets that arrived CE-marked.
    pub marks: u64,
    /// Time limited by the congestion window, the receive window, and the sender.
    pub limited: [Nanos; 3],
}

impl FlowTotals {
    /// Add a connection.
    fn add(&mut self, ends: &DataEnds) {
        self.delivered += ends.delivered;
        self.marks += ends.marks;
        if let Some(stats) = &ends.stats {
            self.retransmits += stats.retransmits;
            self.losses += stats.lost;
            self.timeouts += stats.timeouts;
            self.echoed_marks += stats.ce_marks;
            let limited = [stats.cwnd_limited, stats.receiver_limited, stats.sender_limited];
            self.limited.iter_mut().zip(limited).for_each(|(total, span)| *total += span);
        }
    }
}

impl Flow {
    /// Set up a flow. Times are the Profile's; `offset` is the start of the run.
    ///
    /// # Errors
    /// An unknown controller, option or application.
    pub fn new(
        streams: Streams,
        spec: &FlowSpec,
        ends: Ends,
        experiment: &Experiment,
        profile: &Profile,
        offset: Time,
        controllers: &Controllers,
    ) -> Result<Self, SimError> {
        let transports = Transports::new(streams, spec, experiment, profile, offset, controllers)?;
        Ok(Self {
            ends: [FlowEnd::new(ends.sender), FlowEnd::new(ends.receiver)],
            connections: Vec::new(),
            opened: 0,
            completed: None,
            rtts: DelayHistogram::default(),
            outstanding: 0,
            is_finishing: false,
            is_started: false,
            start: offset + Nanos(spec.start_ns.0),
            wake: offset + Nanos(spec.start_ns.0),
            stop: transports.stop,
            transports,
            past: FlowTotals::default(),
        })
    }

    /// Update [`Self::wake`] after its applications' timers changed.
    pub fn update_wake(&mut self) {
        let timers = [self.ends[0].timers.next(), self.ends[1].timers.next()];
        self.wake = timers.into_iter().flatten().min().filter(|&at| at < self.stop).unwrap_or(Time::MAX);
    }

    /// Make a connection that the end `opener` opens; `flow`: number of this flow, `controller`: of the opener, if it is not the flow's.
    ///
    /// # Errors
    /// An unknown controller or option in `controller`.
    #[allow(clippy::cast_possible_truncation)] // far fewer than 2^32 flows
    pub fn connect(
        &mut self,
        flow: usize,
        opener: usize,
        now: Time,
        controller: Option<&ControllerChoice>,
    ) -> Result<Connection, RegistryError> {
        let streams = self.transports.streams_of(self.opened);
        let (ends, path) = self.transports.connect(opener, streams, controller)?;
        let direction = if opener == 0 { self.transports.direction } else { self.transports.direction.reverse() };
        let interests = [self.ends[opener].app.interest(), self.ends[1 - opener].app.interest()];
        let id = StreamId(self.ends[opener].opened.len() as u32);
        self.opened += 1;
        Ok(Connection {
            owner: Owner::Flow { flow, opener },
            path,
            direction,
            counted_as: flow as u32,
            opened: now,
            completed: None,
            random: streams,
            ends,
            streams: [Stream::new(Some(id), interests[0]), Stream::new(None, interests[1])],
            proxies: self.transports.proxies(direction, streams)?,
        })
    }

    /// Make a QUIC connection that the end `opener` opens; `flow`: number of this flow.
    ///
    /// # Errors
    /// None: the flow's controller was built already.
    #[allow(clippy::cast_possible_truncation)] // far fewer than 2^32 connections
    pub fn connect_quic(&mut self, flow: usize, opener: usize) -> Result<QuicConnection, RegistryError> {
        let streams = self.transports.streams_of(self.opened);
        let ends = self.transports.connect_quic(opener, streams)?;
        let direction = if opener == 0 { self.transports.direction } else { self.transports.direction.reverse() };
        let id = StreamId(self.ends[opener].opened.len() as u32);
        self.opened += 1;
        let views = [View::new(Some(id)), View::default()];
        Ok(QuicConnection { flow, opener, path: self.transports.path, direction, ends, views })
    }

    /// Record that the flow is complete at `now`, if its applications have finished and nothing is outstanding.
    pub fn complete_if_finished(&mut self, now: Time) {
        if self.is_finishing && self.outstanding == 0 && self.completed.is_none() {
            self.completed = Some(now);
        }
    }

    /// Direction of its data.
    #[must_use]
    pub const fn direction(&self) -> Direction {
        self.transports.direction
    }

    /// Return the index of its path in the network.
    #[must_use]
    pub const fn path(&self) -> u32 {
        self.transports.path
    }

    /// Count a datagram in the flow's direction that arrived.
    pub const fn count_datagram(&mut self, bytes: u32) {
        self.past.delivered += bytes as u64;
    }

    /// Keep the totals of a connection that is over.
    pub fn remember(&mut self, ends: &DataEnds) {
        self.past.add(ends);
    }

    /// Return the totals and the sums of its `open` connections' sender statistics.
    #[must_use]
    pub fn totals(&self, open: impl Iterator<Item = DataEnds>) -> (FlowTotals, Option<SenderStats>) {
        let mut totals = self.past;
        let mut sum: Option<SenderStats> = None;
        for ends in open {
            totals.add(&ends);
            let stats = ends.stats;
            // RTTs, windows and state are those of the newest connection; what is in flight and the rates add up.
            sum = match (sum, stats) {
                (Some(before), Some(stats)) => Some(SenderStats {
                    cwnd: before.cwnd + stats.cwnd,
                    in_flight: before.in_flight + stats.in_flight,
                    pacing_rate: added(before.pacing_rate, stats.pacing_rate),
                    delivery_rate: added(before.delivery_rate, stats.delivery_rate),
                    ..stats
                }),
                (before, stats) => stats.or(before),
            };
        }
        (totals, sum)
    }

    /// Return the figures that the summary needs.
    #[must_use]
    pub fn facts(&self, open: impl Iterator<Item = DataEnds>) -> FlowFacts {
        let (totals, _) = self.totals(open);
        FlowFacts {
            start: self.start,
            stop: self.stop,
            completed: self.completed,
            delivered_bytes: totals.delivered,
            retransmits: totals.retransmits,
            losses: totals.losses,
            timeouts: totals.timeouts,
            marks: totals.marks,
            rtt_median_ms: self.rtts.quantile_ms(50, 100),
            rtt_p95_ms: self.rtts.quantile_ms(95, 100),
        }
    }
}

fn added(a: Option<Rate>, b: Option<Rate>) -> Option<Rate> {
    match (a, b) {
        (Some(a), Some(b)) => Some(Rate(a.0 + b.0)),
        (a, b) => a.or(b),
    }
}
