use super::*;
use crate::config::{ReceiverConfig, SenderConfig};
use crate::sender::testing::{Fate, Path, path};
use bentpipe_cc::registry;
use bentpipe_profile::Streams;
use proptest::prelude::*;
use std::collections::BTreeMap;

const ONE_WAY: Nanos = Nanos::from_millis(20);

/// Two ends with a path between them that delays every packet equally, unless a test decides otherwise.
struct Pair {
    ends: [Tcp; 2],
    /// Packets in flight by the time of their arrival, for the end that receives them.
    in_flight: [BTreeMap<(Time, usize), TcpPacket>; 2],
    now: Time,
    /// Packets sent, with the end that sent them.
    sent: Vec<(usize, TcpPacket)>,
    /// Fate of the n-th packet of an end.
    fate: Box<dyn FnMut(usize, usize) -> Fate>,
    /// Longest time until something must happen.
    limit: Nanos,
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
        let mut pair = Self {
            ends,
            in_flight: Default::default(),
            now: Time(1_000_000_000),
            sent: Vec::new(),
            fate: Box::new(|_, _| Fate::Deliver),
            limit: Nanos::from_secs(10),
        };
        pair.ends[0].open(pair.now);
        pair
    }

    fn with_fates(fate: impl FnMut(usize, usize) -> Fate + 'static) -> Self {
        Self { fate: Box::new(fate), ..Self::new() }
    }

    fn sent_by(&self, end: usize) -> impl Iterator<Item = &TcpPacket> {
        self.sent.iter().filter_map(move |(by, packet)| (*by == end).then_some(packet))
    }

    /// Count the packets that an end sent after the handshake: data segments, acknowledgements on them, and acknowledgements alone.
    fn counts(&self, end: usize) -> [usize; 3] {
        let count = |is: fn(&TcpPacket) -> bool| self.sent_by(end).filter(|packet| is(packet)).count();
        [
            count(|packet| matches!(packet, TcpPacket::Segment(segment, _) if !segment.syn)),
            count(|packet| matches!(packet, TcpPacket::Segment(_, Some(_)))),
            count(|packet| matches!(packet, TcpPacket::Ack(ack) if !ack.syn)),
        ]
    }

    fn transmit(&mut self) {
        for end in 0..2 {
            while let Some(packet) = self.ends[end].poll_transmit(self.now) {
                let number = self.sent_by(end).count();
                self.sent.push((end, packet));
                let arrivals = match (self.fate)(end, number) {
                    Fate::Drop => vec![],
                    Fate::Late(extra) => vec![extra],
                    Fate::Twice(extra) => vec![Nanos::ZERO, extra],
                    Fate::Deliver | Fate::Mark => vec![Nanos::ZERO],
                };
                for extra in arrivals {
                    self.in_flight[1 - end].insert((self.now + ONE_WAY + extra, self.sent.len()), packet);
                }
            }
        }
    }

    /// Run until `done`. Returns the time that it took.
    fn run_until(&mut self, done: impl Fn(&Self) -> bool) -> Nanos {
        let begin = self.now;
        self.transmit();
        while !done(self) {
            let arrivals = self.in_flight.iter().filter_map(|packets| packets.keys().next().map(|first| first.0));
            let wakes = self.ends.iter().filter_map(Endpoint::wake_at);
            self.now = arrivals.chain(wakes).min().expect("something is due");
            assert!(self.now.since(begin) < self.limit, "it never happens");
            for end in 0..2 {
                let mut batch = Vec::new();
                while let Some(first) = self.in_flight[end].first_entry().filter(|first| first.key().0 <= self.now) {
                    batch.push(Arrival { packet: first.remove(), ce: false });
                }
                self.ends[end].on_packets(self.now, &batch, &[]);
                if self.ends[end].wake_at().is_some_and(|at| at <= self.now) {
                    self.ends[end].on_wake(self.now);
                }
            }
            self.transmit();
            assert!(self.ends.iter().filter_map(Endpoint::wake_at).all(|at| at > self.now), "an end would wake at once, for ever");
        }
        self.now.since(begin)
    }

    /// Write a request and, when it has arrived, a response. Returns the time until the whole response has arrived.
    fn request(&mut self, request: u64, response: u64) -> Nanos {
        let (requested, answered) = (self.ends[1].delivered().0 + request, self.ends[0].delivered().0 + response);
        self.ends[0].write(self.now, Bytes(request));
        let there = self.run_until(|pair| pair.ends[1].delivered().0 == requested);
        if !self.ends[1].has_sender() {
            self.ends[1].set_sender(sender());
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
    assert_eq!([pair.counts(0), pair.counts(1)], [[0, 0, 1], [0, 0, 0]]);
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
    let [client, server] = [pair.counts(0), pair.counts(1)];
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
    let before = pair.counts(1)[2];
    for _ in 0..2 {
        let requested = pair.ends[1].delivered().0 + 200;
        pair.ends[0].write(pair.now, Bytes(200));
        pair.run_until(|pair| pair.ends[1].delivered().0 == requested);
        let unanswered = pair.ends[0].acked().0 + 200;
        pair.run_until(|pair| pair.ends[0].acked().0 == unanswered);
    }
    assert_eq!(pair.counts(1)[2], before + 2);
}

#[test]
fn both_directions_carry_bulk_data_and_close() {
    let mut pair = Pair::new();
    pair.ends[0].write(pair.now, Bytes(3_000_000));
    pair.run_until(|pair| pair.ends[1].is_established());
    pair.ends[1].set_sender(sender());
    pair.ends[1].write(pair.now, Bytes(2_000_000));
    pair.ends.iter_mut().for_each(Tcp::close);
    pair.run_until(|pair| pair.ends.iter().all(|end| end.is_closed() && end.is_done()));
    assert_eq!([pair.ends[0].delivered(), pair.ends[1].delivered()], [Bytes(2_000_000), Bytes(3_000_000)]);
    assert!(pair.ends.iter().all(|end| end.stats().is_some_and(|stats| stats.retransmits == 0)));
}

/// A pair whose accepting end has read nothing of its data for a minute.
fn filled() -> Pair {
    let mut pair = Pair::new();
    pair.ends[1] = Tcp::accepting(Receiver::new(ReceiverConfig::default())).reading_by_hand();
    pair.limit = Nanos::from_secs(300);
    pair.ends[0].write(pair.now, Bytes(1_000_000));
    let begin = pair.now;
    pair.run_until(|pair| pair.now.since(begin) > Nanos::from_secs(60));
    pair.run_until(|pair| pair.in_flight.iter().all(BTreeMap::is_empty));
    pair
}

#[test]
fn data_that_is_not_read_close_the_window_and_probes_of_it_become_rare() {
    let pair = filled();
    let delivered = pair.ends[1].delivered().0;
    assert!((60_000..=131_072).contains(&delivered), "{delivered}: what the receive buffer holds");
    let probes =
        pair.sent_by(0).filter(|packet| matches!(packet, TcpPacket::Segment(segment, _) if segment.len == 0 && !segment.syn)).count();
    assert!((5..=9).contains(&probes), "{probes}: the interval doubles");
    assert_eq!(pair.ends[0].stats().map(|stats| (stats.retransmits, stats.timeouts)), Some((0, 0)));
}

#[test]
fn a_window_that_opens_continues_even_if_its_update_is_lost() {
    for is_lost in [false, true] {
        let mut pair = filled();
        let (sent, before) = (pair.sent_by(1).count(), pair.ends[1].delivered());
        pair.fate = Box::new(move |end, number| if is_lost && (end, number) == (1, sent) { Fate::Drop } else { Fate::Deliver });
        pair.ends[1].read(pair.now, before);
        let took = pair.run_until(|pair| pair.ends[1].delivered() > before);
        if is_lost {
            assert!(took > Nanos::from_secs(1), "the next probe: {took:?}");
        } else {
            assert_eq!(took, Nanos(2 * ONE_WAY.0));
        }
        while pair.ends[1].delivered() < Bytes(1_000_000) {
            let unread = pair.ends[1].delivered();
            pair.ends[1].read(pair.now, Bytes(65_536));
            pair.run_until(|pair| pair.ends[1].delivered() > unread);
        }
    }
}

#[test]
fn a_restarted_sender_has_its_initial_window_and_loses_no_data() {
    let mut pair = Pair::new();
    pair.ends[0].write(pair.now, Bytes(3_000_000));
    pair.run_until(|pair| pair.ends[1].delivered() > Bytes(1_000_000));
    assert!(pair.ends[0].stats().is_some_and(|stats| stats.cwnd > Bytes(100 * 1448)));
    let config = SenderConfig::default();
    let fresh = registry::build("cubic", &config.controller_config(Streams::new(2)), &BTreeMap::new()).unwrap();
    pair.ends[0].restart(pair.now, fresh);
    assert_eq!(pair.ends[0].stats().map(|stats| stats.cwnd), Some(Bytes(10 * 1448)));
    pair.ends[0].close();
    pair.run_until(|pair| pair.ends[1].is_closed());
    assert_eq!(pair.ends[1].delivered(), Bytes(3_000_000));
}

#[test]
fn nothing_is_sent_after_the_stop() {
    let mut pair = Pair::new();
    pair.ends[0].stop_at(pair.now + Nanos::from_millis(100));
    pair.ends[0].write(pair.now, Bytes::MAX);
    pair.run_until(|pair| pair.in_flight.iter().all(BTreeMap::is_empty));
    assert!(pair.now.since(Time(1_000_000_000)) < Nanos::from_millis(200));
    assert!(pair.ends[1].delivered().0 > 10_000);
}

/// The client's packets with these numbers are lost; number 1 is its answer to the SYN-ACK.
fn lose_of_client(lost: &'static [usize]) -> Pair {
    Pair::with_fates(|end, number| if end == 0 && lost.contains(&number) { Fate::Drop } else { Fate::Deliver })
}

#[test]
fn a_server_that_writes_first_recovers_from_a_lost_handshake_ack() {
    let mut pair = lose_of_client(&[1]);
    let took = pair.run_until(|pair| pair.ends[1].is_established());
    assert_eq!(took, INITIAL_RTO + Nanos(3 * ONE_WAY.0));
    assert!(pair.ends[1].accepted.is_some_and(|result| result.rtt == Nanos(2 * ONE_WAY.0)), "{:?}", pair.ends[1].accepted);
    pair.ends[1].set_sender(sender());
    pair.ends[1].write(pair.now, Bytes(5_000));
    assert_eq!(pair.run_until(|pair| pair.ends[0].delivered() == Bytes(5_000)), ONE_WAY);
    assert_eq!(pair.ends[1].wake_at().map(|at| at > pair.now), Some(true));
    assert_eq!(pair.sent_by(1).filter(|packet| matches!(packet, TcpPacket::Ack(ack) if ack.syn)).count(), 2);
}

#[test]
fn the_timeout_of_a_syn_ack_doubles_and_two_lost_ones_reduce_the_initial_window() {
    let mut pair = lose_of_client(&[1, 2]);
    let took = pair.run_until(|pair| pair.ends[1].is_established());
    assert_eq!(took, Nanos(3 * INITIAL_RTO.0 + 3 * ONE_WAY.0));
    pair.ends[1].set_sender(sender());
    assert_eq!(pair.ends[1].stats().map(|stats| stats.cwnd), Some(Bytes(1448)));
}

#[test]
fn a_syn_that_arrives_again_restarts_the_timer_of_the_syn_ack() {
    // The second SYN arrives 900 ms after the first, and no answer to a SYN-ACK arrives in the first two seconds.
    let mut pair = Pair::with_fates(|end, number| match (end, number) {
        (0, 0) => Fate::Twice(Nanos::from_millis(900)),
        (0, 1) => Fate::Drop,
        (0, 2) => Fate::Late(Nanos::from_secs(2)),
        _ => Fate::Deliver,
    });
    pair.run_until(|pair| pair.ends[1].syn_acks.sent == 3);
    assert_eq!(pair.now.since(Time(1_000_000_000)), ONE_WAY + Nanos::from_millis(1_900));
}

#[test]
fn a_syn_after_the_handshake_is_acknowledged_and_changes_nothing() {
    let mut pair = Pair::with_fates(|end, number| if (end, number) == (0, 0) { Fate::Twice(Nanos::from_secs(1)) } else { Fate::Deliver });
    pair.run_until(|pair| pair.ends[0].is_established());
    pair.request(200, 5_000);
    let before = pair.counts(1);
    pair.run_until(|pair| pair.in_flight.iter().all(BTreeMap::is_empty));
    pair.run_until(|pair| pair.counts(1)[2] > before[2]);
    assert_eq!(pair.sent_by(1).filter(|packet| matches!(packet, TcpPacket::Ack(ack) if ack.syn)).count(), 1);
    assert!(
        matches!(pair.sent.last(), Some((1, TcpPacket::Ack(ack))) if ack.ack == 200 && ack.ts_ecr > Time(1_000_000_000)),
        "{:?}",
        pair.sent.last()
    );
}

#[test]
fn no_syn_ack_is_retransmitted_after_the_stop() {
    let mut pair = lose_of_client(&[1]);
    pair.ends[1].stop_at(pair.now + Nanos::from_millis(500));
    pair.run_until(|pair| pair.in_flight.iter().all(BTreeMap::is_empty) && !pair.sent.is_empty());
    assert_eq!(pair.ends[1].wake_at(), None);
}

#[test]
fn a_response_echoes_the_clock_of_its_request() {
    let mut pair = Pair::new();
    pair.run_until(|pair| pair.ends[0].is_established());
    pair.request(200, 5_000);
    pair.run_until(|pair| pair.in_flight.iter().all(BTreeMap::is_empty));
    pair.now = pair.now + Nanos::from_millis(150);
    let requested_at = pair.now;
    pair.request(200, 5_000);
    let echoes: Vec<Time> = pair
        .sent_by(1)
        .filter_map(|packet| if let TcpPacket::Segment(segment, _) = packet { Some(segment.ts_ecr) } else { None })
        .collect();
    assert_eq!(echoes[echoes.len() - 4..], [requested_at; 4]);
}

/// A pair whose packets all, from the first SYN to the last FIN, share the path's random draws.
fn over(path: Path) -> Pair {
    let fate = move |end: usize, number| path.fate(0xE0 + end as u64, number, if end == 0 { path.loss } else { path.ack_loss });
    Pair { limit: Nanos::from_secs(1_000_000), ..Pair::with_fates(fate) }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    #[test]
    fn both_directions_carry_everything_once_over_any_path(path in path(), client in 0_u64..400_000, server in 0_u64..400_000, server_first in any::<bool>()) {
        let mut pair = over(path);
        let opening = |pair: &mut Pair| {
            pair.ends[0].write(pair.now, Bytes(client));
            pair.ends[0].close();
        };
        if !server_first {
            opening(&mut pair);
        }
        pair.run_until(|pair| pair.ends[1].is_established());
        pair.ends[1].set_sender(sender());
        pair.ends[1].write(pair.now, Bytes(server));
        if server_first {
            pair.run_until(|pair| pair.ends[0].delivered() == Bytes(server));
            opening(&mut pair);
        }
        pair.ends[1].close();
        pair.run_until(|pair| pair.ends.iter().all(|end| end.is_closed() && end.is_done()));
        prop_assert_eq!(pair.ends.each_ref().map(Tcp::delivered), [Bytes(server), Bytes(client)]);
        prop_assert_eq!(pair.ends.each_ref().map(Tcp::acked), [Bytes(client), Bytes(server)]);
        pair.run_until(|pair| pair.in_flight.iter().all(BTreeMap::is_empty));
        prop_assert_eq!(pair.ends.each_ref().map(Tcp::delivered), [Bytes(server), Bytes(client)]);
    }
}
