//! A web page: objects that depend on each other, fetched from several hosts over HTTP/1.1, HTTP/2 or HTTP/3.
//!
//! An object is wanted once the object that leads to it has arrived and its computation is over. HTTP/1.1 takes up to six connections to a host, with one request
//! at a time on each; HTTP/2 takes one, with all requests at once, which the server answers in order. Each of these begins with a TLS 1.3 handshake of
//! one RTT behind TCP's. HTTP/3 takes one over QUIC, whose handshake has TLS's in it; each request has a stream of its own. Each load opens new connections and finds nothing in a cache.

use crate::actions::{Actions, Item};
use crate::app::{App, Event};
use crate::message::{Message, StreamId};
use bentpipe_profile::app::{HttpVersion, WebObject};
use bentpipe_profile::{Bytes, Nanos, Time};
use std::collections::{BTreeMap, VecDeque};

/// Most connections of HTTP/1.1 to a host: that of Chromium and Firefox.
const MOST_CONNECTIONS: usize = 6;
/// A TLS 1.3 `ClientHello`, and the server's answer with a certificate chain [bytes] (sizes as in RFC 8446's flights with two certificates of ECDSA; chosen here).
const CLIENT_HELLO: Bytes = Bytes(517);
const SERVER_FLIGHT: u64 = 4000;
/// From here on numbers of messages are those of TLS handshakes, and timers those of pauses.
const RESERVED: u64 = 1 << 62;

/// A connection to a host.
struct Connection {
    host: u32,
    /// Whether the TLS handshake is over.
    is_secure: bool,
    /// Requests that wait for their answers.
    open: usize,
}

/// The end that loads the page.
pub struct Web {
    objects: Vec<WebObject>,
    http: HttpVersion,
    loads: Option<u64>,
    pause: Nanos,
    /// Number of the current load.
    load: u64,
    missing: usize,
    connections: BTreeMap<StreamId, Connection>,
    /// Objects that wait for a connection, by host.
    waiting: BTreeMap<u32, VecDeque<usize>>,
}

impl Web {
    /// Create the end that loads a page `loads` times (`None`: without end), with `pause` between two loads.
    #[must_use]
    pub const fn new(objects: Vec<WebObject>, http: HttpVersion, loads: Option<u64>, pause: Nanos) -> Self {
        Self { objects, http, loads, pause, load: 0, missing: 0, connections: BTreeMap::new(), waiting: BTreeMap::new() }
    }

    /// Return the number of items of a load: its objects and the page.
    fn items(&self) -> u64 {
        self.objects.len() as u64 + 1
    }

    /// Return the item of the page in this load. Its objects follow.
    fn page(&self) -> u64 {
        self.load * self.items()
    }

    fn begin(&mut self, now: Time, actions: &mut Actions) {
        self.missing = self.objects.len();
        let bytes = Bytes(self.objects.iter().map(|object| object.response_bytes.0).sum());
        let item = Item { id: self.page(), kind: Some("page".into()), start: Some(now), bytes: Some(bytes), ..Item::default() };
        actions.record(item);
        self.follow(now, None, actions);
    }

    /// Want the objects that an object leads to (`None`: those of the page itself), now or after their computations.
    fn follow(&mut self, now: Time, leader: Option<usize>, actions: &mut Actions) {
        for object in 0..self.objects.len() {
            let WebObject { after, compute_ns, .. } = self.objects[object];
            if after == leader && compute_ns == Nanos::ZERO {
                self.want(now, object, actions);
            } else if after == leader {
                actions.set_timer(now + compute_ns, self.page() + 1 + object as u64);
            }
        }
    }

    /// Request an object on a connection of its host, or open one, or let it wait.
    fn want(&mut self, now: Time, object: usize, actions: &mut Actions) {
        let WebObject { host, response_bytes, .. } = self.objects[object];
        let id = self.page() + 1 + object as u64;
        actions.record(Item { id, kind: Some("object".into()), start: Some(now), bytes: Some(response_bytes), ..Item::default() });
        self.waiting.entry(host).or_default().push_back(object);
        let connections = self.connections.values().filter(|connection| connection.host == host);
        let (count, most) = (connections.clone().count(), if self.http == HttpVersion::One { MOST_CONNECTIONS } else { 1 });
        let soon_free = connections.filter(|connection| connection.open == 0).count();
        let wait = self.waiting.get(&host).map_or(0, VecDeque::len);
        if count < most && soon_free < wait {
            let stream = if self.http == HttpVersion::Three { actions.open_quic() } else { actions.open() };
            self.connections.insert(stream, Connection { host, is_secure: false, open: 0 });
        }
        self.serve(host, actions);
    }

