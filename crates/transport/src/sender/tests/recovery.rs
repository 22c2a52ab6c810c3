//! Loss recovery.

use super::*;
use crate::config::{ReceiverConfig, SenderConfig};
use crate::wire::{Ack, Segment};
use bentpipe_profile::experiment::EcnMode;

/// A flow with a window of twenty packets that loses some.
fn with_loss(lost: &'static [u64]) -> Pipe {
    Pipe::new(FixedWindow::new(20)).data(lose(lost)).transfer(400 * MSS)
}

#[test]
fn a_lost_segment_is_retransmitted_at_the_third_sack() {
    let mut pipe = with_loss(&[100]);
    pipe.finish();
    let sent = pipe.times_sent(100 * MSS);
    assert_eq!(sent.len(), 2);
    let third = pipe.acks.iter().filter(|(_, a)| a.ack == 100 * MSS && !a.sacks.as_slice().is_empty()).nth(2).expect("three").0;
    assert_eq!(sent[1], third + pipe.one_way);
    assert_eq!(kinds(&mut pipe), [FlowEvent::Established, FlowEvent::RecoveryEntered, FlowEvent::RecoveryLeft]);
}

#[test]
fn with_two_sacks_the_reordering_timer_fires_after_a_quarter_of_min_rtt_and_2_ms() {
    // One flight of twenty packets at once: only two follow the hole.
    let mut pipe = Pipe::new(FixedWindow::new(20)).data(lose(&[17])).transfer(20 * MSS);
    pipe.finish();
    let sent = pipe.times_sent(17 * MSS);
    let (min_rtt, first_sack) = (ms(50), pipe.acks.iter().find(|(_, a)| !a.sacks.as_slice().is_empty()).expect("a hole").0 + pipe.one_way);
    let waited = sent[1].since(first_sack);
    assert_eq!(sent.len(), 2);
    assert!(waited >= Nanos(min_rtt.0 / 4) && waited <= Nanos(min_rtt.0 / 4) + ms(3), "{waited:?}");
}

#[test]
fn after_reordering_was_seen_late_packets_are_not_retransmitted() {
    // Every fifteenth packet is 8 ms late: less than a quarter of min_rtt, but more than three packets.
    let mut pipe =
        Pipe::new(FixedWindow::new(20)).data(|_, n| if n % 15 == 14 { Fate::Late(ms(8)) } else { Fate::Deliver }).transfer(600 * MSS);
    pipe.finish();
    let early = pipe.sent.iter().filter(|(_, s)| s.retransmission && s.seq < 100 * MSS).count();
    let later = pipe.sent.iter().filter(|(_, s)| s.retransmission && s.seq >= 100 * MSS).count();
    assert!(early > 0, "the first late packet looks like a loss");
    assert_eq!(later, 0);
}

#[test]
fn a_lost_retransmission_is_detected_without_a_time_out() {
    let mut losses = 0..2;
    let mut pipe = Pipe::new(FixedWindow::new(20))
        .data(move |s, _| if s.seq == 100 * MSS && losses.next().is_some() { Fate::Drop } else { Fate::Deliver })
        .transfer(400 * MSS);
    pipe.finish();
    assert_eq!(pipe.times_sent(100 * MSS).len(), 3);
    assert_eq!(pipe.sender.stats().timeouts, 0);
}

#[test]
fn after_recovery_cwnd_is_ssthresh() {
    let mut pipe = with_loss(&[100, 103, 107]);
    pipe.finish();
    let stats = pipe.sender.stats();
    assert_eq!((stats.cwnd, stats.ssthresh), (Bytes(10 * MSS), Bytes(10 * MSS)), "one reduction for one RTT of losses");
    // The pipe delivers a burst at one instant. RACK then takes the higher sequence number for the later (`rack_sent_after`), and so marks one
    // retransmission lost that new data overtook.
    assert!((3..=4).contains(&stats.retransmits), "{}", stats.retransmits);
}

#[test]
fn prr_keeps_sending_during_the_reduction() {
    let mut pipe = with_loss(&[100]);
    pipe.finish();
    let events = pipe.events();
    let at = |event| events.iter().find(|(_, e)| *e == event).expect("it happened").0;
    let (from, to) = (at(FlowEvent::RecoveryEntered), at(FlowEvent::RecoveryLeft));
    let bursts = pipe.sent.iter().filter(|(t, s)| *t >= from && *t < to && !s.retransmission).count();
    // 19 of 20 packets delivered: ten are sent, including the retransmission.
    assert!((8..=10).contains(&bursts), "{bursts} new segments during recovery");
}

