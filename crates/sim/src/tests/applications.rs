//! Applications of the tests' own.

use super::{experiment, flow, handover_path, run};
use crate::{RunData, SimError, Simulation};
use bentpipe_apps::server::Server;
use bentpipe_apps::{Actions, App, ControllerChoice, Ends, Event, Item, Message, StreamId};
use bentpipe_cc::controllers::Controllers;
use bentpipe_profile::app::AppSpec;
use bentpipe_profile::{Bytes, Direction, Nanos, Time};
use std::collections::{BTreeMap, BTreeSet};

/// An application that a function plays.
struct Script<F>(F);

impl<F: FnMut(Time, &Event, &mut Actions) + Send> App for Script<F> {
    fn on_event(&mut self, now: Time, event: &Event, actions: &mut Actions) {
        (self.0)(now, event, actions);
    }
}

fn script(events: impl FnMut(Time, &Event, &mut Actions) + Send + 'static) -> Box<dyn App> {
    Box::new(Script(events))
}

/// Run a CUBIC flow for three seconds between a `client`, which receives its data, and a `server`. The RTT is 30 ms.
fn run_between(client: fn() -> Box<dyn App>, server: fn() -> Box<dyn App>) -> RunData {
    try_between(client, server).expect("no application fails")
}

/// As [`run_between`], with the error of an application.
fn try_between(client: fn() -> Box<dyn App>, server: fn() -> Box<dyn App>) -> Result<RunData, SimError> {
    let app = AppSpec::Plugin { name: "test".to_owned(), options: BTreeMap::new() };
    let ends = move |_: &AppSpec, _| Some(Ends { sender: server(), receiver: client() });
    let experiment = experiment(3, 1, vec![flow("cubic", Direction::Down, app)]);
    let mut simulation = Simulation::with_plugins(experiment, vec![handover_path(10, 0)], &Controllers::default(), &ends).unwrap();
    simulation.run_until(Nanos::from_secs(3))?;
    Ok(simulation.finish())
}

fn message(bytes: u64, id: u64, answer_bytes: u64) -> Message {
    Message { bytes: Bytes(bytes), id, answer_bytes }
}

#[test]
fn a_flow_that_finishes_is_complete_when_its_last_answer_has_arrived() {
    let client = || {
        script(|_, event, actions| {
            if *event == Event::Started {
                let stream = actions.open();
                actions.write(stream, message(200, 1, 5_000));
                actions.finish();
            }
        })
    };
    let data = run_between(client, || Box::new(Server::new(Nanos::from_millis(300))));
    // The handshake, the request, 300 ms, the answer.
    let completed_s = data.summary.flows[0].completed_s.expect("the answer arrives");
    assert!((0.360..0.370).contains(&completed_s), "{completed_s}");
}

#[test]
fn a_flow_that_finishes_in_a_timer_is_complete_then() {
    let client = || {
        script(|_, event, actions| match event {
            Event::Started => {
                let stream = actions.open();
                actions.write(stream, message(200, 1, 0));
                actions.set_timer(Time(1_000_000_000), 0);
            }
            Event::Timer(_) => actions.finish(),
            _ => {}
        })
    };
    let data = run_between(client, || Box::<Server>::default());
    assert_eq!(data.summary.flows[0].completed_s, Some(1.0));
}

#[test]
fn an_end_that_has_written_nothing_closes_with_a_fin() {
    // The client closes after its message, and is told when the server, which writes nothing, has closed, too.
    let client = || {
        script(|now, event, actions| match *event {
            Event::Started => {
                let stream = actions.open();
                actions.write(stream, message(200, 1, 0));
                actions.close(stream);
            }
            Event::Closed(_) => actions.record(Item { id: 9, completed: Some(now), ..Item::default() }),
            _ => {}
        })
    };
    let items = run_between(client, || Box::<Server>::default()).tables.applications;
    let closed_s = items.id.iter().position(|id| *id == 9).map(|row| items.completed_s[row]);
    assert!(closed_s.is_some_and(|at_s| (0.060..0.065).contains(&at_s)), "{closed_s:?}");
}

/// Return the error of a client that fails.
fn error_of(client: fn() -> Box<dyn App>) -> String {
    try_between(client, || Box::<Server>::default()).expect_err("the application must fail").to_string()
}

