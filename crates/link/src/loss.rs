//! Random loss in loss episodes.

use crate::cause::DropCause;
use crate::element::{Element, Port};
use crate::packet::Packet;
use bentpipe_profile::LOSS_ONE;
use bentpipe_profile::series::Cursor;
use bentpipe_profile::{Series, Time, keyed_u64};
use std::collections::VecDeque;

/// Drops each packet with the current probability. The draw is keyed by hop, direction and time (and by the position among packets of the same
/// nanosecond), never by the number of earlier packets. Two controllers, and both worlds, therefore meet the same losses.
pub struct Loss {
    probability: Series,
    cursor: Cursor,
    key: u64,
    last: Time,
    nth_of_instant: u64,
    out: VecDeque<(Port, Packet)>,
}

impl Loss {
    /// Create an element with a stepped series of probabilities [1e-9]. `key`: of hop and direction ([`bentpipe_profile::Streams::key`]).
    #[must_use]
    pub fn new(probability: Series, key: u64) -> Self {
        Self { probability, cursor: Cursor::default(), key, last: Time::MAX, nth_of_instant: 0, out: VecDeque::new() }
    }

    fn draw(&mut self, at: Time) -> u64 {
        self.nth_of_instant = if at == self.last { self.nth_of_instant + 1 } else { 0 };
        self.last = at;
        let bits = keyed_u64(self.key ^ self.nth_of_instant.wrapping_mul(0xd6e8_feb8_6659_fd93), at.0);
        // Scale to 0 .. LOSS_ONE.
        #[allow(clippy::cast_possible_truncation)] // the high half of a 128-bit product
        {
            ((u128::from(bits) * u128::from(LOSS_ONE)) >> 64) as u64
        }
    }
}

impl Element for Loss {
    fn push(&mut self, _port: Port, packet: Packet) {
        let probability = self.probability.at(&mut self.cursor, packet.at);
        let port = if probability > 0 && self.draw(packet.at) < probability { Port::Drop(DropCause::Loss) } else { Port::Far };
        self.out.push_back((port, packet));
    }

    fn pop(&mut self, _now: Time) -> Option<(Port, Packet)> {
        self.out.pop_front()
    }

    fn wake_at(&self) -> Option<Time> {
        self.out.front().map(|(_, packet)| packet.at)
    }

    fn departures(&self, arrivals: Vec<Packet>) -> Vec<Packet> {
        let passed = self.out.iter().filter(|(port, _)| *port == Port::Far).map(|(_, packet)| *packet);
        passed.chain(arrivals).collect()
    }

    fn packets(&self) -> usize {
        self.out.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bentpipe_profile::Direction;

    fn lost(probability: Series, times: impl Iterator<Item = u64>) -> Vec<u64> {
        let mut loss = Loss::new(probability, 42);
        times
            .filter(|&t| {
                loss.push(Port::Near, Packet::new(Time(t), 0, Direction::Down, 0, 1500, 0));
                matches!(loss.pop(Time(t)), Some((Port::Drop(DropCause::Loss), _)))
            })
            .collect()
    }

    #[test]
    fn the_loss_rate_equals_the_probability() {
        let n = 200_000;
        let count = lost(Series::constant(LOSS_ONE / 100), (0..n).map(|i| i * 120_000)).len() as f64;
        let sigma = (n as f64 * 0.01 * 0.99).sqrt();
        assert!((count - n as f64 * 0.01).abs() < 4.0 * sigma, "{count}");
    }

    #[test]
    fn other_packets_do_not_change_whether_a_packet_is_lost() {
        let p = || Series::constant(LOSS_ONE / 10);
        let all = lost(p(), (0..10_000).map(|i| i * 1000));
        let half = lost(p(), (0..5_000).map(|i| i * 2000));
        assert_eq!(half, all.into_iter().filter(|t| t % 2000 == 0).collect::<Vec<_>>());
    }

    #[test]
    fn packets_of_one_instant_are_lost_independently() {
        let count = lost(Series::constant(LOSS_ONE / 2), std::iter::repeat_n(7, 1000)).len();
        assert!((400..600).contains(&count), "{count}");
    }

    #[test]
    fn no_packet_is_lost_outside_episodes() {
        let steps = [(Time(0), 0), (Time(1000), LOSS_ONE), (Time(2000), 0)];
        assert_eq!(lost(Series::steps("l", &steps).unwrap(), [999, 1000, 1999, 2000].into_iter()), [1000, 1999]);
    }
}
