//! Tests A.18, A.19 and A.21 of draft-ietf-ccwg-bbr-06, appendix A, with the sender's loss detection, timers and undo: a link of 0.4 ms per
//! packet, and 20 ms each way.

use super::*;
use crate::sender::Sender;
use crate::stats::SenderStats;
use crate::wire::Segment;
use bentpipe_cc::{Probe, registry};
use bentpipe_profile::Streams;
use std::cell::{RefCell, RefMut};
use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;

const PACKET: Nanos = Nanos::from_micros(400);

/// A FIFO link that loses or delays packets as a test requests.
struct Link {
    free_at: Time,
    stall: Range<Time>,
    lost: u32,
    delayed: u32,
    by: Nanos,
}

impl Link {
    /// Drop the next `packets` original segments.
    const fn lose(&mut self, packets: u32) {
        self.lost = packets;
    }

    /// Delay the next `packets` original segments by `by` beyond their turn, so that others overtake them.
    const fn delay(&mut self, packets: u32, by: Nanos) {
        self.delayed = packets;
        self.by = by;
    }

    fn fate(&mut self, segment: &Segment) -> Fate {
        let sent_at = segment.tsval;
        if !segment.retransmission && self.lost > 0 {
            self.lost -= 1;
            return Fate::Drop;
        }
        let turn = self.free_at.max(sent_at);
        let turn = if self.stall.contains(&turn) { self.stall.end } else { turn };
        self.free_at = turn + PACKET;
        let late = if !segment.retransmission && self.delayed > 0 {
            self.delayed -= 1;
            self.by
        } else {
            Nanos::ZERO
        };
        Fate::Late(self.free_at.since(sent_at) + late)
    }
}

/// The controller's state, and one of its observed values.
struct ControllerView<'a> {
    name: &'a str,
    value: Option<f64>,
    state: &'static str,
}

impl Probe for ControllerView<'_> {
    fn value(&mut self, name: &'static str, value: f64) {
        if name == self.name {
            self.value = Some(value);
        }
    }

    fn state(&mut self, name: &'static str) {
        self.state = name;
    }
}

/// A bulk flow over the link.
struct Connection {
    pipe: Pipe,
    link: Rc<RefCell<Link>>,
}

impl Connection {
    fn new() -> Self {
        let idle = Link { free_at: Time::ZERO, stall: Time::ZERO..Time::ZERO, lost: 0, delayed: 0, by: Nanos::ZERO };
        let link = Rc::new(RefCell::new(idle));
        let path = Rc::clone(&link);
        let config = SenderConfig::default();
        // No PROBE_RTT during the test.
        let options = BTreeMap::from([("probe_rtt_win_ms".to_owned(), 60_000.0.into())]);
        let controller = registry::build("bbr3", &config.controller_config(Streams::new(1)), &options).expect("in range");
        let mut pipe = Pipe::new(FixedWindow::new(10)).data(move |segment, _| path.borrow_mut().fate(segment));
        pipe.sender = Sender::new(config, controller);
        pipe.one_way = ms(20);
        Self { pipe: pipe.bulk(), link }
    }

    /// A connection at the start of its second `PROBE_BW_UP`. Losses ended the first, with one and a half BDP in flight.
    fn in_second_probe_up() -> Self {
        let mut c = Self::new();
        c.run_until(ms(10_000), "UP", |c| c.state() == "probe_bw_up");
        c.run_until(ms(1000), "1.5 BDP in flight", |c| c.stats().in_flight.0 > 150 * 1448);
        c.link().lose(6);
        c.run_until(ms(1000), "a bound", |c| c.value("inflight_longterm_packets").is_some());
        assert_eq!(c.state(), "probe_bw_down");
        c.run_until(ms(10_000), "UP", |c| c.state() == "probe_bw_up");
        assert_eq!(c.stats().undos, 0);
        c
    }

    /// A connection in `PROBE_BW_CRUISE`, some RTTs after a loss there.
    fn in_cruise_with_bounds() -> Self {
        let mut c = Self::new();
        c.run_until(ms(10_000), "CRUISE", |c| c.state() == "probe_bw_cruise");
        c.link().lose(1);
        c.run_until(ms(1000), "bounds", |c| c.value("inflight_shortterm_packets").is_some());
        c.pipe.run_for(ms(200));
        assert_eq!((c.state(), c.stats().undos), ("probe_bw_cruise", 0));
        c
    }

