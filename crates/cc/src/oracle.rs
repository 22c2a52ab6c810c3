//! The oracle: a sender that knows the capacity of the path to come, packet by packet. Not deployable: the ceiling of what a controller could get.
//!
//! Each packet leaves so that it finds the bottleneck as the packet before leaves it, or `queue_ms` earlier. The window limits nothing: what is in flight is what
//! the path holds. A loss changes nothing, since the capacity is known; the transport repairs it. Nothing leaves for a hole: the next packet waits until one that
//! leaves then can pass. Handshake, recovery, ACKs and the buffers of hosts are those of the transport.

use super::hints::Needs;
use super::knowledge::{Capacity, Knowledge};
use super::registry::{Config, Entry};
use super::{AckSample, Congestion, Controller, Probe};
use bentpipe_profile::tunables::{OptionSet, millis};
use bentpipe_profile::{Bytes, Nanos, Rate, Time};

/// `oracle` in the registry.
pub const ENTRY: Entry = Entry {
    name: "oracle",
    status: "not deployable: a bound for studies",
    description: "knows the capacity of the path to come, and sends each packet so that it meets no queue",
    citation: "bentpipe, docs/design/023-ceiling.md",
    needs: Needs::Future,
    options: Options::SPECS,
    build: |config, values| Box::new(Oracle::new(config, Options::read(values))),
};

options! {
    /// Options of `oracle`.
    pub struct Options {
        queue: Nanos = millis("queue_ms", "queueing delay that each packet meets", 0.0, 0.0, 1000.0, "chosen here: none"),
    }
}

/// Headers of a data packet: IPv4 and TCP with timestamps [bytes].
const HEADERS_BYTES: u64 = 52;
/// The window while the capacity is known. Chosen here: more than any path holds.
const WINDOW: Bytes = Bytes(1 << 30);

/// A controller that knows the path to come.
#[derive(Clone, Debug)]
pub struct Oracle {
    mss: u32,
    initial_cwnd: Bytes,
    queue: Nanos,
    path: Capacity,
    /// When the bottleneck has sent the last packet, by send time.
    busy_until: Time,
    /// Capacity when the last packet left or was acknowledged.
    rate: Rate,
}

impl Oracle {
    /// Creates the controller of a new connection.
    #[must_use]
    pub fn new(config: &Config, options: Options) -> Self {
        let Config { mss, initial_cwnd, .. } = *config;
        Self { mss, initial_cwnd, queue: options.queue, path: Capacity::default(), busy_until: Time::ZERO, rate: Rate(0) }
    }
}

impl Controller for Oracle {
    fn on_established(&mut self, now: Time, _rtt: Option<Nanos>) {
        self.rate = self.path.at(now);
    }

    fn on_ack(&mut self, ack: &AckSample) {
        self.rate = self.path.at(ack.now);
    }

    fn on_congestion(&mut self, _now: Time, _event: Congestion, _in_flight: Bytes) {}

    fn on_sent(&mut self, now: Time, _in_flight: Bytes, _app_limited: bool) {
        self.rate = self.path.at(now);
        self.busy_until = self.path.finish(self.busy_until.max(now), u64::from(self.mss) + HEADERS_BYTES);
    }

    fn on_knowledge(&mut self, knowledge: &Knowledge<'_>) {
        if let Knowledge::Capacity(steps) = knowledge {
            self.path = Capacity::new(steps.to_vec());
        }
    }

    /// Without knowledge it keeps the initial window.
    fn cwnd(&self) -> Bytes {
        if self.path.is_empty() { self.initial_cwnd } else { WINDOW }
    }

    fn set_cwnd(&mut self, _cwnd: Bytes) {}

    fn ssthresh(&self) -> Bytes {
        Bytes::MAX
    }

    fn pacing_rate(&self) -> Option<Rate> {
        (!self.path.is_empty()).then(|| self.rate.max(Rate(1)))
    }

    fn next_departure(&self) -> Option<Time> {
        (!self.path.is_empty()).then(|| Time(self.busy_until.0.saturating_sub(self.queue.0)))
    }

    fn controls_recovery(&self) -> bool {
        true
    }

    fn min_tso_segments(&self) -> Option<u32> {
        Some(1)
    }

    fn observe(&self, probe: &mut dyn Probe) {
        probe.value("capacity_bps", self.rate.0 as f64);
        probe.state("oracle");
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::config;
    use super::*;

    fn departures(queue_ms: f64, steps: &[(Time, Rate)], count: usize) -> Vec<u64> {
        let mut oracle = Oracle::new(&config(), Options { queue: Nanos::from_secs_f64(queue_ms / 1e3).expect("small") });
        oracle.on_knowledge(&Knowledge::Capacity(steps));
        let mut now = Time::ZERO;
        (0..count)
            .map(|_| {
                oracle.on_sent(now, Bytes(1), false);
                now = now.max(oracle.next_departure().expect("it knows the capacity"));
                now.0 / 1000
            })
            .collect()
    }

    /// 1,500 bytes take 1 ms at 12 Mbit/s, 4 ms at 3 Mbit/s; a hole from 4 to 20 ms.
    #[test]
    fn each_packet_leaves_when_the_one_before_has_passed_the_bottleneck() {
        let ms = |n: u64| Time(n * 1_000_000);
        let steps = [(ms(0), Rate(12_000_000)), (ms(2), Rate(3_000_000)), (ms(4), Rate(0)), (ms(20), Rate(12_000_000))];
        // The third packet has 2 ms of its 4 before the hole, and the other half of its bits after it.
        assert_eq!(departures(0.0, &steps, 5), [1000, 2000, 20_500, 21_500, 22_500]);
        // With 1 ms of queue each leaves 1 ms before that.
        assert_eq!(departures(1.0, &steps, 5), [0, 1000, 19_500, 20_500, 21_500]);
    }
}
