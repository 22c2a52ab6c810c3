//! Media packets that are missing, and when to ask for them again: at once, then every RTT, ten times, as libwebrtc does.

use bentpipe_profile::{Nanos, Time};
use std::collections::BTreeMap;

/// Most requests for one packet.
const MOST_REQUESTS: u32 = 10;
/// Most missing packets; with more, only a key frame helps.
const MOST_MISSING: usize = 1000;

#[derive(Clone, Copy, Debug)]
struct Request {
    again_at: Time,
    count: u32,
}

/// The missing packets.
#[derive(Debug, Default)]
pub struct Missing {
    packets: BTreeMap<u32, Request>,
    /// Number after the highest that arrived; `None`: nothing arrived.
    next: Option<u32>,
}

/// What the arrival of a packet shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shown {
    /// Nothing is missing before it, that was not known.
    Nothing,
    /// Packets before it are missing.
    Gap,
    /// It was missing and had been asked for.
    Late,
    /// So many are missing that they are given up.
    TooMany,
}

impl Missing {
    /// Take in the arrival of a media packet.
    pub fn on_arrival(&mut self, now: Time, number: u32) -> Shown {
        let next = self.next.unwrap_or(number);
        if number < next {
            return if self.packets.remove(&number).is_some_and(|request| request.count > 0) { Shown::Late } else { Shown::Nothing };
        }
        self.next = Some(number + 1);
        if number == next {
            return Shown::Nothing;
        }
        if (number - next) as usize + self.packets.len() > MOST_MISSING {
            self.packets.clear();
            return Shown::TooMany;
        }
        self.packets.extend((next..number).map(|number| (number, Request { again_at: now, count: 0 })));
        Shown::Gap
    }

    /// Take the packets to ask for now. Those asked for often enough are given up; the second value says whether there were some.
    pub fn take_due(&mut self, now: Time, rtt: Nanos) -> (Vec<u32>, bool) {
        let before = self.packets.len();
        self.packets.retain(|_, request| request.count < MOST_REQUESTS || request.again_at > now);
        let gave_up = self.packets.len() < before;
        let mut due = Vec::new();
        for (number, request) in self.packets.iter_mut().filter(|(_, request)| request.again_at <= now) {
            *request = Request { again_at: now + rtt, count: request.count + 1 };
            due.push(*number);
        }
        (due, gave_up)
    }

    /// Return when to ask again; `None`: nothing is missing.
    #[must_use]
    pub fn next_due(&self) -> Option<Time> {
        self.packets.values().map(|request| request.again_at).min()
    }

    /// Forget packets before `number`: nobody needs them any more.
    pub fn forget_before(&mut self, number: u32) {
        self.packets = self.packets.split_off(&number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Nanos = Nanos(100);

    #[test]
    fn a_gap_is_asked_for_at_once_then_each_rtt_and_given_up_after_ten() {
        let mut missing = Missing::default();
        assert_eq!([missing.on_arrival(Time(0), 7), missing.on_arrival(Time(1), 10)], [Shown::Nothing, Shown::Gap]);
        assert_eq!(missing.take_due(Time(1), RTT), (vec![8, 9], false));
        assert_eq!((missing.take_due(Time(2), RTT).0, missing.next_due()), (vec![], Some(Time(101))));
        assert_eq!(missing.on_arrival(Time(50), 8), Shown::Late);
        let requested = (1..20).map(|rtt| missing.take_due(Time(1 + rtt * 100), RTT)).collect::<Vec<_>>();
        assert_eq!(requested.iter().filter(|(numbers, _)| *numbers == [9]).count(), 9);
        assert_eq!(requested.iter().position(|(_, gave_up)| *gave_up), Some(9));
        assert_eq!(missing.next_due(), None);
        assert_eq!(missing.on_arrival(Time(5000), 9), Shown::Nothing);
    }

    #[test]
    fn what_nobody_needs_is_forgotten_and_too_much_is_given_up() {
        let mut missing = Missing::default();
        missing.on_arrival(Time(0), 0);
        missing.on_arrival(Time(0), 5);
        missing.forget_before(4);
        assert_eq!(missing.take_due(Time(0), RTT).0, [4]);
        assert_eq!(missing.on_arrival(Time(1), 2000), Shown::TooMany);
        assert_eq!(missing.next_due(), None);
    }
}
