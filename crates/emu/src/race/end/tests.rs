//! Both ends of a flow in one thread, over the loopback.

use super::*;
use crate::race::SharedItems;
use bentpipe_apps::{Actions, Interest};
use bentpipe_profile::Bytes;
use socket2::{Domain, Protocol, Type};
use std::sync::Mutex;

/// What an application does at an event.
type Handler = Box<dyn FnMut(Time, &Event, &mut Actions) + Send>;

/// An application made of a function. It stores the events that it sees.
struct Script {
    on_event: Handler,
    seen: Arc<Mutex<Vec<Event>>>,
}

impl App for Script {
    fn interest(&self) -> Interest {
        Interest { delivered: true, ..Interest::default() }
    }

    fn on_event(&mut self, now: Time, event: &Event, actions: &mut Actions) {
        self.seen.lock().unwrap().push(event.clone());
        (self.on_event)(now, event, actions);
    }
}

fn idle() -> Handler {
    Box::new(|_, _, _| {})
}

/// Return both ends of a flow with these applications, and the events that they have seen.
fn ends(apps: [Handler; 2]) -> [(End, Arc<Mutex<Vec<Event>>>); 2] {
    let listen = || {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP)).unwrap();
        socket.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
        socket.listen(1).unwrap();
        socket
    };
    let listeners = [listen(), listen()];
    let addresses = [0, 1].map(|end| listeners[end].local_addr().unwrap().as_socket().unwrap());
    let progress = Arc::new(Progress::new(0, SharedItems::default()));
    let clock = Clock::starting_at(Time::ZERO, Nanos::ZERO);
    let mut own = 0;
    let mut places = listeners.into_iter().zip(apps);
    [(); 2].map(|()| {
        let (listener, on_event) = places.next().unwrap();
        let setting = Setting {
            app: AppSpec::Bulk,
            controller: "reno".to_owned(),
            peer: addresses[1 - own],
            clock,
            begin: Time::ZERO,
            start: Time::ZERO,
            stop: Time(60_000_000_000),
            receives: own == 1,
            progress: Arc::clone(&progress),
        };
        own += 1;
        let seen = Arc::default();
        let mut end = End::new(Box::new(Script { on_event, seen: Arc::clone(&seen) }), listener, setting).unwrap();
        end.tell(&Event::Started).unwrap();
        (end, seen)
    })
}

/// Let both ends work until `enough` holds, or 200 rounds are over.
fn run_until([a, b]: [&mut End; 2], enough: impl Fn(&End) -> bool) {
    for _ in 0..200 {
        if enough(a) {
            return;
        }
        a.wait(Nanos::from_millis(1)).unwrap();
        b.wait(Nanos::from_millis(1)).unwrap();
    }
}

fn message() -> Message {
    Message { bytes: Bytes(1000), id: 0, answer_bytes: 0 }
}

/// The other end closes first. This one answers with its only message, closes, and learns that it arrived; then it forgets the connection.
#[test]
fn the_last_message_is_delivered_after_the_other_end_has_closed() {
    let [(mut a, seen), (mut b, _)] = ends([
        Box::new(|_, event, actions| match *event {
            Event::Started => drop(actions.open()),
            Event::Closed(stream) => {
                actions.write(stream, message());
                actions.close(stream);
            }
            _ => {}
        }),
        Box::new(|_, event, actions| {
            if let Event::Opened(stream) = *event {
                actions.close(stream);
            }
        }),
    ]);
    let is_over = |end: &End| end.opened == 1 && end.streams.is_empty();
    run_until([&mut a, &mut b], is_over);
    assert!(is_over(&a));
    let stream = StreamId(0);
    assert_eq!(*seen.lock().unwrap(), [Event::Started, Event::Opened(stream), Event::Closed(stream), Event::Delivered(stream)]);
}

/// While both ends have closed and the acknowledgement is to come, the socket hangs up at all times: that is no news.
#[test]
fn a_closed_connection_that_waits_for_its_acknowledgement_wakes_nobody() {
    let [(mut a, _), (mut b, _)] = ends([
        Box::new(|_, event, actions| {
            if *event == Event::Started {
                actions.open();
            }
        }),
        idle(),
    ]);
    run_until([&mut a, &mut b], |end| end.streams.values().all(|stream| !stream.is_connecting()));
    b.streams.values_mut().for_each(|stream| stream.stop().unwrap());
    let stream = a.streams.get_mut(&StreamId(0)).unwrap();
    stream.stop().unwrap();
    stream.expect_delivery();
    (0..5).for_each(|_| a.wait(Nanos::from_millis(1)).unwrap());
    let mut ready = [EpollEvent::empty(); 1];
    assert_eq!((a.streams.len(), a.epoll.wait(&mut ready, EpollTimeout::ZERO).unwrap()), (1, 0));
}