#[test]
fn a_write_to_a_stream_that_is_not_open_ends_the_run() {
    let unknown = || script(|_, _, actions| actions.write(StreamId(3), message(200, 0, 0)));
    let closed = || {
        script(|_, event, actions| match *event {
            Event::Started => drop(actions.open()),
            Event::Opened(stream) => {
                actions.close(stream);
                actions.write(stream, message(200, 0, 0));
            }
            _ => {}
        })
    };
    let over = || {
        script(|_, event, actions| match *event {
            Event::Started => {
                for stream in [actions.open(), actions.open()] {
                    actions.close(stream);
                }
                actions.set_timer(Time(1_000_000_000), 0);
            }
            Event::Timer(_) => {
                actions.close(StreamId(0)); // closing twice is allowed
                actions.write(StreamId(0), message(200, 0, 0));
            }
            _ => {}
        })
    };
    assert_eq!(
        error_of(unknown),
        "flows[0].app: test: it uses stream 3, which does not exist, at 0.000000 s; expected a stream that it opened or accepted"
    );
    assert_eq!(error_of(closed), "flows[0].app: test: it writes to stream 0, which it has closed, at 0.030042 s; expected an open stream");
    assert!(error_of(over).contains("stream 0, which it has closed, at 1.000000 s"));
}

#[test]
fn an_application_that_sets_its_timers_to_now_ends_the_run() {
    let spinning = || {
        script(|now, event, actions| match event {
            Event::Started => actions.set_timer(Time(1_500_000_000), 0),
            Event::Timer(_) => actions.set_timer(now, 0),
            _ => {}
        })
    };
    assert_eq!(
        error_of(spinning),
        "flows[0].app: test: more than 10000 of its timers are due at 1.500000 s; expected a timer that it sets to be later than now"
    );
}

#[test]
fn every_request_is_answered_over_a_path_that_loses_packets() {
    let app =
        AppSpec::Request { request_bytes: Bytes(3_000), response_bytes: Bytes(30_000), count: Some(40), think_ns: Nanos::from_millis(5) };
    let path = handover_path(60, 30_000_000); // 3 % on each of two hops, each way
    for seed in 0..20 {
        let flows = ["cubic", "bbr"].map(|controller| flow(controller, Direction::Down, app.clone())).to_vec();
        let data = run(experiment(60, seed, flows), &path);
        let items = &data.tables.applications;
        for (index, summary) in data.summary.flows.iter().enumerate() {
            let rows: Vec<usize> = (0..items.id.len()).filter(|&row| items.flow[row] == index as u64).collect();
            assert_eq!(rows.iter().map(|&row| items.id[row]).collect::<Vec<_>>(), (0..40).collect::<Vec<_>>());
            assert!(
                rows.iter().all(|&row| items.completed_s[row] >= items.first_byte_s[row] && items.first_byte_s[row] > items.start_s[row])
            );
            assert_eq!(summary.completed_s, rows.last().map(|&row| items.completed_s[row]), "seed {seed}");
        }
        let delivered = data.tables.samples.goodput_bytes.iter().rev().take(2);
        assert!(delivered.eq([&1_200_000, &1_200_000]), "each response once, seed {seed}");
    }
}

#[test]
fn a_connection_may_have_a_controller_of_its_own() {
    let server = || {
        script(|_, event, actions| {
            if *event == Event::Started {
                for name in [None, Some("bbr")] {
                    let controller = name.map(|name| ControllerChoice { name: name.to_owned(), options: BTreeMap::new() });
                    let stream = actions.open_with(controller);
                    actions.write(stream, message(2_000_000, 0, 0));
                }
            }
        })
    };
    let events = run_between(|| Box::<Server>::default(), server).tables.events;
    let states: BTreeSet<&str> = (0..events.kind.len()).filter(|&i| events.kind[i] == "state").map(|i| events.detail[i].as_str()).collect();
    assert!(states.contains("startup") && states.contains("slow_start"), "{states:?}");
}

#[test]
fn an_unknown_controller_of_a_connection_ends_the_run() {
    let client = || {
        script(|_, _, actions| {
            actions.open_with(Some(ControllerChoice { name: "qubic".to_owned(), options: BTreeMap::new() }));
        })
    };
    let error = error_of(client);
    assert!(
        error.starts_with("flows[0].app: test: it opens a connection: unknown congestion controller `qubic` (did you mean `cubic`?)"),
        "{error}"
    );
}
