use super::*;
use crate::config::{ReceiverConfig, SenderConfig};
use bentpipe_cc::registry;
use bentpipe_profile::Streams;
use std::collections::BTreeMap;

const ONE_WAY: Nanos = Nanos::from_millis(20);

/// Two ends with a constant delay between them and no losses.
struct Pair {
    ends: [Tcp; 2],
    /// Packets on the way, by the end that receives them.
    on_the_way: [VecDeque<(Time, TcpPacket)>; 2],
    now: Time,
    /// Packets sent by each end: data segments, acknowledgements on them, and acknowledgements alone.
    sent: [[u32; 3]; 2],
}

fn sender() -> Sender {
    let config = SenderConfig::default();
    let controller = registry::build("cubic", &config.controller_config(Streams::new(1)), &BTreeMap::new());
    Sender::new(config, controller.expect("a known controller"))
}

impl Pair {
    fn new() -> Self {
        let receiver = || Receiver::new(ReceiverConfig::default());
        let ends = [Tcp::opening(sender(), receiver()), Tcp::accepting(receiver())];
        let mut pair = Self { ends, on_the_way: Default::default(), now: Time(1_000_000_000), sent: [[0; 3]; 2] };
        pair.ends[0].open(pair.now);
        pair
    }

    fn transmit(&mut self) {
        for end in 0..2 {
            while let Some(packet) = self.ends[end].poll_transmit(self.now) {
                match packet {
                    TcpPacket::Segment(segment, piggyback) => {
                        self.sent[end][0] += u32::from(!segment.syn);
                        self.sent[end][1] += u32::from(piggyback.is_some());
                    }
                    TcpPacket::Ack(ack) => self.sent[end][2] += u32::from(!ack.syn),
                }
                self.on_the_way[1 - end].push_back((self.now + ONE_WAY, packet));
            }
        }
    }

    /// Run until `done`, at most for ten seconds. Returns the time that it took.
    fn run_until(&mut self, done: impl Fn(&Self) -> bool) -> Nanos {
        let begin = self.now;
        self.transmit();
        while !done(self) {
            let arrivals = self.on_the_way.iter().filter_map(|queue| queue.front().map(|first| first.0));
            let wakes = self.ends.iter().filter_map(Endpoint::wake_at);
            self.now = arrivals.chain(wakes).min().expect("something is due");
            assert!(self.now.since(begin) < Nanos::from_secs(10), "it never happens");
            for end in 0..2 {
                let mut batch = Vec::new();
                while self.on_the_way[end].front().is_some_and(|first| first.0 <= self.now) {
                    batch.extend(self.on_the_way[end].pop_front().map(|(_, packet)| Arrival { packet, ce: false }));
                }
                self.ends[end].on_packets(self.now, &batch, &[]);
                if self.ends[end].wake_at().is_some_and(|at| at <= self.now) {
                    self.ends[end].on_wake(self.now);
                }
            }
            self.transmit();
        }
        self.now.since(begin)
    }

    /// Write a request and, when it has arrived, a response. Returns the time until the whole response has arrived.
    fn request(&mut self, request: u64, response: u64) -> Nanos {
        let (asked, answered) = (self.ends[1].delivered().0 + request, self.ends[0].delivered().0 + response);
        self.ends[0].write(self.now, Bytes(request));
        let there = self.run_until(|pair| pair.ends[1].delivered().0 == asked);
        if !self.ends[1].has_sender() {
            self.ends[1].set_sender(self.now, sender());
        }
        self.ends[1].write(self.now, Bytes(response));
        there + self.run_until(|pair| pair.ends[0].delivered().0 == answered)
    }
}

#[test]
fn the_opening_end_answers_the_syn_ack_even_without_data() {
    let mut pair = Pair::new();
    let took = pair.run_until(|pair| pair.ends[1].is_established());
    assert_eq!(took, Nanos(3 * ONE_WAY.0));
    assert_eq!(pair.sent, [[0, 0, 1], [0, 0, 0]]);
}

#[test]
fn a_request_and_its_short_response_take_one_rtt() {
    let mut pair = Pair::new();
    pair.run_until(|pair| pair.ends[0].is_established());
    for _ in 0..20 {
        assert_eq!(pair.request(200, 5_000), Nanos(2 * ONE_WAY.0));
    }
}

#[test]
fn acknowledgements_of_requests_travel_on_the_responses() {
    let mut pair = Pair::new();
    pair.run_until(|pair| pair.ends[0].is_established());
    for _ in 0..30 {
        pair.request(200, 500);
    }
    let [client, server] = pair.sent;
    assert_eq!((client[0], server[0]), (30, 30));
    assert!(server[1] >= 29 && server[2] <= 1, "the first one is acknowledged at once: {server:?}");
    assert!(client[1] >= 28 && client[2] <= 2, "{client:?}");
}

#[test]
fn a_delayed_acknowledgement_ends_the_interactive_mode() {
    let mut pair = Pair::new();
    pair.run_until(|pair| pair.ends[0].is_established());
    for _ in 0..5 {
        pair.request(200, 500);
    }
    let before = pair.sent[1][2];
    for _ in 0..2 {
        let asked = pair.ends[1].delivered().0 + 200;
        pair.ends[0].write(pair.now, Bytes(200));
        pair.run_until(|pair| pair.ends[1].delivered().0 == asked);
        let unanswered = pair.ends[0].acked().0 + 200;
        pair.run_until(|pair| pair.ends[0].acked().0 == unanswered);
    }
    assert_eq!(pair.sent[1][2], before + 2);
}

#[test]
fn both_directions_carry_bulk_data_and_close() {
    let mut pair = Pair::new();
    pair.ends[0].write(pair.now, Bytes(3_000_000));
    pair.run_until(|pair| pair.ends[1].is_established());
    pair.ends[1].set_sender(pair.now, sender());
    pair.ends[1].write(pair.now, Bytes(2_000_000));
    pair.ends.iter_mut().for_each(Tcp::close);
    pair.run_until(|pair| pair.ends.iter().all(|end| end.is_closed() && end.is_done()));
    assert_eq!([pair.ends[0].delivered(), pair.ends[1].delivered()], [Bytes(2_000_000), Bytes(3_000_000)]);
    assert!(pair.ends.iter().all(|end| end.stats().is_some_and(|stats| stats.retransmits == 0)));
}

#[test]
fn nothing_is_sent_after_the_stop() {
    let mut pair = Pair::new();
    pair.ends[0].stop_at(pair.now + Nanos::from_millis(100));
    pair.ends[0].write(pair.now, Bytes::MAX);
    pair.run_until(|pair| pair.on_the_way.iter().all(VecDeque::is_empty));
    assert!(pair.now.since(Time(1_000_000_000)) < Nanos::from_millis(200));
    assert!(pair.ends[1].delivered().0 > 10_000);
}
