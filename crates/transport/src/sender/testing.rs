//! A sender and a receiver joined by a pipe that loses, delays, duplicates and marks packets as a test requests.

use crate::config::{ReceiverConfig, SenderConfig};
use crate::receiver::Receiver;
use crate::sender::Sender;
use crate::wire::{Ack, Segment};
use bentpipe_cc::{AckSample, Congestion, Controller, Probe};
use bentpipe_profile::rng::{keyed_u64, unit_f64};
use bentpipe_profile::{Bytes, Nanos, Rate, Time};
use proptest::prelude::*;
use std::collections::BTreeMap;

pub const MSS: u64 = 1448;

pub const fn ms(n: u64) -> Nanos {
    Nanos::from_millis(n)
}

/// A controller with a constant window, except for what the sender sets: halved in recovery.
pub struct FixedWindow {
    pub cwnd: u64,
    pub ssthresh: u64,
    pub rate: Option<Rate>,
    pub owns_recovery: bool,
    pub prior: (u64, u64),
    pub acks: u64,
    /// Windows of room in the send buffer.
    pub factor: u32,
}

impl FixedWindow {
    pub fn new(packets: u64) -> Self {
        Self {
            cwnd: packets,
            ssthresh: u64::MAX / MSS,
            rate: None,
            owns_recovery: false,
            prior: (packets, u64::MAX / MSS),
            acks: 0,
            factor: 2,
        }
    }
}

impl Controller for FixedWindow {
    fn on_established(&mut self, _now: Time, _rtt: Option<Nanos>) {}
    fn on_ack(&mut self, _ack: &AckSample) {
        self.acks += 1;
    }
    fn on_congestion(&mut self, _now: Time, event: Congestion, _in_flight: Bytes) {
        match event {
            Congestion::Loss | Congestion::Ecn | Congestion::Timeout => {
                self.prior = (self.cwnd, self.ssthresh);
                self.ssthresh = (self.cwnd / 2).max(2);
            }
            Congestion::Undo => {
                self.cwnd = self.cwnd.max(self.prior.0);
                self.ssthresh = self.ssthresh.max(self.prior.1);
            }
            _ => {}
        }
    }
    fn cwnd(&self) -> Bytes {
        Bytes(self.cwnd * MSS)
    }
    fn set_cwnd(&mut self, cwnd: Bytes) {
        self.cwnd = cwnd.0 / MSS;
    }
    fn ssthresh(&self) -> Bytes {
        Bytes(self.ssthresh.saturating_mul(MSS))
    }
    fn sndbuf_factor(&self) -> u32 {
        self.factor
    }
    fn set_ssthresh(&mut self, ssthresh: Bytes) {
        self.ssthresh = ssthresh.0 / MSS;
    }
    fn pacing_rate(&self) -> Option<Rate> {
        self.rate
    }
    fn controls_recovery(&self) -> bool {
        self.owns_recovery
    }
    fn observe(&self, probe: &mut dyn Probe) {
        probe.value("acks", self.acks as f64);
    }
}

/// Fate of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    Deliver,
    Drop,
    Late(Nanos),
    Twice(Nanos),
    Mark,
}

enum Event {
    Data(Segment, bool),
    Ack(Ack),
}

impl Event {
    const fn ack(&self) -> Option<&Ack> {
        if let Self::Ack(ack) = self { Some(ack) } else { None }
    }
}

type DataFate = Box<dyn FnMut(&Segment, usize) -> Fate>;
type AckFate = Box<dyn FnMut(&Ack, usize) -> Fate>;

pub struct Pipe {
    pub sender: Sender,
    pub receiver: Receiver,
    pub now: Time,
    pub one_way: Nanos,
    /// Every segment sent except the SYN.
    pub sent: Vec<(Time, Segment)>,
    /// Every acknowledgement sent except the SYN-ACK.
    pub acks: Vec<(Time, Ack)>,
    /// Acknowledgements that the sender coalesced into the next one.
    pub deferred: u64,
    data_fate: DataFate,
    ack_fate: AckFate,
    events: BTreeMap<(Time, u64), Event>,
    order: u64,
}

impl Pipe {
    pub fn new(controller: impl Controller + 'static) -> Self {
        Self::with(SenderConfig::default(), ReceiverConfig::default(), controller)
    }

    pub fn with(config: SenderConfig, receiver: ReceiverConfig, controller: impl Controller + 'static) -> Self {
        Self {
            sender: Sender::new(config, Box::new(controller)),
            receiver: Receiver::new(receiver),
            now: Time::ZERO,
            one_way: ms(25),
            sent: Vec::new(),
            acks: Vec::new(),
            deferred: 0,
            data_fate: Box::new(|_, _| Fate::Deliver),
            ack_fate: Box::new(|_, _| Fate::Deliver),
            events: BTreeMap::new(),
            order: 0,
        }
    }

    /// Set the function that decides the fate of the n-th segment.
    pub fn data(mut self, fate: impl FnMut(&Segment, usize) -> Fate + 'static) -> Self {
        self.data_fate = Box::new(fate);
        self
    }

    /// Set the function that decides the fate of the n-th acknowledgement.
    pub fn acks(mut self, fate: impl FnMut(&Ack, usize) -> Fate + 'static) -> Self {
        self.ack_fate = Box::new(fate);
        self
    }

    /// Open the connection, offer `bytes` and close.
    pub fn transfer(mut self, bytes: u64) -> Self {
        self.sender.open(self.now);
        self.sender.app_write(self.now, Bytes(bytes));
        self.sender.app_close();
        self
    }

