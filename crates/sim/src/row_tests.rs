//! Rows of a simulation: complete, in time, and without effect on the Run.

use crate::testing::{experiment, flow, handover_path};
use crate::{RunData, Simulation};
use bentpipe_profile::app::AppSpec;
use bentpipe_profile::experiment::Experiment;
use bentpipe_profile::run::{Header, ROW_FORMAT, Row, RunSink, RunTables};
use bentpipe_profile::{Bytes, Direction, Nanos};
use std::sync::{Arc, Mutex};

/// What a sink has received.
#[derive(Default)]
struct Received {
    tables: RunTables,
    header: Option<Header>,
    flows: Vec<(u64, String)>,
    /// Time of each sample, window and event, in order of arrival.
    times_s: Vec<f64>,
}

#[derive(Clone, Default)]
struct Shared(Arc<Mutex<Received>>);

impl RunSink for Shared {
    fn row(&mut self, row: &Row<'_>) {
        let mut received = self.0.lock().unwrap();
        received.tables.row(row);
        match row {
            Row::Header(header) => received.header = Some((*header).clone()),
            Row::Flow(flow) => received.flows.push((flow.flow, flow.controller.to_owned())),
            Row::Sample(sample) => received.times_s.push(sample.t_s),
            Row::Link(link) => received.times_s.push(link.t_s),
            Row::Event(event) => received.times_s.push(event.t_s),
            Row::Application(_) | Row::Dropped { .. } => {}
        }
    }
}

fn requests() -> Experiment {
    let request =
        AppSpec::Request { request_bytes: Bytes(200), response_bytes: Bytes(50_000), count: None, think_ns: Nanos::from_millis(20) };
    experiment(10, 7, vec![flow("cubic", Direction::Down, AppSpec::Bulk), flow("bbr", Direction::Down, request)])
}

fn run(experiment: Experiment, sink: Option<Shared>) -> RunData {
    let mut simulation = Simulation::new(experiment, vec![handover_path(10, 2_000_000)]).unwrap();
    if let Some(sink) = sink {
        simulation.stream_to(Box::new(sink));
    }
    while simulation.run_until(Nanos::from_secs(10)).unwrap() {}
    simulation.finish()
}

#[test]
fn the_rows_of_a_run_make_its_tables() {
    let sink = Shared::default();
    let data = run(requests(), Some(sink.clone()));
    let mut received = sink.0.lock().unwrap();
    received.tables.events.sort();
    assert!(data.tables.applications.flow.len() > 20 && data.tables.events.kind.iter().any(|kind| kind == "handover"));
    // Through text, as an unknown value (NaN) equals itself there alone.
    assert_eq!(format!("{:?}", received.tables), format!("{:?}", data.tables));
}

#[test]
fn a_sink_does_not_change_the_run() {
    assert_eq!(run(requests(), Some(Shared::default())).content_hash(), run(requests(), None).content_hash());
}

#[test]
fn the_first_rows_name_the_format_the_paths_and_the_flows() {
    let sink = Shared::default();
    let mut simulation = Simulation::new(requests(), vec![handover_path(10, 0)]).unwrap();
    simulation.stream_to(Box::new(sink.clone()));
    let received = sink.0.lock().unwrap();
    let header = received.header.clone().unwrap();
    assert_eq!((header.format, header.world, header.duration_s), (ROW_FORMAT, "simulated", Some(10.0)));
    assert_eq!(header.paths[0].hops, ["sat:a", "sat:b", "wire"]);
    assert_eq!(received.flows, [(0, "cubic".to_owned()), (1, "bbr".to_owned())]);
}

#[test]
fn rows_arrive_while_the_run_goes_on() {
    let sink = Shared::default();
    let mut simulation = Simulation::new(requests(), vec![handover_path(10, 0)]).unwrap();
    simulation.stream_to(Box::new(sink.clone()));
    for second in 1..=10_u32 {
        simulation.run_until(Nanos::from_secs(u64::from(second))).unwrap();
        let received = sink.0.lock().unwrap();
        assert_eq!(received.tables.samples.t_s.last(), Some(&f64::from(second)));
        assert_eq!(received.tables.links.t_s.last(), Some(&f64::from(second)));
        // The handover at 5 s is no news before.
        assert_eq!(received.tables.events.kind.iter().any(|kind| kind == "handover"), second >= 5);
        let step_s = received.header.as_ref().unwrap().sample_step_s;
        assert!(received.times_s.is_sorted_by(|a, b| *b >= a - step_s));
    }
}