#[test]
fn prr_does_not_overrule_a_controller_that_controls_recovery() {
    let mut pipe = Pipe::new(FixedWindow { owns_recovery: true, ..FixedWindow::new(20) }).data(lose(&[100])).transfer(400 * MSS);
    pipe.finish();
    assert_eq!(pipe.sender.stats().cwnd, Bytes(20 * MSS));
    assert_eq!(pipe.sender.stats().retransmits, 1);
}

#[test]
fn undo_by_dsack_restores_cwnd_and_ssthresh() {
    // One packet is later than the reordering window; its ACK arrives after that of the retransmission.
    let mut pipe = Pipe::new(FixedWindow::new(20))
        .data(|s, _| if s.seq == 100 * MSS { if s.retransmission { Fate::Deliver } else { Fate::Late(ms(60)) } } else { Fate::Deliver })
        .transfer(400 * MSS);
    pipe.finish();
    assert!(kinds(&mut pipe).contains(&FlowEvent::Undo(UndoCause::Dsack)));
    assert_eq!(pipe.sender.stats().cwnd, Bytes(20 * MSS));
    assert!(pipe.sender.stats().ssthresh > Bytes(1 << 40));
}

#[test]
fn an_undo_does_not_restore_the_window_after_ecn_marks_in_recovery() {
    for (marked, left) in [(0..0, 20), (112..119, 10)] {
        let mut pipe = ecn_pipe(EcnMode::Accurate, EcnMode::Accurate)
            .data(move |s, _| match s.seq / MSS {
                100 if s.retransmission => Fate::Deliver,
                100 => Fate::Late(ms(60)),
                n if marked.contains(&n) => Fate::Mark,
                _ => Fate::Deliver,
            })
            .transfer(400 * MSS);
        pipe.finish();
        let events = kinds(&mut pipe);
        assert!(events.contains(&FlowEvent::Undo(UndoCause::Dsack)) && !events.contains(&FlowEvent::EcnReduction), "{events:?}");
        assert_eq!(pipe.sender.stats().cwnd, Bytes(left * MSS));
    }
}

#[test]
fn undo_by_timestamp_restores_the_window_within_an_rtt() {
    // Late by 20 ms: the original is acknowledged while the retransmission is under way.
    let mut pipe = Pipe::new(FixedWindow::new(20))
        .data(|s, _| if s.seq == 100 * MSS && !s.retransmission { Fate::Late(ms(20)) } else { Fate::Deliver })
        .transfer(400 * MSS);
    pipe.finish();
    let events = pipe.events();
    let undo = events.iter().find(|(_, e)| matches!(e, FlowEvent::Undo(_))).expect("undone");
    let entered = events.iter().find(|(_, e)| *e == FlowEvent::RecoveryEntered).expect("entered");
    assert!(undo.0.since(entered.0) <= ms(51), "{events:?}");
    assert_eq!(pipe.sender.stats().cwnd, Bytes(20 * MSS));
}

#[test]
fn a_lost_tail_is_probed_after_two_srtt_and_200_ms() {
    let mut pipe = Pipe::new(FixedWindow::new(20)).data(lose(&[99])).transfer(100 * MSS);
    pipe.finish();
    let sent = pipe.times_sent(99 * MSS);
    assert_eq!(sent.len(), 2);
    // The probe timer starts at the last ACK; with one packet out it also includes the receiver's ACK delay.
    let last_ack = pipe.acks.iter().rfind(|(_, a)| a.ack <= 99 * MSS).expect("acknowledged").0 + pipe.one_way;
    let waited = sent[1].since(last_ack);
    assert!(waited >= ms(240) && waited <= ms(300), "2 x 50 + 200 ms, at most the RTO of 250: {waited:?}");
    assert_eq!(pipe.sender.stats().tail_loss_probes, 1);
}

#[test]
fn a_lost_tail_of_two_is_probed_after_two_srtt_and_2_ms() {
    let mut pipe = Pipe::new(FixedWindow::new(20)).data(lose(&[98, 99])).transfer(100 * MSS);
    pipe.finish();
    let probe = pipe.times_sent(99 * MSS)[1];
    let last_ack = pipe.acks.iter().rfind(|(_, a)| a.ack <= 98 * MSS && a.sacks.as_slice().is_empty()).expect("acknowledged").0;
    let waited = probe.since(last_ack + pipe.one_way);
    assert!(waited >= ms(102) && waited <= ms(116), "delayed ACKs raise srtt: {waited:?}");
    assert_eq!(pipe.sender.stats().timeouts, 0);
    assert_eq!(pipe.times_sent(98 * MSS).len(), 2, "the probe's SACK shows the other loss");
}

