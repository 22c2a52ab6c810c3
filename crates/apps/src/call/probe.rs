//! Probing at the start of a call, as libwebrtc does: bursts at three and six times the first rate, and at twice a rate that was reached.

use super::gcc::Arrived;
use bentpipe_profile::{Bytes, Nanos, Rate, Time};

/// Rates of the first bursts, as multiples of the first rate.
const FIRST: [f64; 2] = [3.0, 6.0];
/// A burst lasts this long and has at least so many packets.
const SPAN: Nanos = Nanos::from_millis(15);
const LEAST_PACKETS: u32 = 5;
/// Size of a packet of padding: payload of UDP [bytes].
pub const PADDING_BYTES: u32 = 1000;
/// A burst counts once this share of its packets is reported as arrived.
const LEAST_ARRIVED: f64 = 0.8;
/// A burst that arrives slower than this share of its rate has found the path's rate; the estimate is this share of what arrived.
const SATURATED: f64 = 0.9;
const OF_SATURATED: f64 = 0.95;
/// A rate reached to this share leads to the next burst, with that factor.
const REACHED: f64 = 0.7;
const NEXT: f64 = 2.0;

/// A burst.
#[derive(Debug)]
struct Burst {
    bps: f64,
    /// Packets still to send, and those of the whole burst.
    left: u32,
    packets: u32,
    /// Numbers of its transmissions.
    sent_as: Vec<u32>,
    arrived: Vec<Arrived>,
}

/// The bursts of a sender.
#[derive(Debug)]
pub struct Probe {
    max_bps: f64,
    waiting: Vec<f64>,
    burst: Option<Burst>,
}

impl Probe {
    /// Create the first bursts.
    #[must_use]
    pub fn new(start_bps: f64, max_bps: f64) -> Self {
        let waiting = FIRST.iter().rev().map(|factor| (factor * start_bps).min(max_bps)).collect();
        Self { max_bps, waiting, burst: None }
    }

    /// Begin the next burst, if one waits and no other is on its way.
    pub fn begin(&mut self) {
        if self.burst.is_none()
            && let Some(bps) = self.waiting.pop()
        {
            let packets = packets_in(bps).max(LEAST_PACKETS);
            self.burst = Some(Burst { bps, left: packets, packets, sent_as: Vec::new(), arrived: Vec::new() });
        }
    }

    /// Return the rate of the burst that is being sent [bit/s]; `None`: there is none.
    #[must_use]
    pub fn sends_at(&self) -> Option<f64> {
        self.burst.as_ref().filter(|burst| burst.left > 0).map(|burst| burst.bps)
    }

    /// Record that the burst's next packet is sent.
    pub fn on_sent(&mut self, sent_as: u32) {
        if let Some(burst) = self.burst.as_mut().filter(|burst| burst.left > 0) {
            burst.left -= 1;
            burst.sent_as.push(sent_as);
        }
    }

    /// Record that a transmission arrived. Returns the rate that a burst found [bit/s], once it is complete.
    pub fn on_arrival(&mut self, sent_as: u32, arrived: Arrived) -> Option<f64> {
        let burst = self.burst.as_mut()?;
        if !burst.sent_as.contains(&sent_as) {
            return None;
        }
        burst.arrived.push(arrived);
        if burst.left > 0 || (burst.arrived.len() as f64) < LEAST_ARRIVED * f64::from(burst.packets) {
            return None;
        }
        let burst = self.burst.take()?;
        let rate = burst_bps(&burst.arrived)?;
        if rate > REACHED * burst.bps && self.waiting.is_empty() && burst.bps < self.max_bps {
            self.waiting.push((NEXT * rate).min(self.max_bps));
        }
        Some(rate)
    }

    /// Give up a burst of which too few packets arrived: the report reaches beyond it.
    pub fn on_reported(&mut self, end: u32) {
        if self.burst.as_ref().is_some_and(|burst| burst.left == 0 && burst.sent_as.iter().all(|&sent_as| sent_as < end)) {
            self.burst = None;
        }
    }
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // far below 2^32, above 0
fn packets_in(bps: f64) -> u32 {
    (bps * SPAN.as_secs_f64() / 8.0 / f64::from(PADDING_BYTES)).ceil() as u32
}

/// Return the rate that a burst shows: that of its arrivals, and no more than it was sent at.
fn burst_bps(arrived: &[Arrived]) -> Option<f64> {
    let rate = |times: &dyn Fn(&Arrived) -> Time, skips_first: bool| {
        let first = arrived.iter().min_by_key(|packet| times(packet))?;
        let last = arrived.iter().max_by_key(|packet| times(packet))?;
        let bytes: u64 = arrived.iter().map(|packet| u64::from(packet.bytes)).sum();
        let counted = bytes - u64::from(if skips_first { first.bytes } else { last.bytes });
        let span = times(last).since(times(first));
        (span > Nanos::ZERO).then(|| Rate::of(Bytes(counted), span).0 as f64)
    };
    let sent = rate(&|packet| packet.sent, false)?;
    let received = rate(&|packet| packet.at, true).unwrap_or(sent);
    Some(if received < SATURATED * sent { OF_SATURATED * received } else { sent.min(received) })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Let a burst cross a path of this rate, and return what it finds.
    fn burst(probe: &mut Probe, path_bps: f64) -> Option<f64> {
        probe.begin();
        let bps = probe.sends_at()?;
        let (mut sent_s, mut free_s, mut arrivals) = (0.0, 0.0_f64, Vec::new());
        let at = |seconds: f64| Time::from_secs_f64(seconds).expect("a time");
        while probe.sends_at().is_some() {
            probe.on_sent(u32::try_from(arrivals.len()).expect("few packets"));
            free_s = free_s.max(sent_s) + 8000.0 / path_bps;
            arrivals.push(Arrived { sent: at(sent_s), at: at(free_s + 0.02), bytes: PADDING_BYTES });
            sent_s += 8000.0 / bps;
        }
        (0..).zip(arrivals).find_map(|(number, arrival)| probe.on_arrival(number, arrival))
    }

    #[test]
    fn bursts_grow_until_the_path_is_found() {
        let mut probe = Probe::new(300_000.0, 20e6);
        let rates: Vec<f64> = std::iter::from_fn(|| burst(&mut probe, 5e6)).collect();
        let expected = [0.9e6, 1.8e6, 3.6e6, 4.75e6];
        assert_eq!(rates.len(), expected.len(), "{rates:?}");
        assert!(rates.iter().zip(expected).all(|(rate, expected)| (rate / expected - 1.0).abs() < 0.01), "{rates:?}");
    }

    #[test]
    fn bursts_end_at_the_highest_rate_and_a_lost_burst_is_given_up() {
        let mut probe = Probe::new(300_000.0, 2.5e6);
        let rates: Vec<f64> = std::iter::from_fn(|| burst(&mut probe, 50e6)).collect();
        assert_eq!(rates.len(), 3, "{rates:?}");
        let mut lost = Probe::new(300_000.0, 2.5e6);
        lost.begin();
        (0..LEAST_PACKETS).for_each(|number| lost.on_sent(number));
        lost.on_reported(LEAST_PACKETS);
        lost.begin();
        assert_eq!(lost.sends_at(), Some(1_800_000.0));
    }
}
