//! Handshake, pacing, acknowledgements.

use super::*;
use crate::host_timing::DrawnTimes;
use crate::sender::Sender;
use crate::sender::state::State;
use crate::sndbuf::size_goal;
use crate::wire::Ack;
use bentpipe_profile::Streams;
use bentpipe_profile::experiment::HostTiming;

#[test]
fn the_syn_is_retransmitted_four_times_a_second_apart_then_with_backoff() {
    let mut sender = Sender::new(SenderConfig::default(), Box::new(FixedWindow::new(10)));
    sender.open(Time::ZERO);
    let mut at = Time::ZERO;
    let mut gaps = Vec::new();
    for n in 0..7 {
        sender.on_wake(at);
        let syn = sender.poll_transmit(at).expect("due");
        assert!(syn.syn && syn.retransmission == (n > 0));
        assert_eq!(sender.poll_transmit(at), None);
        let next = sender.wake_at().expect("a timer");
        gaps.push(next.since(at).0 / 1_000_000_000);
        at = next;
    }
    assert_eq!(gaps, [1, 1, 1, 1, 1, 2, 4]);
}

#[test]
fn a_syn_lost_more_than_once_starts_from_one_packet() {
    for (lost, window) in [(0, 10), (1, 10), (2, 1)] {
        let mut pipe = Pipe::new(FixedWindow::new(10));
        pipe.sender.open(Time::ZERO);
        pipe.sender.app_write(Time::ZERO, Bytes::MAX);
        for _ in 0..lost {
            assert!(pipe.sender.poll_transmit(pipe.now).expect("SYN").syn);
            pipe.now = pipe.sender.wake_at().expect("a timer");
            pipe.sender.on_wake(pipe.now);
        }
        pipe.run_for(ms(60));
        assert_eq!(pipe.sent.len(), window, "{lost} lost");
        assert_eq!(pipe.sender.stats().srtt, Some(ms(50)), "the echo shows which SYN was answered");
    }
}

#[test]
fn host_time_is_in_rtt_samples_but_not_in_the_min_rtt_of_rack_and_rate_samples() {
    let config = SenderConfig { host_times: DrawnTimes::of(HostTiming::LinuxVm, Streams::new(1)), ..SenderConfig::default() };
    let mut pipe = Pipe::with(config, ReceiverConfig::default(), FixedWindow::new(20)).bulk();
    let (mut samples, mut rates) = (Vec::new(), 0);
    for _ in 0..4_000 {
        pipe.run_for(ms(1));
        samples.extend(pipe.sender.take_rtt_sample());
        rates += usize::from(pipe.sender.stats().delivery_rate.is_some());
    }
    assert!(samples.iter().all(|rtt| *rtt >= ms(50) && rtt.0 % 1_000 == 0), "the path takes 50 ms");
    let min = samples.iter().min().expect("samples");
    assert!(*min < ms(50) + Nanos::from_micros(10) && samples.iter().any(|rtt| *rtt > ms(50) + Nanos::from_micros(20)));
    // Segments that leave at one instant are a nanosecond apart.
    assert!(ms(50) - pipe.sender.stats().min_rtt.expect("a minimum") < Nanos(100), "the minimum excludes host time");
    assert!(rates > 3_800, "no interval is shorter than the minimum RTT: {rates}");
}

#[test]
fn initial_window_is_ten_segments() {
    let mut pipe = Pipe::new(FixedWindow::new(10)).bulk();
    pipe.run_for(ms(60));
    assert_eq!(pipe.sent.len(), 10);
    assert!(pipe.sent.iter().all(|(_, s)| u64::from(s.len) == MSS));
}

/// Bytes that `send` accepted of a new connection's first write of 128 kB, and the memory that `SO_MEMINFO` showed, with Linux 6.18 built
/// without wireless drivers: 46,336 bytes of CUBIC and Reno, 51,328 of memory in a buffer of 46,080; 78,192 of BBR (three windows), 88,176 in
/// 69,120. The first skb, half of the announced window, leaves in part (BBR's in skbs of one segment), and its rest is filled up again.
#[test]
fn a_new_connection_accepts_as_many_bytes_as_the_kernel() {
    for (factor, accepted, sent_skbs, limit, memory) in [(2, 46_336, 5, 46_080, 51_328), (3, 78_192, 10, 69_120, 88_176)] {
        let config = SenderConfig { wmem_segment: Bytes(2_304), ..SenderConfig::default() };
        let mut pipe = Pipe::with(config, ReceiverConfig::default(), FixedWindow { factor, ..FixedWindow::new(10) }).bulk();
        pipe.run_for(ms(60));
        let unsent = accepted - 10 * MSS;
        assert_eq!((pipe.sender.buffer.written(), pipe.sent.len()), (accepted, 10));
        let skbs = sent_skbs + unsent.div_ceil(size_goal(&pipe.sender.config, 65_160));
        assert_eq!(accepted + 832 * skbs, memory, "the memory that the kernel showed");
        assert!(memory > limit && memory - 22 * MSS - 832 <= limit, "one skb less would have left room");
    }
}