    /// Give the objects that wait for a host to its connections.
    fn serve(&mut self, host: u32, actions: &mut Actions) {
        let Some(waiting) = self.waiting.get_mut(&host) else { return };
        let most = if self.http == HttpVersion::One { 1 } else { usize::MAX };
        for (&stream, connection) in self.connections.iter_mut().filter(|(_, each)| each.host == host && each.is_secure) {
            while connection.open < most
                && let Some(object) = waiting.pop_front()
            {
                connection.open += 1;
                let WebObject { request_bytes, response_bytes, .. } = self.objects[object];
                let id = self.load * (self.objects.len() as u64 + 1) + 1 + object as u64;
                actions.write(stream, Message { bytes: request_bytes, id, answer_bytes: response_bytes.0 });
            }
        }
    }

    /// Use a connection whose handshake is over.
    fn secure(&mut self, stream: StreamId, actions: &mut Actions) {
        if let Some(connection) = self.connections.get_mut(&stream) {
            connection.is_secure = true;
            let host = connection.host;
            self.serve(host, actions);
        }
    }

    fn arrived(&mut self, now: Time, stream: StreamId, id: u64, first_byte: Time, actions: &mut Actions) {
        if id >= RESERVED {
            return self.secure(stream, actions);
        }
        let Some(connection) = self.connections.get_mut(&stream) else { return };
        let host = connection.host;
        connection.open -= 1;
        actions.record(Item { id, first_byte: Some(first_byte), completed: Some(now), ..Item::default() });
        self.missing -= 1;
        let page = self.page();
        #[allow(clippy::cast_possible_truncation)] // an index of an object
        self.follow(now, Some((id - page - 1) as usize), actions);
        self.serve(host, actions);
        if self.missing == 0 {
            actions.record(Item { id: page, completed: Some(now), ..Item::default() });
            for stream in std::mem::take(&mut self.connections).into_keys() {
                actions.close(stream);
            }
            self.load += 1;
            if self.loads.is_some_and(|loads| self.load >= loads) {
                actions.finish();
            } else {
                actions.set_timer(now + self.pause, RESERVED);
            }
        }
    }
}

