//! One flow over one bottleneck: its goodput, and the processing cost of a packet.
//!
//! ```text
//! cargo run --release -p bentpipe-transport --example transport_loop
//! ```
//! It prints goodput for CUBIC at 50 ms under independent random loss on 1 Gbit/s with a large queue, beside that of Linux 6.18 on the same
//! path (32.7, 9.2 and 2.4 Mbit/s at p = 1e-4, 1e-3 and 1e-2). For windows from 300 to 10,000 packets it prints the time that sender and
//! receiver together take per data packet, including the loop around them with a queue in each direction.

use bentpipe_cc::registry;
use bentpipe_profile::rng::Stream;
use bentpipe_profile::{Bytes, Nanos, Rate, Streams, Time};
use bentpipe_transport::{Ack, Receiver, ReceiverConfig, Segment, Sender, SenderConfig};
use std::collections::{BTreeMap, VecDeque};

/// A bottleneck with a constant delay in each direction and independent losses.
struct Path {
    rate: Rate,
    one_way: Nanos,
    queue: Bytes,
    loss: f64,
}

/// Time left out of goodput: slow start on an empty gigabit link, and the losses that end it.
const WARM_UP: Nanos = Nanos::from_secs(30);

/// Result of a run.
struct Outcome {
    /// Goodput after the warm-up.
    goodput_mbps: f64,
    packets: u64,
    retransmits: u64,
    timeouts: u64,
}

struct Loop {
    path: Path,
    sender: Sender,
    receiver: Receiver,
    draws: Stream,
    /// Time at which the bottleneck is free.
    busy_until: Time,
    data: VecDeque<(Time, Segment)>,
    acks: VecDeque<(Time, Ack)>,
}

impl Loop {
    fn new(path: Path, controller: &str, wmem_max: Bytes, seed: u64) -> Self {
        let config = SenderConfig { wmem_max, ..SenderConfig::default() };
        let streams = Streams::new(seed);
        let controller = registry::build(controller, &config.controller_config(streams), &BTreeMap::new()).expect("a known controller");
        Self {
            path,
            sender: Sender::new(config, controller),
            receiver: Receiver::new(ReceiverConfig::default()),
            draws: streams.stream("loss"),
            busy_until: Time::ZERO,
            data: VecDeque::new(),
            acks: VecDeque::new(),
        }
    }

    fn transmit(&mut self, now: Time) {
        while let Some(segment) = self.sender.poll_transmit(now) {
            let backlog = self.path.rate.bytes_in(self.busy_until.since(now));
            let lost = self.draws.uniform() < self.path.loss;
            if lost || backlog.0 + u64::from(segment.wire_bytes()) > self.path.queue.0 {
                continue;
            }
            self.busy_until = self.busy_until.max(now) + self.path.rate.time_for(Bytes(u64::from(segment.wire_bytes())));
            self.data.push_back((self.busy_until + self.path.one_way, segment));
        }
    }

    fn run(&mut self, span: Nanos) -> Outcome {
        let end = Time::ZERO + span;
        self.sender.open(Time::ZERO);
        self.sender.app_write(Time::ZERO, Bytes::MAX);
        self.transmit(Time::ZERO);
        let mut delivered_at_warm_up = None;
        loop {
            let data = self.data.front().map_or(Time::MAX, |d| d.0);
            let acks = self.acks.front().map_or(Time::MAX, |a| a.0);
            let sender = self.sender.wake_at().unwrap_or(Time::MAX);
            let receiver = self.receiver.wake_at().unwrap_or(Time::MAX);
            let now = data.min(acks).min(sender).min(receiver);
            if now > end {
                break;
            }
            if delivered_at_warm_up.is_none() && now > Time::ZERO + WARM_UP {
                delivered_at_warm_up = Some(self.receiver.delivered().0);
            }
            if data == now
                && let Some((_, segment)) = self.data.pop_front()
            {
                let acks = self.receiver.on_segment(now, &segment, false, None, true).into_iter().flatten();
                self.acks.extend(acks.map(|ack| (now + self.path.one_way, ack)));
            } else if receiver == now
                && let Some(ack) = self.receiver.on_wake(now)
            {
                self.acks.push_back((now + self.path.one_way, ack));
            }
            if acks == now
                && let Some((_, ack)) = self.acks.pop_front()
            {
                self.sender.on_ack(now, &ack);
                self.transmit(now);
            }
            if sender == now {
                self.sender.on_wake(now);
                self.transmit(now);
            }
        }
        let stats = self.sender.stats();
        Outcome {
            goodput_mbps: (self.receiver.delivered().0 - delivered_at_warm_up.unwrap_or(0)) as f64 * 8.0
                / (span.saturating_sub(WARM_UP)).as_secs_f64()
                / 1e6,
            packets: stats.segments_sent,
            retransmits: stats.retransmits,
            timeouts: stats.timeouts,
        }
    }
}

fn main() {
    let half = Nanos::from_millis(25);
    println!("CUBIC, 50 ms, random loss, 30 to 300 s, mean of 10 seeds [Mbit/s]");
    for (loss, kernel_mbps) in [(1e-4, 32.7), (1e-3, 9.2), (1e-2, 2.4)] {
        let runs: Vec<Outcome> = (0..10)
            .map(|seed| {
                let path = Path { rate: Rate::from_mbps(1000), one_way: half, queue: Bytes(100_000_000), loss };
                Loop::new(path, "cubic", Bytes(4_194_304), seed).run(Nanos::from_secs(300))
            })
            .collect();
        let mean = runs.iter().map(|r| r.goodput_mbps).sum::<f64>() / runs.len() as f64;
        let each: Vec<String> = runs.iter().map(|r| format!("{:.2}", r.goodput_mbps)).collect();
        let timeouts: u64 = runs.iter().map(|r| r.timeouts).sum();
        println!(
            "  p = {loss:.0e}: {mean:.2} (kernel {kernel_mbps}, {:+.1} %)   seeds {}   {timeouts} time-outs",
            (mean / kernel_mbps - 1.0) * 100.0,
            each.join(" ")
        );
    }
    println!("cost per data packet, sender and receiver and this loop [ns]");
    let runs = [
        ("cubic", 70, 90, 0.0),
        ("cubic", 700, 45, 0.0),
        ("cubic", 2400, 40, 0.0),
        ("bbr", 100, 90, 0.0),
        ("bbr", 2400, 40, 0.0),
        ("bbr", 2400, 40, 0.01),
        ("reno", 700, 45, 0.0), // slow start into a full queue: thousands of holes at once
    ];
    for (controller, mbps, seconds, loss) in runs {
        let rate = Rate::from_mbps(mbps);
        let path = Path { rate, one_way: half, queue: rate.bytes_in(half), loss };
        let mut run = Loop::new(path, controller, Bytes(64_000_000), 1);
        #[allow(clippy::disallowed_methods)] // this example measures its own speed
        let started = std::time::Instant::now();
        let outcome = run.run(Nanos::from_secs(seconds));
        let elapsed = started.elapsed();
        println!(
            "  {controller:6} {mbps:5} Mbit/s, loss {loss}, {:6} packets a window: {:4.0} ns   ({:.1} Mbit/s, {} packets, {} retransmitted)",
            rate.bytes_in(Nanos::from_millis(50)).0 / 1500,
            elapsed.as_nanos() as f64 / outcome.packets as f64,
            outcome.goodput_mbps,
            outcome.packets,
            outcome.retransmits,
        );
    }
}
