//! Shared test helpers: a hand-made ACK, and a sender, a bottleneck and a receiver as a controller sees them.

use super::registry::{self, Config, Entry};
use super::{AckSample, Congestion, Controller, LostPacket, Probe, RateSample, RecoveryState};
use bentpipe_profile::options::{OptionValue, OptionValues};
use bentpipe_profile::tunables::OptionSet;
use bentpipe_profile::{Bytes, Nanos, Rate, Streams, Time};
use std::collections::{BTreeSet, VecDeque};

pub const MSS: u32 = 1448;

pub fn config() -> Config {
    Config { mss: MSS, initial_cwnd: in_bytes(10), streams: Streams::new(1), paced: false }
}

pub fn in_bytes(packets: u64) -> Bytes {
    Bytes(packets * u64::from(MSS))
}

/// A controller with default options.
pub fn controller(name: &str) -> Box<dyn Controller> {
    registry::build(name, &config(), &OptionValues::new()).expect(name)
}

/// Returns options as a user sets them.
pub fn given(options: &[(&str, OptionValue)]) -> OptionValues {
    options.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect()
}

/// Returns a controller's typed options, those of `set` as a user sets them.
pub fn options_of<T: OptionSet>(entry: &Entry, set: &[(&str, OptionValue)]) -> T {
    T::read(&entry.declared().check(&given(set)).expect("in range"))
}

/// Returns an ACK for one packet without further information.
pub fn ack_at(now: Time) -> AckSample {
    AckSample {
        now,
        mss: MSS,
        acked: in_bytes(1),
        cumulative: in_bytes(1),
        newly_lost: Bytes::ZERO,
        rtt: None,
        srtt: Nanos::ZERO,
        min_rtt: Nanos::MAX,
        delivery: None,
        delivered_total: Bytes::ZERO,
        lost_total: Bytes::ZERO,
        tx_in_flight: Bytes::ZERO,
        lost_since_sent: Bytes::ZERO,
        prior_in_flight: Bytes::ZERO,
        in_flight: Bytes::ZERO,
        ce_count: 0,
        ack_delayed: false,
        cwnd_limited: true,
        window_full: true,
        recovery: RecoveryState::Open,
        app_limited: false,
        snd_una: 0,
        snd_nxt: 0,
        pacing_rate: Rate(0),
        next_departure: now,
    }
}

/// Returns a telemetry value of a controller by its name.
pub fn value_of(controller: &dyn Controller, name: &str) -> Option<f64> {
    struct Value<'a>(&'a str, Option<f64>);
    impl Probe for Value<'_> {
        fn value(&mut self, name: &'static str, value: f64) {
            if name == self.0 {
                self.1 = Some(value);
            }
        }
        fn state(&mut self, _name: &'static str) {}
    }
    let mut value = Value(name, None);
    controller.observe(&mut value);
    value.1
}

/// Returns the name of the state that a controller is in.
pub fn state_of(controller: &dyn Controller) -> &'static str {
    struct State(&'static str);
    impl Probe for State {
        fn value(&mut self, _name: &'static str, value: f64) {
            assert!(value.is_finite());
        }
        fn state(&mut self, name: &'static str) {
            self.0 = name;
        }
    }
    let mut state = State("");
    controller.observe(&mut state);
    state.0
}

/// One transmission, with the connection's state when it was sent (draft-cheng-iccrg-delivery-rate-estimation §3.2).
#[derive(Clone, Copy)]
struct Transmission {
    packet: u64,
    at: Time,
    delivered: u64,
    delivered_at: Time,
    first_sent_at: Time,
    in_flight: u64,
    lost: u64,
    app_limited: bool,
}

/// Token bucket: a packet takes one token to pass. A token arrives every `token_time`; at most `burst` are stored.
#[derive(Clone, Copy)]
pub struct Policer {
    pub token_time: Nanos,
    pub burst: u64,
    pub tokens: u64,
    pub since: Time,
}