impl App for Web {
    fn on_event(&mut self, now: Time, event: &Event, actions: &mut Actions) {
        match *event {
            Event::Started | Event::Timer(RESERVED) => self.begin(now, actions),
            Event::Opened(stream) if self.http == HttpVersion::Three => self.secure(stream, actions),
            Event::Opened(stream) if self.connections.contains_key(&stream) => {
                actions.write(stream, Message { bytes: CLIENT_HELLO, id: RESERVED, answer_bytes: SERVER_FLIGHT });
            }
            Event::Message { stream, message, first_byte } => self.arrived(now, stream, message.id, first_byte, actions),
            #[allow(clippy::cast_possible_truncation)] // an index of an object
            Event::Timer(item) => self.want(now, (item - self.page() - 1) as usize, actions),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Action;
    use crate::testing::drive;

    fn object(host: u32, after: Option<usize>, compute: u64) -> WebObject {
        WebObject { host, request_bytes: Bytes(400), response_bytes: Bytes(10_000), after, compute_ns: Nanos(compute) }
    }

    /// A client whose server answers at once. Returns the numbers of the requests at each step, and the connections that were open at most.
    struct Loading {
        app: Web,
        actions: Actions,
        open: Vec<StreamId>,
        /// Connections that are not established yet.
        opening: Vec<StreamId>,
        /// Messages without an answer.
        unanswered: VecDeque<(StreamId, u64)>,
        timers: BTreeMap<u64, u64>,
        items: BTreeMap<u64, Item>,
        most_open: usize,
        is_finished: bool,
        now: u64,
    }

    impl Loading {
        fn begin(app: Web) -> Self {
            let mut loading = Self {
                app,
                actions: Actions::default(),
                open: vec![],
                opening: vec![],
                unanswered: VecDeque::new(),
                timers: BTreeMap::new(),
                items: BTreeMap::new(),
                most_open: 0,
                is_finished: false,
                now: 0,
            };
            loading.tell(&Event::Started);
            loading
        }

        fn tell(&mut self, event: &Event) {
            for action in drive(&mut self.app, &mut self.actions, self.now, event) {
                match action {
                    Action::Open { stream, .. } => {
                        self.open.push(stream);
                        self.opening.push(stream);
                        self.most_open = self.most_open.max(self.open.len());
                    }
                    Action::Write(stream, message) => self.unanswered.push_back((stream, message.id)),
                    Action::SetTimer { at, timer } => drop(self.timers.insert(timer, at.0)),
                    Action::Record(item) => {
                        let own = self.items.entry(item.id).or_default();
                        own.start = own.start.or(item.start);
                        own.completed = own.completed.or(item.completed);
                    }
                    Action::Close(stream) => self.open.retain(|each| *each != stream),
                    Action::Finish => self.is_finished = true,
                    Action::Send(_) => panic!("a page sends no datagrams"),
                }
            }
        }

        /// Let a millisecond pass: connections open, one message of each is answered, timers run. Returns the numbers of messages that were open.
        fn step(&mut self) -> Vec<u64> {
            self.now += 1;
            for stream in std::mem::take(&mut self.opening) {
                self.tell(&Event::Opened(stream));
            }
            let due: Vec<u64> = self.timers.iter().filter(|(_, at)| **at <= self.now).map(|(timer, _)| *timer).collect();
            for timer in due {
                self.timers.remove(&timer);
                self.tell(&Event::Timer(timer));
            }
            let unanswered: Vec<_> = self.unanswered.drain(..).collect();
            for &(stream, id) in &unanswered {
                let message = Message { bytes: Bytes(10_000), id, answer_bytes: 0 };
                self.tell(&Event::Message { stream, message, first_byte: Time(self.now) });
            }
            unanswered.into_iter().map(|(_, id)| id).collect()
        }

        fn run(&mut self) -> Vec<Vec<u64>> {
            let mut steps = vec![];
            while !self.is_finished {
                steps.push(self.step());
                assert!(self.now < 1000, "the page does not end");
            }
            steps
        }
    }

    #[test]
    fn an_object_follows_the_one_that_leads_to_it_and_its_computation() {
        let objects = vec![object(0, None, 0), object(0, Some(0), 0), object(0, Some(1), 20)];
        let mut loading = Loading::begin(Web::new(objects, HttpVersion::Two, Some(1), Nanos::ZERO));
        loading.run();
        let times = |id: u64| (loading.items[&id].start.unwrap().0, loading.items[&id].completed.unwrap().0);
        let [page, first, second, third] = [0, 1, 2, 3].map(times);
        assert_eq!((page.0, first.0), (0, 0));
        assert_eq!(second.0, first.1);
        assert_eq!(third.0, second.1 + 20);
        assert_eq!(page.1, third.1);
        assert!(loading.open.is_empty(), "a load closes its connections");
    }

    #[test]
    fn http_1_takes_six_connections_to_a_host_and_later_versions_one() {
        let objects: Vec<_> = (0..20).map(|_| object(0, None, 0)).chain((0..3).map(|_| object(1, None, 0))).collect();
        for (http, connections, at_once) in [(HttpVersion::One, 9, 9), (HttpVersion::Two, 2, 23), (HttpVersion::Three, 2, 23)] {
            let mut loading = Loading::begin(Web::new(objects.clone(), http, Some(1), Nanos::ZERO));
            let steps = loading.run();
            assert_eq!(loading.most_open, connections);
            let requests = |step: &Vec<u64>| step.iter().filter(|id| **id < RESERVED).count();
            assert_eq!(steps.iter().map(requests).max(), Some(at_once));
            assert_eq!(steps.iter().map(requests).sum::<usize>(), 23, "each object is requested once");
        }
    }

    #[test]
    fn loads_follow_each_other_on_new_connections() {
        let objects = vec![object(0, None, 0), object(1, Some(0), 5)];
        let mut loading = Loading::begin(Web::new(objects, HttpVersion::One, Some(3), Nanos(7)));
        loading.run();
        let pages: Vec<_> = [0, 3, 6].map(|id| (loading.items[&id].start.unwrap().0, loading.items[&id].completed.unwrap().0)).to_vec();
        assert!(pages.windows(2).all(|pair| pair[1].0 == pair[0].1 + 7), "{pages:?}");
        assert_eq!(loading.items.len(), 9);
    }
}
