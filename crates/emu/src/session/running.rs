//! A running emulation: events, samples, and the end.

use super::context::{Context, Event, LISTEN_POLL_INTERVAL, Server};
use super::numbers::Numbers;
use super::results::{program_experiment, race_results, start_late_max_ms};
use crate::capture::CaptureReport;
use crate::clock::Clock;
use crate::error::EmuError;
use crate::interface::Dropped;
use crate::messages::{Done, MessageWriter, Stopped};
use crate::observation::Observation;
use crate::programs::{self, ExitReason};
use crate::race::{self, Failure, Items, Plugins, Progress, RunTimes, SharedItems};
use crate::relay::{RelayEvent, RelayReport};
use crate::result::{EmulationResult, FlowResult};
use crate::server;
use crate::spec::Workload;
use bentpipe_apps::misuse::name_of;
use bentpipe_profile::experiment::{Experiment, FlowSpec};
use bentpipe_profile::run::{LinkRow, Links, PendingEvents, Row, RunSink};
use bentpipe_profile::{Nanos, Streams, Time};
use nix::unistd::Pid;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Grace period for the kernel's close events after the program's end. The kernel sends them from a work queue, within a few milliseconds on an
/// idle machine. Chosen here.
const CLOSE_EVENTS_GRACE: Duration = Duration::from_millis(300);

/// Time between checks of a race's flows for failures.
const CHECK_INTERVAL: Nanos = Nanos::from_millis(200);

/// A running emulation.
pub struct Session {
    pub context: Context,
    pub clock: Clock,
    pub start: Time,
    pub stop_relay: Arc<AtomicBool>,
    pub relay: JoinHandle<Result<RelayReport, EmuError>>,
    /// The relay of a path beside the first.
    pub beside: Option<JoinHandle<Result<RelayReport, EmuError>>>,
    pub capture: Option<JoinHandle<CaptureReport>>,
    pub next_sample: Time,
    pub path_events: PendingEvents,
    pub items: SharedItems,
}