#[test]
fn a_thread_that_is_late_runs_all_its_timers_and_serves_the_sockets_in_between() {
    const INTERVALS: u64 = 25_000;
    let [(mut end, seen), _] = ends([
        Box::new(|_, event, actions| match *event {
            Event::Started => actions.set_timer(Time(0), 0),
            Event::Timer(number) if number < INTERVALS => actions.set_timer(Time(number + 1), number + 1),
            _ => {}
        }),
        idle(),
    ]);
    let late = Time(INTERVALS);
    let mut calls = 0;
    while end.timers.next().is_some() {
        end.run_timers(late).unwrap();
        calls += 1;
    }
    assert_eq!((seen.lock().unwrap().len() as u64, calls), (INTERVALS + 2, 3));
}

fn problem_of(end: &mut End, action: Action) -> String {
    match end.apply(action) {
        Err(Failure::Misuse(misuse)) => Misuse { at: Time::ZERO, ..misuse }.to_string(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_application_that_sets_its_timers_to_the_past_is_refused() {
    let [(mut end, _), _] = ends([
        Box::new(|_, event, actions| {
            if matches!(event, Event::Started | Event::Timer(_)) {
                actions.set_timer(Time(3), 0);
            }
        }),
        idle(),
    ]);
    let Err(Failure::Misuse(misuse)) = end.run_timers(Time(9)) else { panic!("it spins") };
    assert_eq!(misuse.mistake, Mistake::Spinning);
}

/// By the real clock each is due later than the one before, although nothing waits in between.
#[test]
fn an_application_that_sets_its_timers_to_now_is_refused() {
    let [(mut end, _), _] = ends([
        Box::new(|now, event, actions| {
            if matches!(event, Event::Started | Event::Timer(_)) {
                actions.set_timer(now, 0);
            }
        }),
        idle(),
    ]);
    let refused = (0..3).find_map(|_| end.run_timers(end.setting.clock.now()).err());
    assert!(matches!(refused, Some(Failure::Misuse(Misuse { mistake: Mistake::Spinning, .. }))), "{refused:?}");
}

/// The words are the simulator's.
#[test]
fn streams_that_are_unknown_or_closed_are_refused() {
    let [(mut end, _), _] = ends([idle(), idle()]);
    let unknown = "flows[0].app: Bulk: it uses stream 3, which does not exist, at 0.000000 s; expected a stream that it opened or accepted";
    assert_eq!(problem_of(&mut end, Action::Close(StreamId(3))), unknown);
    assert_eq!(problem_of(&mut end, Action::Write(StreamId(3), message())), unknown);
    let accepted = Action::Close(StreamId(StreamId::ACCEPTED));
    assert!(problem_of(&mut end, accepted).contains("stream 2147483648, which does not exist,"));
    end.apply(Action::Open { stream: StreamId(0), controller: None, transport: Transport::Tcp }).unwrap();
    for _ in 0..2 {
        end.apply(Action::Close(StreamId(0))).unwrap(); // closing twice is allowed
    }
    assert_eq!(
        problem_of(&mut end, Action::Write(StreamId(0), message())),
        "flows[0].app: Bulk: it writes to stream 0, which it has closed, at 0.000000 s; expected an open stream"
    );
}

/// As in the simulator: what is written there does not arrive, until the application closes the stream.
#[test]
fn a_connection_that_timed_out_swallows_what_is_written() {
    let [(mut end, _), _] = ends([idle(), idle()]);
    end.apply(Action::Open { stream: StreamId(0), controller: None, transport: Transport::Tcp }).unwrap();
    end.streams.clear();
    end.lost.insert(StreamId(0));
    end.apply(Action::Write(StreamId(0), message())).unwrap();
    end.apply(Action::Close(StreamId(0))).unwrap();
    assert!(problem_of(&mut end, Action::Write(StreamId(0), message())).contains("which it has closed"));
}
