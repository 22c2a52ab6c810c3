//! Properties that hold for any path.

use super::*;
use crate::sender::testing::{Path, path};
use crate::wire::{Ack, SackBlocks};
use bentpipe_cc::registry;
use bentpipe_profile::Streams;
use proptest::prelude::*;
use std::collections::BTreeMap;

/// A transfer over a path.
fn transfer(path: Path, controller: &str, bytes: u64) -> Pipe {
    let config = SenderConfig::default();
    let controller = registry::build(controller, &config.controller_config(Streams::new(path.seed)), &BTreeMap::new()).expect("known");
    let mut pipe = Pipe::new(FixedWindow::new(10));
    pipe.sender = crate::Sender::new(config, controller);
    pipe.data(move |_, n| path.fate(0xD0, n, path.loss)).acks(move |_, n| path.fate(0xA0, n, path.ack_loss)).transfer(bytes)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    #[test]
    fn all_bytes_arrive_in_order_over_any_path(path in path(), bytes in 1_u64..2_000_000, controller_index in 0_usize..3) {
        let controller = ["reno", "cubic", "bbr"][controller_index];
        let mut pipe = transfer(path, controller, bytes);
        pipe.finish();
        prop_assert_eq!(pipe.receiver.delivered(), Bytes(bytes));
        prop_assert!(pipe.receiver.is_closed());
        let stats = pipe.sender.stats();
        prop_assert_eq!(stats.in_flight, Bytes(0));
        prop_assert_eq!(stats.acked, Bytes(bytes));
        prop_assert!(stats.segments_sent >= stats.retransmits + bytes.div_ceil(MSS));
    }

    #[test]
    fn the_scoreboard_agrees_with_a_count_of_its_packets(path in path(), bytes in 100_000_u64..1_000_000) {
        let mut pipe = transfer(path, "cubic", bytes);
        pipe.run_for(ms(1));
        for _ in 0..2000 {
            if pipe.sender.is_done() {
                break;
            }
            pipe.run_for(ms(5));
            pipe.sender.scoreboard.check();
        }
    }
}

/// An arbitrary acknowledgement of sent data, valid or not. Positions are in permille of the outstanding data.
fn any_ack() -> impl Strategy<Value = (u64, Vec<(u64, u64)>, bool, u64, u64, u64)> {
    let block = (0_u64..1200, 0_u64..400).prop_map(|(start, len)| (start, start + len));
    (0_u64..1000, proptest::collection::vec(block, 0..4), any::<bool>(), any::<u64>(), 0_u64..500, 0_u64..400)
}

proptest! {
    #[test]
    fn no_acknowledgement_breaks_the_scoreboard_counts(acks in proptest::collection::vec(any_ack(), 1..120), controller_index in 0_usize..3) {
        let path = Path { seed: 1, loss: 0.0, late: 0.0, duplicate: 0.0, ack_loss: 0.0, spread_us: 0 };
        let mut sender = transfer(path, ["reno", "cubic", "bbr"][controller_index], 1).sender;
        sender.app_write(Time::ZERO, Bytes::MAX);
        let syn = sender.poll_transmit(Time::ZERO).expect("a SYN");
        let mut now = Time(50_000_000);
        sender.on_ack(now, &Ack { syn: true, ts_ecr: syn.tsval, ..Ack::plain(now, 0) });
        for (advance, blocks, dsack, window, echo_ms, wait_ms) in acks {
            while sender.poll_transmit(now).is_some() {}
            now = now + ms(wait_ms);
            sender.on_wake(now);
            while sender.poll_transmit(now).is_some() {}
            let (una, out) = (sender.una, sender.nxt - sender.una);
            let at = |permille: u64| una + out * permille / 1000;
            let mut sacks = SackBlocks::default();
            for (start, end) in blocks {
                sacks.push(at(start), at(end));
            }
            // One in four acknowledgements advances.
            let ack = if advance % 4 == 0 { at(advance) } else { una };
            let ts_ecr = Time(now.0.saturating_sub(ms(echo_ms).0));
            sender.on_ack(now, &Ack { window: Bytes(window), sacks, dsack, ts_ecr, ..Ack::plain(now, ack) });
            sender.scoreboard.check();
            prop_assert!(sender.scoreboard.in_flight() <= 2 * sender.scoreboard.packets_out());
        }
    }
}

#[test]
fn the_same_path_gives_the_same_segments() {
    let path = Path { seed: 7, loss: 0.02, late: 0.05, duplicate: 0.01, ack_loss: 0.05, spread_us: 20_000 };
    let run = || {
        let mut pipe = transfer(path, "cubic", 3_000_000);
        pipe.finish();
        (pipe.sent, pipe.acks)
    };
    assert!(run() == run());
}