    /// Open the connection with unlimited data.
    pub fn bulk(mut self) -> Self {
        self.sender.open(self.now);
        self.sender.app_write(self.now, Bytes::MAX);
        self
    }

    pub fn run_for(&mut self, span: Nanos) -> &mut Self {
        let end = self.now + span;
        self.drain();
        while let Some(at) = self.next_at().filter(|&at| at <= end) {
            self.step(at);
        }
        self.now = end;
        self
    }

    /// Run until everything is acknowledged and return the time it took.
    pub fn finish(&mut self) -> Nanos {
        self.drain();
        while !self.sender.is_done() {
            let at = self.next_at().expect("a packet is in flight, or a timer is set");
            assert!(at < Time::ZERO + Nanos::from_secs(1_000_000), "the transfer does not end: {:?}", self.sender.stats());
            self.step(at);
        }
        self.now.since(Time::ZERO)
    }

    fn next_at(&self) -> Option<Time> {
        let event = self.events.keys().next().map(|k| k.0);
        [event, self.sender.wake_at(), self.receiver.wake_at()].into_iter().flatten().min()
    }

    pub fn step(&mut self, at: Time) {
        self.now = self.now.max(at);
        let at = self.now;
        if let Some(event) = self.events.first_entry().filter(|e| e.key().0 <= at).map(std::collections::btree_map::OccupiedEntry::remove) {
            match event {
                Event::Data(segment, _) if segment.syn => {
                    let syn_ack = self.receiver.on_syn(at, &segment);
                    self.send_ack(syn_ack);
                }
                Event::Data(segment, ce) => {
                    for ack in self.receiver.on_segment(at, &segment, ce, None, true).into_iter().flatten() {
                        self.send_ack(ack);
                    }
                }
                Event::Ack(ack) => {
                    let next = self.events.first_key_value().filter(|(key, _)| key.0 <= at).and_then(|(_, event)| event.ack());
                    if self.sender.defers_ack(at, &ack, next) {
                        self.deferred += 1;
                    } else {
                        self.sender.on_ack(at, &ack);
                    }
                }
            }
        }
        if self.receiver.wake_at().is_some_and(|wake| wake <= at)
            && let Some(ack) = self.receiver.on_wake(at)
        {
            self.send_ack(ack);
        }
        if self.sender.wake_at().is_some_and(|wake| wake <= at) {
            self.sender.on_wake(at);
        }
        self.drain();
        assert!(self.sender.wake_at().is_none_or(|wake| wake > at), "the sender would wake at once, for ever");
    }

    pub fn drain(&mut self) {
        while let Some(segment) = self.sender.poll_transmit(self.now) {
            let fate = if segment.syn {
                Fate::Deliver
            } else {
                self.sent.push((self.now, segment));
                (self.data_fate)(&segment, self.sent.len() - 1)
            };
            self.schedule(fate, |ce| Event::Data(segment, ce));
        }
    }

    fn send_ack(&mut self, ack: Ack) {
        let fate = if ack.syn {
            Fate::Deliver
        } else {
            self.acks.push((self.now, ack));
            (self.ack_fate)(&ack, self.acks.len() - 1)
        };
        self.schedule(fate, |_| Event::Ack(ack));
    }

    fn schedule(&mut self, fate: Fate, event: impl Fn(bool) -> Event) {
        let mut at = |extra: Nanos, ce: bool| {
            self.order += 1;
            self.events.insert((self.now + self.one_way + extra, self.order), event(ce));
        };
        match fate {
            Fate::Deliver => at(Nanos::ZERO, false),
            Fate::Drop => {}
            Fate::Late(extra) => at(extra, false),
            Fate::Twice(extra) => {
                at(Nanos::ZERO, false);
                at(extra, false);
            }
            Fate::Mark => at(Nanos::ZERO, true),
        }
    }

    /// Return the times at which the segment at `seq` was sent.
    pub fn times_sent(&self, seq: u64) -> Vec<Time> {
        self.sent.iter().filter(|(_, s)| s.seq == seq).map(|&(at, _)| at).collect()
    }

    pub fn events(&mut self) -> Vec<(Time, crate::stats::FlowEvent)> {
        std::iter::from_fn(|| self.sender.next_event()).collect()
    }
}

/// A path that loses, delays and duplicates packets with the given probabilities, in both directions.
#[derive(Clone, Copy, Debug)]
pub struct Path {
    pub seed: u64,
    pub loss: f64,
    pub late: f64,
    pub duplicate: f64,
    pub ack_loss: f64,
    pub spread_us: u64,
}

impl Path {
    /// Return the fate of the n-th packet of a kind.
    pub fn fate(self, key: u64, n: usize, loss: f64) -> Fate {
        let draw = |salt: u64| unit_f64(keyed_u64(self.seed ^ key ^ salt, n as u64));
        let extra = Nanos::from_secs_f64(draw(4) * self.spread_us as f64 * 1e-6).expect("in range");
        if draw(1) < loss {
            Fate::Drop
        } else if draw(2) < self.late {
            Fate::Late(extra)
        } else if draw(3) < self.duplicate {
            Fate::Twice(extra)
        } else {
            Fate::Deliver
        }
    }
}

/// Any path.
pub fn path() -> impl Strategy<Value = Path> {
    let fraction = prop_oneof![Just(0.0), 0.0..0.05, 0.0..0.4];
    (any::<u64>(), fraction.clone(), fraction.clone(), fraction.clone(), fraction, 0_u64..200_000)
        .prop_map(|(seed, loss, late, duplicate, ack_loss, spread_us)| Path { seed, loss, late, duplicate, ack_loss, spread_us })
}