/// Bulk flow over one bottleneck with an ACK per packet. Packets are lost by number of transmission or by overflow.
pub struct Driver {
    pub controller: Box<dyn Controller>,
    now: Time,
    /// Time that the bottleneck takes to send a packet.
    pub packet_time: Nanos,
    one_way: Nanos,
    /// [packets]
    pub queue_limit: u64,
    /// Numbers of the transmissions that are dropped, counted from zero.
    pub drop: BTreeSet<u64>,
    /// Drops one in so many transmissions from now on.
    pub drop_one_in: Option<u64>,
    /// Most packets that the application has outstanding; `None`: it always has more to send.
    pub app_window: Option<u64>,
    /// Delivers ACKs in batches, one in this time.
    pub ack_batch: Option<Nanos>,
    /// Token bucket before the queue.
    pub policer: Option<Policer>,
    bottleneck_free_at: Time,
    next_departure: Time,
    acks: VecDeque<(Time, u64)>,
    sent: Vec<Transmission>,
    /// Samples are application-limited until so many packets are delivered; 0: they are not.
    app_limited_until: u64,
    /// Whether the window prevented the last send.
    window_full: bool,
    outstanding: BTreeSet<u64>,
    lost: VecDeque<u64>,
    acked_packets: BTreeSet<u64>,
    next_packet: u64,
    una: u64,
    delivered: u64,
    delivered_at: Time,
    first_sent_at: Time,
    lost_total: u64,
    recovery_until: Option<u64>,
    loss_until: Time,
    srtt: Nanos,
    min_rtt: Nanos,
}

impl Driver {
    /// `packets_per_rtt`: the bandwidth-delay product.
    pub fn new(controller: Box<dyn Controller>, rtt: Nanos, packets_per_rtt: u64, queue_limit: u64) -> Self {
        let mut driver = Self {
            controller,
            now: Time::ZERO,
            packet_time: Nanos(rtt.0 / packets_per_rtt),
            one_way: Nanos(rtt.0 / 2),
            queue_limit,
            drop: BTreeSet::new(),
            drop_one_in: None,
            app_window: None,
            ack_batch: None,
            policer: None,
            app_limited_until: 0,
            window_full: false,
            bottleneck_free_at: Time::ZERO,
            next_departure: Time::ZERO,
            acks: VecDeque::new(),
            sent: Vec::new(),
            outstanding: BTreeSet::new(),
            lost: VecDeque::new(),
            acked_packets: BTreeSet::new(),
            next_packet: 0,
            una: 0,
            delivered: 0,
            delivered_at: Time::ZERO,
            first_sent_at: Time::ZERO,
            lost_total: 0,
            recovery_until: None,
            loss_until: Time::ZERO,
            srtt: rtt,
            min_rtt: rtt,
        };
        driver.controller.on_established(Time::ZERO, Some(rtt));
        driver
    }

    pub fn cwnd(&self) -> u64 {
        self.controller.cwnd().0 / u64::from(MSS)
    }

    pub const fn now(&self) -> Time {
        self.now
    }

    /// Transmissions so far.
    pub fn transmissions(&self) -> u64 {
        self.sent.len() as u64
    }

    /// Packets in flight.
    pub fn in_flight(&self) -> u64 {
        self.outstanding.len() as u64
    }

