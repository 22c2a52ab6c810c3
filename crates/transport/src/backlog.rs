//! What happens within an instant at which many acknowledgements arrive, as grants let them go: they are taken one after the other, and the application, which
//! one of them lets write, runs on another processor.
//!
//! Source: Linux `tcp_check_space`, `tcp_new_space` (`net/ipv4/tcp_input.c`), `tcp_v4_rcv`, `tcp_add_backlog` (`net/ipv4/tcp_ipv4.c`). Three things follow from it:
//!
//! - The send buffer stops to grow when it lets the application write, until that has run and found it full again.
//! - What arrives while `sendmsg` holds the socket is queued, and an acknowledgement that says nothing new but a higher number is joined to the one before it
//!   (`TCPBacklogCoalesce`). Joined ones have one RTT, and `HyStart` wants nine a round before it leaves slow start.
//! - What was written meanwhile leaves with the acknowledgements that come behind.
//!
//! Measured with the kernel's events `tcp_probe`, `tcp_sendmsg_locked`, `sched_wakeup` and of the system calls (Linux 6.18, two virtual processors, CUBIC behind
//! grants): 7 to 11 µs from one acknowledgement to the next where it is taken, 2 where it is queued; a piece of 128 kB takes 8 to 50 µs, half of them less than 19.
//! Of 92 wake-ups 56 were on the processor that took the acknowledgements, where the application has to wait until all are taken; elsewhere `poll` returned after
//! 10 to some 100 µs.

use crate::wire::Ack;
use bentpipe_profile::rng::Stream;
use bentpipe_profile::{Nanos, Streams, Time};
use std::collections::VecDeque;

/// What the kernel needs to take one and to send what it lets go, and to queue one.
const TAKEN: Nanos = Nanos::from_micros(9);
const QUEUED: Nanos = Nanos::from_micros(2);

/// How often the application wakes up on another processor, and how long that takes: at least, and the mean of what comes on top (exponential).
const ELSEWHERE: f64 = 0.4;
const WAKE_LEAST: Nanos = Nanos::from_micros(15);
const WAKE_MORE: Nanos = Nanos::from_micros(25);

/// What `sendmsg` copies, and sends, meanwhile [bytes/µs].
const BYTES_PER_MICRO: u64 = 7_000;

/// See the module.
#[derive(Clone, Debug)]
pub struct Backlog {
    wakes: Option<Stream>,
    /// The instant, the time within it at which the newest acknowledgement came, and when the next can; whether there is another.
    at: Time,
    came: Nanos,
    next: Nanos,
    amid: bool,
    /// When the application runs, if it was woken and has not written yet; and from when to when it holds the socket, for each piece that it writes.
    woken: Option<Nanos>,
    held: VecDeque<(Nanos, Nanos)>,
}

impl Backlog {
    /// Wake-ups are drawn from `streams`; None: an application that takes no time.
    pub fn new(streams: Option<Streams>) -> Self {
        Self {
            wakes: streams.map(|streams| streams.stream("backlog")),
            at: Time::ZERO,
            came: Nanos::ZERO,
            next: Nanos::ZERO,
            amid: false,
            woken: None,
            held: VecDeque::new(),
        }
    }

    /// An acknowledgement arrives; `amid`: another is behind it, at the same instant. Whether the application, woken by an earlier one, has its turn before it.
    pub fn on_ack(&mut self, now: Time, amid: bool) -> bool {
        if now > self.at {
            (self.at, self.next, self.woken) = (now, Nanos::ZERO, None);
            self.held.clear();
        }
        (self.came, self.amid) = (self.next, amid);
        self.next = self.came + TAKEN;
        self.woken.is_some_and(|runs| runs <= self.came)
    }

    /// Whether the acknowledgement that just arrived is queued, and will then be part of the one `behind` it.
    pub fn joins(&mut self, ack: &Ack, behind: Option<&Ack>) -> bool {
        while self.held.front().is_some_and(|&(_, end)| end <= self.came) {
            self.held.pop_front();
        }
        let Some(&(_, end)) = self.held.front().filter(|&&(begin, _)| begin <= self.came) else { return false };
        self.next = self.came + QUEUED;
        // The one behind it must come before the application lets go.
        self.next < end && behind.is_some_and(|behind| ack.joins(behind))
    }