impl Session {
    /// Runs the workload to its end and sends the results.
    ///
    /// # Errors
    /// The program, a flow of the race or the relay that fails.
    pub fn run(mut self, server: Option<Server>, messages: &mut MessageWriter, plugins: &dyn Plugins) -> Result<(), EmuError> {
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
                let progress = self.start_flows(&experiment, plugins)?;
                let end = self.start + experiment.duration_ns;
                let stopped = self.wait_until(end, messages, || check_flows(&experiment, &progress, plugins))?;
                let items = {
                    let mut items = lock(&self.items);
                    items.give_changed(messages);
                    items.tables.applications.clone() // the flows may still record: their row numbers must hold
                };
                let flows = race_results(&experiment, &progress, &items, &self.context.sampler, self.start);
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

    /// Waits for the end, or for an error of `check`.
    fn wait_until(
        &mut self,
        end: Time,
        messages: &mut MessageWriter,
        check: impl Fn() -> Result<(), EmuError>,
    ) -> Result<Stopped, EmuError> {
        loop {
            let until = (self.clock.now() + CHECK_INTERVAL).min(end);
            self.process_until(Some(until), messages, |event| matches!(event, Event::Terminate))?;
            check()?;
            if self.clock.now() >= end || self.context.stop_reason.is_some() || self.relay.is_finished() {
                self.sample(messages)?;
                return Ok(self.context.stop_reason.unwrap_or(Stopped::Program));
            }
        }
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
            Event::Relay(RelayEvent::Flow(key, relay)) => {
                let number = self.context.numbers.add(key, relay);
                self.context.sampler.add_flow(key, number);
            }
            Event::Relay(RelayEvent::Split { client, server }) => self.context.sampler.add_alias(client, server),
            Event::Relay(RelayEvent::Window(links)) => give_window(&links, &self.context.numbers, messages),
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
        let t_s = self.clock.now().since(self.start).as_secs_f64();
        self.path_events.give(t_s, messages);
        lock(&self.items).give_changed(messages);
        self.context.sampler.sample(t_s, messages)
    }

    /// Waits up to [`CLOSE_EVENTS_GRACE`] for close events and flow numbers of flows that ended with the program.
    fn drain_close_events(&mut self, messages: &mut MessageWriter) -> Result<(), EmuError> {
        let began = Instant::now();
        loop {
            while let Ok(event) = self.context.events_rx.try_recv() {
                self.handle(event, messages);
            }
            self.context.sampler.sample_closed(self.clock.now().since(self.start).as_secs_f64(), messages)?;
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

    fn start_flows(&self, experiment: &Experiment, plugins: &dyn Plugins) -> Result<Vec<Arc<Progress>>, EmuError> {
        let addresses = self.context.addresses.map(|a| IpAddr::V4(a.v4));
        let times = RunTimes { clock: self.clock, begin: self.start, end: self.start + experiment.duration_ns };
        let hosts = [&self.context.hosts[0], &self.context.hosts[1]];
        (0_u16..)
            .zip(&experiment.flows)
            .map(|(index, flow)| {
                // The same draws as in the simulator.
                let streams = Streams::new(experiment.seed).child(&format!("flow/{index}"));
                let apps = plugins.create(&flow.app, streams).or_else(|| bentpipe_apps::build(&flow.app, streams));
                let apps = apps.ok_or_else(|| EmuError::Flow {
                    controller: flow.controller.clone(),
                    reason: "its application is not in the registry".to_owned(),
                })?;
                race::start(hosts, addresses, index, flow, apps, times, &self.items)
            })
            .collect()
    }

    fn finish(
        mut self,
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
        let datagrams_unread = [0, 1].map(|end: usize| self.context.hosts[end].datagrams_unread());
        self.stop_relay.store(true, Ordering::Relaxed);
        let report = self.relay.join().map_err(failed)??;
        let beside = self.beside.map(JoinHandle::join).transpose().map_err(failed)?.transpose()?;
        let device_drops = [0, 1].map(|end| dropped[end].unreported(report.reported_drops[end]));
        let capture = self.capture.map(JoinHandle::join).transpose();
        let capture = capture.map_err(|_| EmuError::Internal("the capture's thread failed"))?;
        let mut spans = Vec::new();
        while let Ok(event) = self.context.events_rx.try_recv() {
            match event {
                Event::Relay(RelayEvent::Window(links)) => give_window(&links, &self.context.numbers, messages),
                Event::Relay(RelayEvent::Spans(reason)) => spans = reason,
                _ => {}
            }
        }
        self.path_events.give(end.since(self.start).as_secs_f64(), messages);
        let start_late_max_ms = race.as_ref().and_then(|(_, flows)| start_late_max_ms(flows, &spans, &self.context.numbers));
        let observation = Observation { sampler: &self.context.sampler, spans: &spans, start: self.start };
        let (experiment, flows) = race.unwrap_or_else(|| {
            let flows = observation.specs(&self.context.spec.role);
            (program_experiment(&self.context.spec, &self.context.profile, (self.start, end), flows), observation.results())
        });
        let (packets, no_route, recovery) = (report.delivered, report.no_route, report.recovery.clone());
        let result = EmulationResult { experiment, flows, start: self.start, end, packets, no_route, recovery };
        let endpoints = self.context.sampler.observed().values().map(|seen| (seen.key.client, seen.key.server)).collect();
        let gateway = self.context.gateway.as_deref();
        let (closes_missed, closes_unavailable) = self.context.sampler.closes_missed();
        messages.done(&Done {
            stopped,
            ending,
            relay: report,
            beside,
            gateway,
            capture,
            device_drops,
            datagrams_unread,
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

/// Returns the first failure of a flow or of an application.
fn check_flows(experiment: &Experiment, progress: &[Arc<Progress>], plugins: &dyn Plugins) -> Result<(), EmuError> {
    if let Some(reason) = plugins.failure() {
        return Err(EmuError::App(reason));
    }
    let failed = experiment.flows.iter().zip(progress).find_map(|(flow, progress)| Some((flow, progress.failed()?)));
    failed.map_or(Ok(()), |(flow, failure)| Err(error_of(flow, failure)))
}

/// Return the error of a flow that failed. The author of its application answers for its choices, and not for the sockets.
fn error_of(flow: &FlowSpec, failure: &Failure) -> EmuError {
    match failure {
        Failure::Misuse(misuse) => EmuError::Misuse(misuse.clone()),
        Failure::Controller(reason) => EmuError::App(format!("app {}: {reason}", name_of(&flow.app))),
        Failure::Socket(e) => EmuError::Flow { controller: flow.controller.clone(), reason: e.to_string() },
    }
}

fn lock(items: &SharedItems) -> MutexGuard<'_, Items> {
    items.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Gives the rows of a window of `links`, with the flows' numbers in the rows.
fn give_window(links: &Links, numbers: &Numbers, messages: &mut MessageWriter) {
    for row in links.rows() {
        let flow = u32::try_from(row.flow).map_or(row.flow, |relay| i64::from(numbers.of(relay)));
        messages.row(&Row::Link(LinkRow { flow, ..row }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::errno::Errno;
    use serde_json::json;
    use std::io;

    #[test]
    fn an_application_is_blamed_for_its_choices_and_not_for_the_machine() {
        let app = json!({"plugin": {"name": "mine.py:Mine"}});
        let flow = json!({"profile": "path", "direction": "down", "controller": "cubic", "start_ns": 0, "app": app});
        let flow: FlowSpec = serde_json::from_value(flow).unwrap();
        for errno in [Errno::EMFILE, Errno::ENOMEM, Errno::ECONNRESET, Errno::ECONNREFUSED] {
            let error = error_of(&flow, &Failure::Socket(io::Error::from(errno)));
            assert_eq!(error.kind(), "emulator", "{error}");
            assert!(error.to_string().starts_with("a flow with cubic: "), "{error}");
        }
        let error = error_of(&flow, &Failure::Controller("the application opens a connection with x".to_owned()));
        assert_eq!((error.kind(), error.to_string().as_str()), ("app", "app mine.py:Mine: the application opens a connection with x"));
    }
}
