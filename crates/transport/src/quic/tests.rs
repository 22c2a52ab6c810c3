//! Both ends of a connection over a made path.

use super::wire::{AckFrame, Chunk, Control};
use super::*;
use bentpipe_cc::controllers::Controllers;
use bentpipe_cc::hints::Facts;
use bentpipe_profile::Streams;
use bentpipe_profile::options::OptionValues;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

const DELAY: Nanos = Nanos::from_millis(20);

fn end(role: Role) -> Quic {
    let config = Quic::sender_config(SenderConfig::default());
    let built = Controllers::default()
        .build("cubic", &OptionValues::new(), &config.controller_config(Streams::new(1)), || Facts {
            reconfigurations: vec![],
            start_unix_ns: 0,
        })
        .expect("it is in the registry");
    let mut end = Quic::new(role, config, built.start());
    end.observe();
    end
}

/// What the path does to packet number `n` of those that an end sends: the times at which copies of it arrive.
type Path<'a> = dyn FnMut(usize, u64, Time, &QuicPacket) -> Vec<Time> + 'a;

struct Pair {
    /// Client and server.
    ends: [Quic; 2],
    now: Time,
    inside: BTreeMap<(Time, u64), (usize, QuicPacket)>,
    sent: [u64; 2],
    put: u64,
    /// Bytes of packets, and of payload, that each end sent.
    bytes: [u64; 2],
    /// Streams that each end received, with their time.
    complete: [Vec<(u64, Time)>; 2],
    log: Vec<(Time, usize, u64, u32)>,
}

impl Pair {
    fn new() -> Self {
        let mut ends = [end(Role::Client), end(Role::Server)];
        ends[0].open();
        Self {
            ends,
            now: Time::ZERO,
            inside: BTreeMap::new(),
            sent: [0; 2],
            put: 0,
            bytes: [0; 2],
            complete: [vec![], vec![]],
            log: vec![],
        }
    }

    fn transmit(&mut self, path: &mut Path<'_>) {
        for side in 0..2 {
            while let Some(packet) = self.ends[side].poll_transmit(self.now) {
                self.log.push((self.now, side, packet.number, packet.bytes));
                self.bytes[side] += u64::from(packet.bytes);
                assert!(packet.bytes <= MAX_DATAGRAM, "{packet:?}");
                for at in path(side, self.sent[side], self.now, &packet) {
                    self.inside.insert((at.max(self.now), self.put), (1 - side, packet.clone()));
                    self.put += 1;
                }
                self.sent[side] += 1;
                assert!(self.sent[side] < 100_000, "it sends without end");
            }
        }
    }

    /// Run until `done`, at most `seconds`.
    fn run(&mut self, seconds: u64, path: &mut Path<'_>, done: impl Fn(&Self) -> bool) {
        self.transmit(path);
        while !done(self) {
            let arrival = self.inside.first_key_value().map_or(Time::MAX, |((at, _), _)| *at);
            let wakes = [0, 1].map(|side| self.ends[side].wake_at().unwrap_or(Time::MAX).max(self.now));
            self.now = arrival.min(wakes[0]).min(wakes[1]);
            assert!(self.now < Time::ZERO + Nanos::from_secs(seconds), "not done: {:?}", self.complete);
            if arrival == self.now {
                let ((at, _), (side, packet)) = self.inside.pop_first().expect("it is there");
                self.ends[side].on_packet(at, packet);
                while let Some((stream, _)) = self.ends[side].next_complete() {
                    self.complete[side].push((stream, at));
                }
            }
            for (side, wake) in wakes.into_iter().enumerate() {
                if wake == self.now {
                    self.ends[side].on_wake(self.now);
                }
            }
            self.transmit(path);
        }
    }

    fn established(path: &mut Path<'_>) -> Self {
        let mut pair = Self::new();
        pair.run(200, path, |pair| pair.ends[1].handshake == Handshake::Confirmed && pair.ends[0].handshake == Handshake::Confirmed);
        pair
    }
}

fn perfect(_: usize, _: u64, now: Time, _: &QuicPacket) -> Vec<Time> {
    vec![now + DELAY]
}

#[test]
fn the_client_may_write_after_one_rtt_and_the_server_sends_at_most_three_times_what_it_received() {
    let mut pair = Pair::new();
    pair.run(1, &mut perfect, |pair| pair.ends[0].is_established());
    assert_eq!(pair.now, Time(40_000_000));
    let [client, server] =
        [0, 1].map(|side| pair.log.iter().filter(|sent| sent.1 == side && sent.0 < pair.now).map(|sent| sent.3).sum::<u32>());
    assert_eq!(client, MAX_DATAGRAM, "an Initial packet fills a datagram");
    assert!((3000..=3 * MAX_DATAGRAM).contains(&server), "{server}");
}