    /// Whether the application, which may write now, has to wake up first, since there is more to take meanwhile.
    pub fn wakes(&mut self, now: Time) -> bool {
        let Some(wakes) = self.wakes.as_mut().filter(|_| self.amid && now == self.at) else { return false };
        if self.woken.is_none() {
            let elsewhere = wakes.uniform() < ELSEWHERE;
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss)] // some µs
            let more = Nanos(wakes.exponential(WAKE_MORE.0 as f64) as u64);
            self.woken = Some(if elsewhere { self.came + WAKE_LEAST + more } else { Nanos::MAX });
        }
        true
    }

    /// The application writes so many bytes in one call, and holds the socket; with nothing to come meanwhile that says nothing.
    pub fn on_write(&mut self, bytes: u64) {
        let woken = self.woken.take();
        if self.wakes.is_none() || !self.amid {
            return;
        }
        // One piece after the other, also where it is woken while it still writes.
        let free = self.held.back().map_or(Nanos::ZERO, |&(_, end)| end);
        let begin = woken.unwrap_or(self.came).max(free);
        self.held.push_back((begin, begin + Nanos(1_000 * bytes / BYTES_PER_MICRO)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bentpipe_profile::Bytes;

    const NOW: Time = Time(5_000_000_000);

    /// Each with another window: that may differ.
    fn ack(number: u64) -> Ack {
        Ack { window: Bytes(100_000 + number), ..Ack::plain(NOW, number) }
    }

    /// Acknowledgements that are taken, of so many at one instant; the first wakes the application, which writes pieces of so many bytes.
    fn taken(backlog: &mut Backlog, now: Time, acks: u64, pieces: &[u64]) -> Vec<u64> {
        let mut found = Vec::new();
        for n in 1..=acks {
            let behind = (n < acks).then(|| ack(n + 1));
            if backlog.on_ack(now, behind.is_some()) {
                for &bytes in pieces {
                    backlog.on_write(bytes);
                }
            }
            if !backlog.joins(&ack(n), behind.as_ref()) {
                found.push(n);
                assert!(n > 1 || pieces.is_empty() || backlog.wakes(now) == (acks > 1 && backlog.wakes.is_some()));
            }
        }
        found
    }

    #[test]
    fn those_that_come_while_the_application_copies_are_one_a_piece() {
        // 120 µs a piece, in which 60 are queued.
        let piece = 120 * BYTES_PER_MICRO;
        let mut backlog = Backlog::new(Some(Streams::new(1)));
        let (mut before, mut elsewhere) = (0, 0);
        for instant in 0..1000 {
            let found = taken(&mut backlog, Time(NOW.0 + instant), 400, &[piece, piece]);
            let gaps: Vec<u64> = found.windows(2).map(|w| w[1] - w[0]).filter(|&gap| gap > 1).collect();
            if gaps.is_empty() {
                continue;
            }
            elsewhere += 1;
            assert!(gaps.len() == 2 && gaps.iter().all(|gap| (55..=61).contains(gap)), "{gaps:?}");
            before += found.windows(2).position(|w| w[1] - w[0] > 1).unwrap_or(400);
        }
        // The one that woke it, and those of the 40 µs of its wake-up; one that comes amid counts.
        assert!((370..430).contains(&(100 * before / elsewhere)), "{before} before {elsewhere} writes");
        assert!((350..450).contains(&elsewhere), "the others' processor was not free: {elsewhere}");
    }

    #[test]
    fn what_comes_alone_or_wakes_nobody_is_taken_at_once() {
        let mut backlog = Backlog::new(Some(Streams::new(1)));
        assert_eq!(taken(&mut backlog, NOW, 100, &[]).len(), 100);
        for later in 1..100 {
            assert!(!backlog.on_ack(Time(NOW.0 + later), false) && !backlog.joins(&ack(later), None));
            assert!(!backlog.wakes(Time(NOW.0 + later)), "with nothing behind it writes at once");
            backlog.on_write(1 << 20);
        }
        assert_eq!(taken(&mut Backlog::new(None), NOW, 100, &[1 << 20]).len(), 100, "an application that takes no time");
    }

    #[test]
    fn an_application_that_takes_no_time_holds_nothing() {
        let mut backlog = Backlog::new(None);
        for n in 1..100 {
            assert!(!backlog.on_ack(NOW, true) && !backlog.joins(&ack(n), Some(&ack(n + 1))) && !backlog.wakes(NOW));
            backlog.on_write(1 << 20);
        }
    }

    #[test]
    fn pieces_follow_one_another_also_where_it_is_woken_while_it_writes() {
        let piece = 100 * BYTES_PER_MICRO;
        for seed in 0..50 {
            let mut backlog = Backlog::new(Some(Streams::new(seed)));
            backlog.on_ack(NOW, true);
            for _ in 0..3 {
                assert!(backlog.wakes(NOW));
                if backlog.woken == Some(Nanos::MAX) {
                    break; // on this processor: when all are taken
                }
                backlog.on_write(piece);
            }
            assert!(backlog.held.iter().zip(backlog.held.iter().skip(1)).all(|(a, b)| a.1 <= b.0), "{:?}", backlog.held);
            backlog.on_ack(Time(NOW.0 + 1), true);
            assert!(backlog.held.is_empty() && backlog.woken.is_none());
        }
    }

    #[test]
    fn only_those_that_say_nothing_else_are_joined() {
        let joins = |change: fn(&mut Ack)| {
            let mut other = ack(2);
            change(&mut other);
            ack(1).joins(&other)
        };
        assert!(joins(|_| ()));
        assert!(joins(|a| a.tsval = NOW + Nanos::from_micros(900)), "the same millisecond");
        assert!(!joins(|a| a.tsval = NOW + Nanos::from_millis(1)));
        assert!(!joins(|a| a.ts_ecr = Time(NOW.0 - 1)));
        assert!(!joins(|a| a.ece = true));
        assert!(!joins(|a| a.ce_count = 1));
        assert!(!joins(|a| a.dsack = true));
        assert!(!joins(|a| a.ack = 0), "an older one");
    }
}