/// Most segments sent at one instant, after the first ten.
fn largest_burst(pipe: &Pipe) -> usize {
    let mut counts = std::collections::BTreeMap::new();
    for (at, _) in &pipe.sent[10..] {
        *counts.entry(*at).or_insert(0) += 1;
    }
    counts.into_values().max().unwrap_or(0)
}

#[test]
fn only_fq_or_the_controller_paces() {
    let run = |fq, rate| {
        let mut pipe = Pipe::with(
            SenderConfig { fq, ..SenderConfig::default() },
            ReceiverConfig::default(),
            FixedWindow { rate, ..FixedWindow::new(100) },
        )
        .bulk();
        pipe.run_for(ms(300));
        (largest_burst(&pipe), pipe.sender.stats().pacing_rate)
    };
    let (unpaced, none) = run(false, None);
    assert!(unpaced >= 90 && none.is_none(), "{unpaced}");
    // Slow start: 200 % of 100 packets in 50 ms is 46.3 Mbit/s: three segments in 2^-10 s.
    let (paced, rate) = run(true, None);
    assert!(paced == 3, "{paced}");
    assert!(rate.is_some_and(|r| r.0.abs_diff(46_336_000) < 500_000), "{rate:?}");
    let (controller_paced, rate) = run(false, Some(Rate::from_mbps(5)));
    assert_eq!((controller_paced, rate), (2, Some(Rate::from_mbps(5))));
}

#[test]
fn retransmissions_are_paced_too() {
    let rate = Some(Rate::from_mbps(5));
    let mut pipe = Pipe::new(FixedWindow { rate, owns_recovery: true, ..FixedWindow::new(60) })
        .data(|s, _| {
            if !s.retransmission && (50..100).contains(&(s.seq / MSS)) && (s.seq / MSS).is_multiple_of(2) {
                Fate::Drop
            } else {
                Fate::Deliver
            }
        })
        .transfer(200 * MSS);
    pipe.finish();
    let times: Vec<Time> = pipe.sent.iter().filter(|(_, s)| s.retransmission).map(|s| s.0).collect();
    assert_eq!(times.len(), 25);
    let span = times[24].since(times[0]);
    assert!(span >= ms(45), "25 segments at 5 Mbit/s take 57 ms: {span:?}");
}

#[test]
fn a_bulk_flow_gets_one_ack_per_two_segments() {
    let mut pipe = Pipe::new(FixedWindow::new(50)).bulk();
    pipe.run_for(Nanos::from_secs(2));
    pipe.acks.clear();
    let before = pipe.receiver.delivered().0;
    pipe.run_for(Nanos::from_secs(2));
    let per_ack = (pipe.receiver.delivered().0 - before) as f64 / MSS as f64 / pipe.acks.len() as f64;
    assert!((1.9..=2.0).contains(&per_ack), "{per_ack}");
}

#[test]
fn nagle_delays_short_segments_and_nodelay_does_not() {
    let run = |nagle| {
        let mut pipe = Pipe::with(SenderConfig { nagle, ..SenderConfig::default() }, ReceiverConfig::default(), FixedWindow::new(10));
        pipe.sender.open(Time::ZERO);
        pipe.run_for(ms(60));
        for _ in 0..5 {
            pipe.sender.app_write(pipe.now, Bytes(100));
            pipe.run_for(ms(1));
        }
        pipe.run_for(ms(500));
        assert_eq!(pipe.receiver.delivered(), Bytes(500));
        pipe.sent.iter().map(|(_, s)| s.len).collect::<Vec<_>>()
    };
    assert_eq!(run(true), [100, 400]);
    assert_eq!(run(false), [100; 5]);
}

#[test]
fn a_flow_closed_after_its_data_sends_a_fin_alone() {
    let mut pipe = Pipe::new(FixedWindow::new(10));
    pipe.sender.open(Time::ZERO);
    pipe.sender.app_write(Time::ZERO, Bytes(3 * MSS));
    pipe.run_for(ms(500));
    assert!(!pipe.sender.is_done() && !pipe.receiver.is_closed());
    pipe.sender.app_close();
    pipe.drain();
    pipe.finish();
    assert!(pipe.receiver.is_closed());
    assert_eq!(pipe.receiver.delivered(), Bytes(3 * MSS));
    let last = pipe.sent.last().expect("sent").1;
    assert!(last.fin && last.len == 0);
}

