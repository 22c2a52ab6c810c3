//! The path of the other cases under the sender itself, with its loss detection, its timers and its undo: a link that takes 0.4 ms over a packet, and 20 ms each way.

use super::{NO_PROBE_RTT, bbr3, ms};
use crate::cc::testing::{state_of, value_of};
use crate::sender::testing::{Fate, Pipe};
use crate::stats::SenderStats;
use crate::wire::Segment;
use bentpipe_profile::{Nanos, Time};
use std::cell::{RefCell, RefMut};
use std::ops::Range;
use std::rc::Rc;

const PACKET: Nanos = Nanos::from_micros(400);

/// The link, first in, first out, but for what a test asks for.
pub struct Link {
    free_at: Time,
    standstill: Range<Time>,
    lost: u32,
    overtaken: u32,
    by: Nanos,
}

impl Link {
    /// The next `packets` that are new never arrive.
    pub const fn lose(&mut self, packets: u32) {
        self.lost = packets;
    }

    /// The next `packets` that are new arrive so much later than their turn.
    pub const fn overtake(&mut self, packets: u32, by: Nanos) {
        self.overtaken = packets;
        self.by = by;
    }

    fn fate(&mut self, segment: &Segment) -> Fate {
        let sent_at = segment.tsval;
        if !segment.retransmission && self.lost > 0 {
            self.lost -= 1;
            return Fate::Drop;
        }
        let turn = self.free_at.max(sent_at);
        let turn = if self.standstill.contains(&turn) { self.standstill.end } else { turn };
        self.free_at = turn + PACKET;
        let late = if !segment.retransmission && self.overtaken > 0 {
            self.overtaken -= 1;
            self.by
        } else {
            Nanos::ZERO
        };
        Fate::Late(self.free_at.since(sent_at) + late)
    }
}

/// A bulk flow over it.
pub struct Connection {
    pipe: Pipe,
    link: Rc<RefCell<Link>>,
}

impl Connection {
    fn new() -> Self {
        let nothing = Link { free_at: Time::ZERO, standstill: Time::ZERO..Time::ZERO, lost: 0, overtaken: 0, by: Nanos::ZERO };
        let link = Rc::new(RefCell::new(nothing));
        let path = Rc::clone(&link);
        let mut pipe = Pipe::new(bbr3(&[NO_PROBE_RTT])).data(move |segment, _| path.borrow_mut().fate(segment));
        pipe.one_way = ms(20);
        Self { pipe: pipe.bulk(), link }
    }

    /// At the beginning of its second visit to UP; losses ended the first, with half as much again in flight as the path holds.
    pub fn that_probes_again() -> Self {
        let mut c = Self::new();
        c.run_until(ms(10_000), "UP", |c| c.state() == "probe_bw_up");
        c.run_until(ms(1000), "half as much again", |c| c.stats().in_flight.0 > 150 * 1448);
        c.link().lose(6);
        c.run_until(ms(1000), "a bound", |c| c.value("inflight_longterm_packets").is_some());
        assert_eq!(c.state(), "probe_bw_down");
        c.run_until(ms(10_000), "UP", |c| c.state() == "probe_bw_up");
        assert_eq!(c.stats().undos, 0);
        c
    }

    /// In CRUISE, some round trips after a loss there.
    pub fn that_cruises_with_bounds() -> Self {
        let mut c = Self::new();
        c.run_until(ms(10_000), "CRUISE", |c| c.state() == "probe_bw_cruise");
        c.link().lose(1);
        c.run_until(ms(1000), "bounds", |c| c.value("inflight_shortterm_packets").is_some());
        c.pipe.run_for(ms(200));
        assert_eq!((c.state(), c.stats().undos), ("probe_bw_cruise", 0));
        c
    }

    pub fn link(&self) -> RefMut<'_, Link> {
        self.link.borrow_mut()
    }

    /// The link stands still from now on for so long.
    pub fn stand_still(&self, span: Nanos) {
        self.link().standstill = self.pipe.now..self.pipe.now + span;
    }

    pub fn state(&self) -> &'static str {
        state_of(self.pipe.sender.controller())
    }

    pub fn value(&self, name: &str) -> Option<f64> {
        value_of(self.pipe.sender.controller(), name)
    }

    pub fn stats(&self) -> SenderStats {
        self.pipe.sender.stats()
    }

    /// Looks every millisecond; fails after `limit`.
    pub fn run_until(&mut self, limit: Nanos, what: &str, done: impl Fn(&Self) -> bool) {
        let end = self.pipe.now + limit;
        while !done(self) {
            assert!(self.pipe.now < end, "no {what} within {limit:?}: {} at {:?}, {:?}", self.state(), self.pipe.now, self.stats());
            self.pipe.run_for(ms(1));
        }
    }

    /// Goes on until UP is left and come back to: the states on the way, and the least long-term bound.
    pub fn through_undo(&mut self) -> (Vec<&'static str>, f64) {
        let (mut states, mut least) = (vec![self.state()], f64::INFINITY);
        let end = self.pipe.now + ms(1500);
        while states.len() < 2 || self.state() != states[0] {
            assert!(self.pipe.now < end, "{states:?}, {:?}", self.stats());
            self.pipe.run_for(ms(1));
            if states.last() != Some(&self.state()) {
                states.push(self.state());
            }
            least = self.value("inflight_longterm_packets").map_or(least, |bound| bound.min(least));
        }
        (states, least)
    }
}
