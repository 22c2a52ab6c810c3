//! What the two hosts add to a RTT: until a packet is taken, answered, and its acknowledgement taken.
//!
//! It is some microseconds, but never the same, and that decides when a minimum is taken for old: where the path's own delay is constant, each sample that is
//! lower by a microsecond renews a controller's minimum, and puts `PROBE_RTT` off by ten seconds (BBR). Samples that are all alike never do.
//!
//! How many microseconds is not what matters (BBR alone over the claim's GEO path, ten seeds: 29.2, 29.5 and 29.5 Mbit/s with 2, 10 and 50 µs in the mean, 28.4
//! with none; Linux 29.4, `bentpipe validate sim-vs-kernel`), and is chosen here: each host takes an exponential time of 10 µs in the mean. In captures of BBR over a path of 660 ms
//! (Linux 6.18 on two virtual processors, `bentpipe race --on-kernel --capture`) the first acknowledgements, which met no queue, came 0 to 64 µs after the least, 30
//! in the mean; the emulator's own lateness, some 6 µs each way, is in that.
//!
//! It goes into the samples alone: a packet leaves and arrives when the path says, and the least RTT that RACK and the rate sampler hold other times
//! against is the path's own, as those are.

use bentpipe_profile::rng::Stream;
use bentpipe_profile::{Nanos, Streams};

/// Mean time that either host takes [ns].
const MEAN_NS: f64 = 10_000.0;

/// The kernel's clock for RTTs (`tcp_clock_us`).
const TICK: u64 = 1_000;

/// See the module.
#[derive(Clone, Debug)]
pub struct Turnaround(Option<Stream>);

impl Turnaround {
    /// Drawn from `streams`; None: hosts that take no time, and a clock as fine as the path's.
    pub fn new(streams: Option<Streams>) -> Self {
        Self(streams.map(|streams| streams.stream("turnaround")))
    }

    /// What is to be added to the samples of one acknowledgement.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // some µs
    pub fn draw(&mut self) -> Nanos {
        self.0.as_mut().map_or(Nanos::ZERO, |stream| {
            // The sum of two exponential times.
            let both = (1.0 - stream.uniform()) * (1.0 - stream.uniform());
            Nanos((-MEAN_NS * libm::log(both)) as u64)
        })
    }

    /// A RTT as the host's clock has it.
    pub fn clock(&self, rtt: Nanos) -> Nanos {
        if self.0.is_some() { Nanos(rtt.0 / TICK * TICK) } else { rtt }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_hosts_take_twenty_microseconds_seldom_none_and_by_the_microsecond() {
        let mut hosts = Turnaround::new(Some(Streams::new(1)));
        let drawn: Vec<Nanos> = (0..20_000).map(|_| hosts.draw()).collect();
        let taken: Vec<u64> = drawn.into_iter().map(|t| hosts.clock(t).0).collect();
        let mean = taken.iter().sum::<u64>() / 20_000;
        assert!((19_000..20_000).contains(&mean), "{mean} ns, half a microsecond cut off");
        assert!(taken.iter().all(|t| t % 1_000 == 0));
        let within = |micros: std::ops::Range<u64>| taken.iter().filter(|&&t| micros.contains(&(t / 1_000))).count();
        assert!(within(0..1) < 200 && within(5..15) > within(25..35), "an Erlang distribution of two");
    }

    #[test]
    fn hosts_without_a_stream_take_no_time() {
        let mut hosts = Turnaround::new(None);
        assert_eq!(hosts.draw(), Nanos::ZERO);
        assert_eq!(hosts.clock(Nanos(1_234)), Nanos(1_234));
    }
}