#[test]
fn a_probe_of_new_data_that_repairs_nothing_keeps_the_window() {
    // The ACKs of one flight are lost: the probe carries new data, and its ACK covers the flight.
    let mut losses = 0..2;
    let mut pipe = Pipe::new(FixedWindow::new(4))
        .acks(move |a, _| if a.ack >= 40 * MSS && losses.next().is_some() { Fate::Drop } else { Fate::Deliver })
        .transfer(100 * MSS);
    pipe.finish();
    let stats = pipe.sender.stats();
    assert!(stats.tail_loss_probes > 0);
    assert_eq!((stats.timeouts, stats.cwnd), (0, Bytes(4 * MSS)));
    assert!(!kinds(&mut pipe).contains(&FlowEvent::TailLoss));
}

#[test]
fn a_retransmitted_probe_that_repaired_a_loss_is_reported_as_tail_loss() {
    let mut pipe = Pipe::new(FixedWindow::new(20)).data(lose(&[99]));
    pipe.sender.open(Time::ZERO);
    pipe.sender.app_write(Time::ZERO, Bytes(100 * MSS));
    pipe.run_for(ms(2000));
    pipe.sender.app_write(pipe.now, Bytes(10 * MSS));
    pipe.run_for(ms(500));
    assert!(kinds(&mut pipe).contains(&FlowEvent::TailLoss));
    assert!(pipe.sender.stats().ssthresh <= Bytes(10 * MSS));
}

#[test]
fn time_outs_back_off_and_reduce_the_window_once() {
    // Every packet from 100 on is lost, for a second.
    let mut pipe = Pipe::new(FixedWindow::new(20))
        .data(|s, n| if s.seq >= 100 * MSS && n < 125 { Fate::Drop } else { Fate::Deliver })
        .transfer(400 * MSS);
    pipe.finish();
    let timeouts: Vec<_> = pipe.events().into_iter().filter(|(_, e)| matches!(e, FlowEvent::Timeout(_))).collect();
    assert!(timeouts.len() >= 2, "{timeouts:?}");
    let gaps: Vec<u64> = timeouts.windows(2).map(|w| w[1].0.since(w[0].0).0).collect();
    assert!(gaps.windows(2).all(|g| g[1] == 2 * g[0]), "the intervals double: {gaps:?}");
    assert_eq!(pipe.sender.stats().ssthresh, Bytes(10 * MSS), "one reduction, however many time-outs");
}

#[test]
fn a_delay_spike_beyond_the_rto_is_undone_by_f_rto_or_timestamps() {
    // The path stalls for 600 ms and then delivers everything in order.
    let stall = ms(500).0..ms(1100).0;
    let mut pipe = Pipe::new(FixedWindow::new(20))
        .data(move |s, _| if stall.contains(&s.tsval.0) { Fate::Late(Nanos(stall.end - s.tsval.0)) } else { Fate::Deliver })
        .transfer(400 * MSS);
    pipe.finish();
    let stats = pipe.sender.stats();
    assert!(stats.timeouts > 0 && stats.undos > 0, "{stats:?}");
    assert_eq!(stats.cwnd, Bytes(20 * MSS));
    assert!(stats.retransmits <= 4, "the rest of the flight is not retransmitted: {}", stats.retransmits);
}

/// An outage takes the ACKs of packets that have arrived, and all that is sent in it. The first ACK after it has SACKs of those packets.
#[test]
fn after_an_outage_f_rto_undoes_a_time_out_and_a_host_without_it_does_not() {
    let undone = |frto| {
        let config = SenderConfig { frto, ..SenderConfig::default() };
        let mut pipe = Pipe::with(config, ReceiverConfig::default(), FixedWindow::new(200))
            .data(|s, _| {
                let is_hole = s.seq / MSS % 50 == 7 && (ms(400).0..ms(500).0).contains(&s.tsval.0);
                if is_hole || (ms(500).0..ms(2500).0).contains(&s.tsval.0) { Fate::Drop } else { Fate::Deliver }
            })
            .acks(|a, _| if (ms(430).0..ms(2500).0).contains(&a.tsval.0) { Fate::Drop } else { Fate::Deliver })
            .transfer(4000 * MSS);
        pipe.finish();
        kinds(&mut pipe).iter().filter(|event| **event == FlowEvent::Undo(UndoCause::Frto)).count()
    };
    assert!(undone(true) > 0);
    assert_eq!(undone(false), 0);
}