#[test]
fn a_server_whose_flight_is_lost_waits_for_the_clients_probe() {
    // The server's first flight is lost; it may send nothing more until the client's probe comes.
    let mut path = |side: usize, number: u64, now: Time, _: &QuicPacket| {
        if side == 1 && number < 3 { vec![] } else { vec![now + DELAY] }
    };
    let mut pair = Pair::new();
    pair.run(10, &mut path, |pair| pair.ends[0].is_established());
    assert!(pair.now.since(Time::ZERO) < Nanos::from_secs(3), "{:?}", pair.now);
    assert!(pair.bytes[1] <= 3 * pair.bytes[0]);
}

#[test]
fn a_client_keeps_its_backoff_until_the_server_has_validated_its_address() {
    // The server's packets are lost but for a bare acknowledgement of the client's first probe, which shows nothing.
    let mut pair = Pair::new();
    let mut path = |side: usize, _: u64, now: Time, _: &QuicPacket| if side == 1 { vec![] } else { vec![now + DELAY] };
    pair.run(10, &mut path, |pair| pair.ends[0].pto_count == 2);
    let ack = AckFrame { ranges: vec![(1, 1)], delay: Nanos::ZERO };
    let bare = |ack: AckFrame, chunks: Vec<Chunk>| QuicPacket {
        space: Space::Handshake,
        number: if chunks.is_empty() { 7 } else { 8 },
        ack: Some(ack),
        chunks,
        control: Control::default(),
        close: false,
        bytes: 100,
    };
    pair.ends[0].on_packet(pair.now, bare(ack.clone(), vec![]));
    assert_eq!(pair.ends[0].pto_count, 2);
    assert!(pair.ends[0].wake_at().is_some(), "it goes on probing");
    // The server's flight begins: the client's Initial keys are discarded, and its timer begins anew.
    let hello = Chunk { stream: CRYPTO, offset: 0, len: 500, fin: false, first_sent: pair.now };
    pair.ends[0].on_packet(pair.now, bare(ack, vec![hello]));
    assert_eq!(pair.ends[0].pto_count, 0);
}

#[test]
fn a_duplicate_is_neither_processed_nor_acknowledged() {
    let acks = |copies: usize| {
        let mut path = |side: usize, _: u64, now: Time, _: &QuicPacket| {
            (0..if side == 1 { copies } else { 1 }).map(|copy| now + DELAY + Nanos::from_millis(3 * copy as u64)).collect()
        };
        let mut pair = Pair::established(&mut path);
        pair.ends[1].write(0, Bytes(200_000));
        pair.run(10, &mut path, |pair| pair.complete[0].len() == 1);
        (pair.sent[0], pair.now, pair.ends[1].stats().cwnd)
    };
    assert_eq!(acks(1), acks(3));
}

#[test]
fn a_loss_on_one_stream_delays_no_other() {
    let lost_stream = 4;
    let mut was_lost = false;
    let mut path = |side: usize, _: u64, now: Time, packet: &QuicPacket| {
        if side == 1 && !was_lost && packet.chunks.iter().any(|chunk| chunk.stream == lost_stream) {
            was_lost = true;
            return vec![];
        }
        vec![now + DELAY]
    };
    let mut pair = Pair::established(&mut path);
    // A packet for each stream: 1200 bytes with headers.
    (0..8).for_each(|number| pair.ends[1].write(4 * number, Bytes(1169)));
    pair.run(10, &mut path, |pair| pair.complete[0].len() == 8);
    let order: Vec<u64> = pair.complete[0].iter().map(|(stream, _)| *stream).collect();
    assert_eq!(order.last(), Some(&lost_stream));
    let [late, others] = [|stream: u64| stream == 4, |stream: u64| stream != 4]
        .map(|of: fn(u64) -> bool| pair.complete[0].iter().filter(|(stream, _)| of(*stream)).map(|(_, at)| *at).max().unwrap());
    assert!(late.since(others) >= Nanos::from_millis(35), "it takes a retransmission: {late:?}, {others:?}");
    assert_eq!(pair.ends[1].stats().lost, 1);
    assert_eq!(pair.ends[1].stats().tail_loss_probes, 0);
}

#[test]
fn a_probe_recovers_a_lost_tail() {
    let mut lose = 2;
    let mut path = |side: usize, _: u64, now: Time, packet: &QuicPacket| {
        let is_tail = side == 1 && packet.chunks.iter().any(|chunk| chunk.fin);
        if is_tail && lose > 0 {
            lose -= 1;
            return vec![];
        }
        vec![now + DELAY]
    };
    let mut pair = Pair::established(&mut path);
    let begin = pair.now;
    pair.ends[1].write(0, Bytes(5000));
    pair.run(20, &mut path, |pair| pair.complete[0].len() == 1);
    let stats = pair.ends[1].stats();
    assert!(stats.tail_loss_probes >= 1, "{stats:?}");
    assert_eq!(stats.timeouts, 0, "a probe time-out does not reduce the window");
    // RTT 40 ms: PTO 40 + 4 × rttvar + 25 ms.
    assert!(pair.now.since(begin) < Nanos::from_millis(600), "{:?}", pair.now.since(begin));
}