#[test]
fn acks_of_data_never_sent_are_ignored() {
    let mut pipe = Pipe::new(FixedWindow::new(10)).bulk();
    pipe.run_for(ms(60));
    let before = pipe.sender.stats();
    let ack = crate::wire::Ack {
        ack: 1 << 40,
        window: Bytes(1),
        tsval: pipe.now,
        ts_ecr: pipe.now,
        sacks: crate::wire::SackBlocks::default(),
        dsack: false,
        syn: false,
        ce_count: 9,
        ece: true,
        ecn: bentpipe_profile::experiment::EcnMode::Off,
        capable: false,
    };
    pipe.sender.on_ack(pipe.now, &ack);
    assert_eq!(pipe.sender.stats(), before);
}

/// A flow whose segments arrive 50 µs apart, as behind a queue.
fn queued(segments: u64) -> Pipe {
    let mut free = Time::ZERO;
    Pipe::new(FixedWindow::new(segments)).data(move |segment, _| {
        let arrives = (segment.tsval + ms(25)).max(free);
        free = arrives + Nanos::from_micros(50);
        Fate::Late(arrives.since(segment.tsval + ms(25)))
    })
}

#[test]
fn a_window_that_opens_by_two_segments_is_used_in_bursts() {
    let mut pipe = queued(600).bulk();
    pipe.run_for(ms(400));
    let mut bursts = std::collections::BTreeMap::new();
    for (at, segment) in pipe.sent.iter().filter(|(at, _)| *at > Time::ZERO + ms(200)) {
        let burst = bursts.entry(*at).or_insert((0, false));
        *burst = (burst.0 + 1, burst.1 | segment.push);
    }
    let sizes: Vec<u32> = bursts.values().map(|(size, _)| *size).collect();
    let mean = f64::from(sizes.iter().sum::<u32>()) / sizes.len() as f64;
    assert!((12.0..=30.0).contains(&mean), "a millisecond of segments, or the rest of an skb of 45: {mean} {sizes:?}");
    assert!(bursts.values().all(|(size, pushed)| *pushed || *size < 18), "the last segment of a burst carries PSH: {bursts:?}");
}

#[test]
fn an_skb_keeps_its_size_when_the_burst_size_changes() {
    let mut pipe = queued(600).bulk();
    pipe.run_for(ms(400));
    let una = pipe.sender.una;
    // An skb ends with PSH, or where the next segment is sent later.
    let sent: Vec<_> = pipe.sent.iter().filter(|(_, segment)| segment.seq >= una).collect();
    let ends = sent.windows(2).filter(|pair| pair[0].1.push || pair[0].0 != pair[1].0).count() as u64 + 1;
    let counted = pipe.sender.queue().bursts;
    assert!(counted > 10 && counted.abs_diff(ends) <= 1, "{counted} {ends}");
    pipe.sender.burst = 1;
    assert_eq!(pipe.sender.queue().bursts, counted, "skbs already sent keep their size when the rate falls");
    let nxt = pipe.sender.nxt;
    assert_eq!(pipe.sender.bursts.outstanding(nxt, nxt), 0, "all acknowledged");
}

#[test]
fn tso_deferral_is_off_in_recovery() {
    let mut pipe = queued(600).bulk();
    pipe.run_for(ms(400));
    while u64::from(pipe.sender.scoreboard.in_flight()) == pipe.sender.cwnd {
        pipe.run_for(Nanos::from_micros(50));
    }
    let defers = |sender: &Sender| sender.defer(pipe.now, 45 * MSS, false, 27).is_err();
    assert!(defers(&pipe.sender));
    pipe.sender.state = State::Recovery;
    assert!(!defers(&pipe.sender));
}

#[test]
fn an_ack_in_order_with_a_first_sack_is_no_evidence_of_reordering() {
    let mut pipe = Pipe::new(FixedWindow::new(20)).bulk();
    pipe.run_for(ms(190));
    let (una, now) = (pipe.sender.una, pipe.now);
    let mut sacks = crate::wire::SackBlocks::default();
    sacks.push(una + 2 * MSS, una + 3 * MSS);
    let last = pipe.acks.last().expect("acknowledged").1;
    pipe.sender.on_ack(now, &Ack { ack: una + MSS, sacks, ..last });
    assert!(!pipe.sender.rack.has_seen_reordering());
}