#[test]
fn an_ecn_echo_reduces_the_window_once_per_rtt() {
    for mode in [EcnMode::Classic, EcnMode::Accurate] {
        let mut pipe = ecn_pipe(mode, EcnMode::Accurate)
            .data(|s, _| if (100..110).contains(&(s.seq / MSS)) { Fate::Mark } else { Fate::Deliver })
            .transfer(300 * MSS);
        pipe.finish();
        let stats = pipe.sender.stats();
        assert_eq!((stats.cwnd, stats.retransmits), (Bytes(10 * MSS), 0), "{mode:?}");
        assert_eq!(kinds(&mut pipe).iter().filter(|e| **e == FlowEvent::EcnReduction).count(), 1, "{mode:?}");
        // Ten were marked. Classic feedback does not count marks: every packet delivered before CWR arrived counts.
        assert_eq!(pipe.receiver.marks(), 10);
        assert!(if mode == EcnMode::Accurate { stats.ce_marks == 10 } else { stats.ce_marks >= 10 }, "{stats:?}");
        let cwr_segments: Vec<_> = pipe.sent.iter().filter(|(_, s)| s.ecn.cwr).collect();
        assert_eq!(cwr_segments.len(), usize::from(mode == EcnMode::Classic));
    }
}

fn ecn_pipe(requested: EcnMode, accepts: EcnMode) -> Pipe {
    let sender = SenderConfig { ecn: requested, ..SenderConfig::default() };
    Pipe::with(sender, ReceiverConfig { ecn: accepts, ..ReceiverConfig::default() }, FixedWindow::new(20))
}

#[test]
fn marks_without_negotiated_ecn_are_ignored() {
    let marked = |requested, accepts| {
        let mut pipe = ecn_pipe(requested, accepts).data(|_, _| Fate::Mark).transfer(300 * MSS);
        pipe.finish();
        (pipe.sender.stats().cwnd, pipe.sent.iter().any(|(_, s)| s.ecn.capable))
    };
    assert_eq!(marked(EcnMode::Off, EcnMode::Accurate), (Bytes(20 * MSS), false));
    assert_eq!(marked(EcnMode::Accurate, EcnMode::Off), (Bytes(20 * MSS), false));
}

#[test]
fn continuous_marks_reduce_the_window_once_per_rtt() {
    let mut pipe = ecn_pipe(EcnMode::Classic, EcnMode::Accurate).data(|_, _| Fate::Mark).transfer(2000 * MSS);
    pipe.finish();
    let times: Vec<_> = pipe.events().into_iter().filter(|(_, e)| *e == FlowEvent::EcnReduction).map(|(at, _)| at).collect();
    assert!(times.len() > 5, "{times:?}");
    assert!(times.windows(2).all(|w| w[1].since(w[0]) >= ms(50)), "an RTT apart: {times:?}");
    assert_eq!(pipe.sender.stats().cwnd, Bytes(2 * MSS));
}

#[test]
fn with_classic_feedback_retransmissions_are_not_ecn_capable() {
    for (mode, retransmissions_capable) in [(EcnMode::Classic, false), (EcnMode::Accurate, true)] {
        let mut pipe = ecn_pipe(mode, EcnMode::Accurate)
            .data(|s, _| if s.seq / MSS == 100 && !s.retransmission { Fate::Drop } else { Fate::Deliver })
            .transfer(300 * MSS);
        pipe.finish();
        assert!(pipe.sent.iter().all(|(_, s)| s.len == 0 || s.ecn.capable == (!s.retransmission || retransmissions_capable)), "{mode:?}");
        assert!(pipe.sent.iter().any(|(_, s)| s.retransmission));
    }
}

#[test]
fn a_network_that_duplicates_packets_causes_no_undo() {
    let mut pipe =
        Pipe::new(FixedWindow::new(20)).data(|_, n| if n % 10 == 0 { Fate::Twice(ms(1)) } else { Fate::Deliver }).transfer(400 * MSS);
    pipe.finish();
    let stats = pipe.sender.stats();
    assert_eq!((stats.retransmits, stats.undos, stats.state), (0, 0, RecoveryState::Open));
}

#[test]
fn acks_of_one_instant_do_not_make_rack_mark_retransmissions_lost() {
    // A third of 300 segments is lost, retransmissions among them; ACKs arrive in batches every 20 ms.
    let fate = |_: &Segment, n: usize| if (300..600).contains(&n) && n.is_multiple_of(3) { Fate::Drop } else { Fate::Deliver };
    let batched = |ack: &Ack, _: usize| Fate::Late(Nanos(20_000_000 - ack.tsval.0 % 20_000_000));
    let mut pipe = Pipe::new(FixedWindow::new(200)).data(fate).acks(batched).transfer(2000 * MSS);
    pipe.finish();
    assert_eq!(pipe.sender.stats().retransmits, 100);
}
