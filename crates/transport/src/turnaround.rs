//! Host time in RTT samples: the time in which both hosts process a packet and its acknowledgement.
//!
//! It is some microseconds and varies, and the variation decides when a minimum expires. Where the path's own delay is constant, each sample
//! that is lower by a microsecond renews a controller's minimum RTT and postpones `PROBE_RTT` by ten seconds (BBR). Equal samples never do.
//!
//! The number of microseconds matters little. BBR alone over the claim's GEO path, ten seeds: 29.2, 29.5 and 29.5 Mbit/s with a mean of 2, 10
//! and 50 µs, 28.4 with none; Linux 29.4 (`bentpipe validate sim-vs-kernel`). This model uses an exponential time with a mean of 10 µs per
//! host. In captures of BBR over a path of 660 ms (Linux 6.18 on two virtual processors, `bentpipe race --on-kernel --capture`) the first
//! acknowledgements, which met no queue, came 0 to 64 µs after the minimum, 30 in the mean; that includes the emulator's own lateness of some
//! 6 µs each way.
//!
//! Host time affects the samples alone. Packets leave and arrive at the path's times, and the minimum RTT of RACK and the rate sampler is the
//! path's own, as are the times compared with it.

use crate::host_timing::{DrawnTimes, HostTimes};
use bentpipe_profile::Nanos;
use bentpipe_profile::rng::Stream;

/// Random host times; see the module's documentation.
#[derive(Clone, Debug)]
pub struct Turnaround(Option<(HostTimes, Stream)>);

impl Turnaround {
    /// Create hosts with these times; `None`: hosts take no time, and their clock is exact.
    pub fn new(drawn: Option<DrawnTimes>) -> Self {
        Self(drawn.map(|drawn| (drawn.times, drawn.streams.stream("turnaround"))))
    }

    /// Draw the time to add to the RTT samples of one acknowledgement.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // some microseconds
    pub fn draw(&mut self) -> Nanos {
        self.0.as_mut().map_or(Nanos::ZERO, |(times, stream)| {
            // The sum of two exponential times.
            let both = (1.0 - stream.uniform()) * (1.0 - stream.uniform());
            Nanos((-(times.turnaround_mean.0 as f64) * libm::log(both)) as u64)
        })
    }

    /// Round an RTT down to the resolution of the host's clock.
    pub fn clock(&self, rtt: Nanos) -> Nanos {
        self.0.as_ref().map_or(rtt, |(times, _)| Nanos(rtt.0 / times.rtt_tick.0 * times.rtt_tick.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host_timing::LINUX_VM;
    use bentpipe_profile::Streams;

    #[test]
    fn two_hosts_take_twenty_microseconds_on_average_in_whole_microseconds() {
        let mut hosts = Turnaround::new(Some(DrawnTimes { times: LINUX_VM, streams: Streams::new(1) }));
        let draws: Vec<Nanos> = (0..20_000).map(|_| hosts.draw()).collect();
        let times: Vec<u64> = draws.into_iter().map(|t| hosts.clock(t).0).collect();
        let mean = times.iter().sum::<u64>() / 20_000;
        assert!((19_000..20_000).contains(&mean), "{mean} ns, rounded down by half a microsecond on average");
        assert!(times.iter().all(|t| t % 1_000 == 0));
        let within = |micros: std::ops::Range<u64>| times.iter().filter(|&&t| micros.contains(&(t / 1_000))).count();
        assert!(within(0..1) < 200 && within(5..15) > within(25..35), "an Erlang distribution of two");
    }

    #[test]
    fn hosts_without_a_stream_take_no_time() {
        let mut hosts = Turnaround::new(None);
        assert_eq!(hosts.draw(), Nanos::ZERO);
        assert_eq!(hosts.clock(Nanos(1_234)), Nanos(1_234));
    }
}