    pub fn state(&self) -> &'static str {
        state_of(&*self.controller)
    }

    pub fn value(&self, name: &str) -> Option<f64> {
        value_of(&*self.controller, name)
    }

    /// Runs until `done`, checked every millisecond, and returns how long that took. Fails after `limit`.
    pub fn run_until(&mut self, limit: Nanos, goal: &str, mut done: impl FnMut(&Self) -> bool) -> Nanos {
        let start = self.now;
        while !done(self) {
            assert!(self.now < start + limit, "no {goal} within {limit:?}: {} at {:?}", self.state(), self.now);
            self.run(self.now + Nanos::from_millis(1));
        }
        self.now.since(start)
    }

    /// Packets delivered so far.
    pub const fn delivered(&self) -> u64 {
        self.delivered
    }

    /// Loses everything in flight and reports a time-out. The sender stays in `Loss` until `repaired`; the lost packets are not retransmitted.
    pub fn time_out(&mut self, repaired: Time) {
        self.loss_until = repaired;
        self.acks.clear();
        self.outstanding.clear();
        self.lost.clear();
        self.controller.on_congestion(self.now, Congestion::Timeout, Bytes::ZERO);
    }

    /// Runs to `until`.
    pub fn run(&mut self, until: Time) {
        loop {
            self.send_allowed();
            let ack = self.acks.front().map_or(Time::MAX, |a| a.0);
            let departure = if self.may_send() { self.next_departure } else { Time::MAX };
            let next = ack.min(departure);
            assert!(next < Time::MAX || self.app_window.is_some(), "stalled at {:?} with a window of {}", self.now, self.cwnd());
            if next > until {
                self.now = until;
                return;
            }
            self.now = self.now.max(next);
            if ack == next {
                let (_, transmission) = self.acks.pop_front().expect("checked above");
                self.on_ack(transmission);
            }
        }
    }

    /// Runs, and returns the window [packets] at every multiple of `step`.
    pub fn trace(&mut self, step: Nanos, count: u64) -> Vec<u64> {
        let start = self.now;
        (1..=count)
            .map(|k| {
                self.run(start + Nanos(step.0 * k));
                self.cwnd()
            })
            .collect()
    }

    fn may_send(&self) -> bool {
        (self.outstanding.len() as u64) < self.cwnd().min(self.app_window.unwrap_or(u64::MAX))
    }

    fn send_allowed(&mut self) {
        while self.may_send() && self.next_departure <= self.now {
            let packet = self.lost.pop_front().unwrap_or_else(|| {
                self.next_packet += 1;
                self.next_packet - 1
            });
            if self.outstanding.is_empty() {
                (self.first_sent_at, self.delivered_at) = (self.now, self.now);
                if let Some(last) = self.sent.last() {
                    self.controller.on_congestion(self.now, Congestion::Restart(self.now.since(last.at)), Bytes::ZERO);
                }
            }
            let number = self.sent.len() as u64;
            self.outstanding.insert(number);
            self.sent.push(Transmission {
                packet,
                at: self.now,
                delivered: self.delivered,
                delivered_at: self.delivered_at,
                first_sent_at: self.first_sent_at,
                in_flight: self.outstanding.len() as u64,
                lost: self.lost_total,
                app_limited: self.app_limited_until > 0,
            });
            if let Some(rate) = self.controller.pacing_rate() {
                self.next_departure = self.now.max(self.next_departure) + rate.time_for(in_bytes(1));
            }
            let queued = self.bottleneck_free_at.since(self.now).0 / self.packet_time.0;
            let dropped = self.drop.contains(&number) || self.drop_one_in.is_some_and(|n| number.is_multiple_of(n));
            if queued < self.queue_limit && !dropped && self.police() {
                self.bottleneck_free_at = self.now.max(self.bottleneck_free_at) + self.packet_time;
                let mut arrives = self.bottleneck_free_at + self.one_way + self.one_way;
                if let Some(batch) = self.ack_batch {
                    arrives = Time(arrives.0.next_multiple_of(batch.0));
                }
                self.acks.push_back((arrives, number));
            }
            self.controller.on_sent(self.now, in_bytes(self.outstanding.len() as u64), self.app_limited_until > 0);
        }
        let outstanding = self.outstanding.len() as u64;
        self.window_full = outstanding >= self.cwnd();
        if !self.window_full && self.app_window.is_some_and(|limit| outstanding >= limit) {
            self.app_limited_until = (self.delivered + outstanding).max(1);
            self.controller.on_sent(self.now, in_bytes(outstanding), true);
        }
    }

    /// Returns whether the policer, if there is one, passes a packet.
    fn police(&mut self) -> bool {
        let Some(policer) = &mut self.policer else { return true };
        let earned = self.now.since(policer.since).0 / policer.token_time.0;
        policer.since = policer.since + Nanos(earned * policer.token_time.0);
        policer.tokens = (policer.tokens + earned).min(policer.burst);
        let passes = policer.tokens > 0;
        policer.tokens -= u64::from(passes);
        passes
    }

    fn on_ack(&mut self, transmission: u64) {
        let sent = self.sent[usize::try_from(transmission).expect("an index")];
        let prior_in_flight = self.outstanding.len() as u64;
        self.outstanding.remove(&transmission);
        self.acked_packets.insert(sent.packet);
        self.delivered += 1;
        if self.delivered > self.app_limited_until {
            self.app_limited_until = 0;
        }
        self.delivered_at = self.now;
        self.first_sent_at = sent.at;
        let rtt = self.now.since(sent.at);
        self.srtt = Nanos(self.srtt.0 - self.srtt.0 / 8 + rtt.0 / 8);
        self.min_rtt = self.min_rtt.min(rtt);
        while self.acked_packets.remove(&self.una) {
            self.una += 1;
        }
        // Marks a packet lost once three later transmissions have arrived: RFC 8985 without its timer.
        let lost: Vec<u64> = self.outstanding.range(..transmission.saturating_sub(2)).copied().collect();
        for number in &lost {
            self.outstanding.remove(number);
            let sent = self.sent[usize::try_from(*number).expect("an index")];
            self.lost.push_back(sent.packet);
            self.lost_total += 1;
            self.controller.on_packet_lost(&LostPacket {
                now: self.now,
                seq: in_bytes(sent.packet).0,
                bytes: in_bytes(1),
                sent_at: sent.at,
                tx_in_flight: in_bytes(sent.in_flight),
                delivered_at_send: in_bytes(sent.delivered),
                lost_at_send: in_bytes(sent.lost),
                lost_total: in_bytes(self.lost_total),
                delivered_total: in_bytes(self.delivered),
                app_limited: sent.app_limited,
            });
        }
        self.update_recovery(!lost.is_empty());
        let interval = sent.at.since(sent.first_sent_at).max(self.now.since(sent.delivered_at));
        let ack = AckSample {
            newly_lost: in_bytes(lost.len() as u64),
            rtt: Some(rtt),
            srtt: self.srtt,
            min_rtt: self.min_rtt,
            delivery: (interval >= self.min_rtt).then(|| RateSample {
                prior_delivered: in_bytes(sent.delivered),
                delivered: in_bytes(self.delivered - sent.delivered),
                interval,
                app_limited: sent.app_limited,
            }),
            delivered_total: in_bytes(self.delivered),
            lost_total: in_bytes(self.lost_total),
            tx_in_flight: in_bytes(sent.in_flight),
            lost_since_sent: in_bytes(self.lost_total - sent.lost),
            window_full: self.window_full,
            app_limited: self.app_limited_until > 0,
            prior_in_flight: in_bytes(prior_in_flight),
            in_flight: in_bytes(self.outstanding.len() as u64),
            recovery: if self.now < self.loss_until {
                RecoveryState::Loss
            } else if self.recovery_until.is_some() {
                RecoveryState::Recovery
            } else {
                RecoveryState::Open
            },
            snd_una: in_bytes(self.una).0,
            snd_nxt: in_bytes(self.next_packet).0,
            pacing_rate: Rate::of(Bytes(self.controller.cwnd().0 * 2), self.srtt),
            next_departure: self.next_departure.max(self.now),
            ..ack_at(self.now)
        };
        self.controller.on_acked(&ack);
        if self.controller.controls_recovery() || self.recovery_until.is_none() {
            self.controller.on_ack(&ack);
        }
    }

    /// Enters or leaves recovery. A window-based controller's window falls to its threshold at once: PRR belongs to the sender and is tested there.
    fn update_recovery(&mut self, lossy: bool) {
        let in_flight = in_bytes(self.outstanding.len() as u64);
        if self.recovery_until.is_some_and(|until| self.una >= until) {
            self.recovery_until = None;
            self.controller.on_congestion(self.now, Congestion::RecoveryEnd, in_flight);
        }
        if lossy && self.recovery_until.is_none() {
            self.recovery_until = Some(self.next_packet);
            self.controller.on_congestion(self.now, Congestion::Loss, in_flight);
            if !self.controller.controls_recovery() {
                self.controller.set_cwnd(self.controller.ssthresh());
            }
        }
    }
}
