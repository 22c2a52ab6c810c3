//! Groups of packets that were sent together, and the variation of their delay (draft-ietf-rmcat-gcc-02 sections 5.2, 5.3).

use super::Arrived;
use bentpipe_profile::{Nanos, Time};

/// Packets sent within this time of the first one are a group, and so are those that a queue released together.
const BURST: Nanos = Nanos::from_millis(5);

/// The difference between two groups.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Variation {
    /// Interval of arrivals less interval of departures [ms].
    pub delay_ms: f64,
    /// Interval of arrivals [ms].
    pub interval_ms: f64,
}

#[derive(Clone, Copy, Debug)]
struct Group {
    first_sent: Time,
    last_sent: Time,
    last_arrival: Time,
}

/// The newest group, which may still grow, and the one before it.
#[derive(Debug, Default)]
pub struct Groups {
    open: Option<Group>,
    before: Option<Group>,
}

impl Groups {
    /// Add a packet that arrived. Returns the variation of the group that it completes.
    pub fn add(&mut self, packet: Arrived) -> Option<Variation> {
        let Some(open) = &mut self.open else {
            self.open = Some(Group::of(packet));
            return None;
        };
        if packet.sent < open.first_sent {
            return None; // reordered: its group is over
        }
        if open.takes(packet) {
            open.last_sent = open.last_sent.max(packet.sent);
            open.last_arrival = open.last_arrival.max(packet.at);
            return None;
        }
        let complete = self.open.replace(Group::of(packet))?;
        let before = self.before.replace(complete)?;
        let interval_ms = signed_ms(complete.last_arrival, before.last_arrival);
        Some(Variation { delay_ms: interval_ms - signed_ms(complete.last_sent, before.last_sent), interval_ms: interval_ms.max(0.0) })
    }
}

impl Group {
    const fn of(packet: Arrived) -> Self {
        Self { first_sent: packet.sent, last_sent: packet.sent, last_arrival: packet.at }
    }

    fn takes(&self, packet: Arrived) -> bool {
        if packet.sent.since(self.first_sent) <= BURST {
            return true;
        }
        // A burst of arrivals: it waited with the group, and both left together.
        let variation = signed_ms(packet.at, self.last_arrival) - signed_ms(packet.sent, self.last_sent);
        variation < 0.0 && signed_ms(packet.at, self.last_arrival) <= BURST.as_millis_f64()
    }
}

/// Return `a − b` [ms].
fn signed_ms(a: Time, b: Time) -> f64 {
    if a >= b { a.since(b).as_millis_f64() } else { -b.since(a).as_millis_f64() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(sent_ms: u64, at_ms: u64) -> Arrived {
        Arrived { sent: Time(sent_ms * 1_000_000), at: Time(at_ms * 1_000_000), bytes: 1200 }
    }

    fn variations(packets: &[(u64, u64)]) -> Vec<f64> {
        let mut groups = Groups::default();
        packets.iter().filter_map(|&(sent, at)| groups.add(packet(sent, at))).map(|each| each.delay_ms).collect()
    }

    #[test]
    fn a_group_is_what_was_sent_within_five_milliseconds() {
        // Groups at 0-5, 33-36, 66 and 100 ms: the third arrives 4 ms later than the second.
        let packets = [(0, 50), (5, 55), (33, 85), (36, 86), (66, 120), (100, 150)];
        assert_eq!(variations(&packets), [0.0, 4.0]);
    }

    #[test]
    fn what_a_gap_held_back_and_released_together_is_one_group() {
        let held = [(0, 50), (33, 83), (66, 160), (99, 161), (132, 182), (165, 215)];
        assert_eq!(variations(&held), [0.0, 12.0, -12.0]); // 66 and 99 ms are one group: its last packet is 12 ms late
        assert_eq!(variations(&[(50, 100), (0, 101), (83, 133), (116, 166)]), [0.0]);
    }
}