    fn link(&self) -> RefMut<'_, Link> {
        self.link.borrow_mut()
    }

    /// Stall the link from now on for `span`.
    fn stall_for(&self, span: Nanos) {
        self.link().stall = self.pipe.now..self.pipe.now + span;
    }

    fn state(&self) -> &'static str {
        self.observed("").state
    }

    fn value(&self, name: &str) -> Option<f64> {
        self.observed(name).value
    }

    fn observed<'a>(&self, name: &'a str) -> ControllerView<'a> {
        let mut observed = ControllerView { name, value: None, state: "" };
        self.pipe.sender.controller().observe(&mut observed);
        observed
    }

    fn stats(&self) -> SenderStats {
        self.pipe.sender.stats()
    }

    /// Run until `done` holds, checked every millisecond; fail after `limit`.
    fn run_until(&mut self, limit: Nanos, goal: &str, done: impl Fn(&Self) -> bool) {
        let end = self.pipe.now + limit;
        while !done(self) {
            assert!(self.pipe.now < end, "no {goal} within {limit:?}: {} at {:?}, {:?}", self.state(), self.pipe.now, self.stats());
            self.pipe.run_for(ms(1));
        }
    }

    /// Run until UP is left and entered once more. Returns the states in between and the least long-term bound.
    fn through_undo(&mut self) -> (Vec<&'static str>, f64) {
        let (mut states, mut min_bound) = (vec![self.state()], f64::INFINITY);
        let end = self.pipe.now + ms(1500);
        while states.len() < 2 || self.state() != states[0] {
            assert!(self.pipe.now < end, "{states:?}, {:?}", self.stats());
            self.pipe.run_for(ms(1));
            if states.last() != Some(&self.state()) {
                states.push(self.state());
            }
            min_bound = self.value("inflight_longterm_packets").map_or(min_bound, |bound| bound.min(min_bound));
        }
        (states, min_bound)
    }
}

/// Four packets of a flight in UP are overtaken, first by 15 ms of other packets: timestamps show it before the retransmissions arrive. Then
/// by more than an RTT: DSACKs show it after recovery. Then, in CRUISE, one packet is overtaken by more than an RTT: its loss bounds rate and
/// flight before a DSACK shows that it was spurious.
#[test]
fn a_18_handling_spurious_fast_recovery() {
    for (by, between) in [(ms(15), vec![]), (ms(60), vec!["probe_bw_cruise"])] {
        let mut c = Connection::in_second_probe_up();
        let before = c.value("inflight_longterm_packets").expect("a loss set it");
        c.link().delay(4, by);
        let (states, min_bound) = c.through_undo();
        assert_eq!(states, [vec!["probe_bw_up", "probe_bw_down"], between, vec!["probe_bw_refill", "probe_bw_up"]].concat());
        assert!(min_bound < before && c.value("inflight_longterm_packets") >= Some(before), "{min_bound} of {before}");
        assert_eq!((c.stats().undos, c.stats().timeouts), (1, 0));
    }

    let mut c = Connection::in_cruise_with_bounds();
    let bounds = |c: &Connection| (c.value("inflight_shortterm_packets").expect("bounded"), c.value("bw_shortterm_bps").expect("bounded"));
    let before = bounds(&c);
    c.link().delay(1, ms(60));
    c.run_until(ms(200), "tighter bounds", |c| bounds(c).0 < before.0);
    assert_eq!(c.stats().undos, 0);
    c.run_until(ms(200), "undo", |c| c.stats().undos == 1);
    assert_eq!((bounds(&c), c.state()), (before, "probe_bw_cruise"));
}

/// The link stalls in UP for longer than the RTO and then delivers what waits; the retransmissions come last.
#[test]
fn a_19_handling_spurious_rto_recovery() {
    let mut c = Connection::in_second_probe_up();
    let before = c.value("inflight_longterm_packets").expect("a loss set it");
    c.stall_for(ms(600));
    let (states, min_bound) = c.through_undo();
    assert_eq!(states, ["probe_bw_up", "probe_bw_down", "probe_bw_refill", "probe_bw_up"]);
    assert!(min_bound < before && c.value("inflight_longterm_packets") >= Some(before), "{min_bound} of {before}");
    assert_eq!((c.stats().undos, c.stats().timeouts), (1, 1));
}

#[test]
fn a_21_handling_loss_during_probe_up_after_inflight_longterm_is_set() {
    let mut c = Connection::in_second_probe_up();
    let before = c.value("inflight_longterm_packets").expect("a loss set it");
    c.link().lose(6);
    c.run_until(ms(100), "end of UP", |c| c.state() != "probe_bw_up");
    let after = c.value("inflight_longterm_packets").expect("bounded");
    assert_eq!(c.state(), "probe_bw_down");
    assert!((70.0..before).contains(&after), "{after} of {before}");
}