#[test]
fn probes_back_off_and_a_long_outage_is_persistent_congestion() {
    let outage = [Time(1_000_000_000), Time(4_000_000_000)];
    let mut path = |_: usize, _: u64, now: Time, _: &QuicPacket| {
        if (outage[0]..outage[1]).contains(&now) { vec![] } else { vec![now + DELAY] }
    };
    let mut pair = Pair::established(&mut path);
    pair.ends[1].write(0, Bytes(1 << 30));
    pair.run(60, &mut path, |pair| pair.now > Time(900_000_000));
    pair.log.clear();
    pair.run(60, &mut path, |pair| pair.ends[1].stats().timeouts > 0);
    let probes: BTreeSet<Time> = pair.log.iter().filter(|sent| sent.1 == 1 && sent.0 > Time(1_300_000_000)).map(|sent| sent.0).collect();
    let probes: Vec<Time> = probes.into_iter().filter(|at| *at < outage[1]).collect();
    let gaps: Vec<u64> = probes.windows(2).map(|pair| pair[1].since(pair[0]).0).collect();
    assert!(gaps.windows(2).all(|pair| pair[1] == 2 * pair[0]), "{gaps:?}");
    // The minimum window, and what the same acknowledgement adds in slow start.
    assert!(pair.ends[1].stats().cwnd <= Bytes(6 * 1200), "{:?}", pair.ends[1].stats());
}

#[test]
fn a_download_fills_the_path_and_the_receiver_acknowledges_every_second_packet() {
    // 20 Mbit/s: 1228 bytes take 491 µs.
    let mut free = [Time::ZERO; 2];
    let mut path = |side: usize, _: u64, now: Time, packet: &QuicPacket| {
        free[side] = free[side].max(now) + Nanos(u64::from(packet.wire_bytes()) * 400);
        vec![free[side] + DELAY]
    };
    let mut pair = Pair::established(&mut path);
    let begin = pair.now;
    pair.ends[1].write(0, Bytes(20_000_000));
    pair.run(60, &mut path, |pair| pair.complete[0].len() == 1);
    let rate = 20_000_000.0 * 8.0 / pair.now.since(begin).as_secs_f64();
    assert!(rate > 17.5e6, "{rate}");
    let acks = pair.log.iter().filter(|sent| sent.1 == 0).count();
    let data = pair.log.iter().filter(|sent| sent.1 == 1).count();
    assert!((0.45..0.55).contains(&(acks as f64 / data as f64)), "{acks} / {data}");
    assert!(pair.ends[0].incoming.delivered() > WINDOW, "the windows were raised");
}

#[test]
fn both_ends_are_done_after_one_closes() {
    let mut pair = Pair::established(&mut perfect);
    pair.ends[0].write(0, Bytes(500));
    pair.ends[0].close();
    pair.run(10, &mut perfect, |pair| pair.ends.iter().all(Quic::is_done));
    assert_eq!(pair.complete[1].len(), 1, "what was written before arrives");
    assert!(pair.ends[1].is_closed() && pair.ends[0].wake_at().is_none());
}

/// Run transfers in both directions over a path that loses, duplicates and reorders packets as `draws` says.
fn transfer(sizes: &[u64], draws: &[u8]) -> Pair {
    let mut draw = 0;
    let mut path = |_: usize, _: u64, now: Time, _: &QuicPacket| {
        let byte = if draws.is_empty() || now > Time(20_000_000_000) { 255 } else { draws[draw % draws.len()] };
        draw += 1;
        match byte {
            0..30 => vec![],
            30..60 => vec![now + DELAY, now + DELAY + Nanos::from_millis(u64::from(byte))],
            60..120 => vec![now + DELAY + Nanos::from_micros(u64::from(byte) * 200)],
            _ => vec![now + DELAY],
        }
    };
    let mut pair = Pair::new();
    for (number, bytes) in (0_u64..).zip(sizes) {
        pair.ends[0].write(4 * number, Bytes(*bytes));
        pair.ends[1].write(4 * number + 1, Bytes(*bytes));
    }
    let count = sizes.len();
    pair.run(100_000, &mut path, |pair| pair.complete.iter().all(|complete| complete.len() == count));
    pair
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn every_byte_of_each_stream_arrives_once_whatever_the_path_does(
        sizes in prop::collection::vec(1_u64..40_000, 1..6),
        draws in prop::collection::vec(any::<u8>(), 0..200),
    ) {
        let pair = transfer(&sizes, &draws);
        for side in 0..2 {
            let streams: BTreeSet<u64> = pair.complete[side].iter().map(|(stream, _)| *stream).collect();
            prop_assert_eq!(streams.len(), sizes.len(), "each is complete once");
            for (number, bytes) in (0_u64..).zip(&sizes) {
                prop_assert_eq!(pair.ends[side].delivered_on(4 * number + (1 - side as u64)), *bytes);
            }
            prop_assert_eq!(pair.ends[side].delivered(), Bytes(sizes.iter().sum()));
        }
    }

    #[test]
    fn the_same_path_gives_the_same_packets(draws in prop::collection::vec(any::<u8>(), 0..50)) {
        let [a, b] = [0, 1].map(|_| transfer(&[9000, 20_000], &draws));
        prop_assert_eq!(a.log, b.log);
    }
}
