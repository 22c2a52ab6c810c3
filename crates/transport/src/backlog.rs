//! Socket backlog: acknowledgements that arrive at one instant, as after a grant, while the application writes on another processor.
//!
//! The kernel processes such acknowledgements one after the other. Source: Linux `tcp_check_space`, `tcp_new_space` (`net/ipv4/tcp_input.c`),
//! `tcp_v4_rcv`, `tcp_add_backlog` (`net/ipv4/tcp_ipv4.c`). Three effects follow:
//! - The send buffer stops growing when it wakes the application, until the application has run and filled it again.
//! - While `sendmsg` owns the socket, arriving acknowledgements are queued. One that only advances the ACK number is coalesced with the one
//!   before it (`TCPBacklogCoalesce`). Coalesced ones give one RTT sample, and `HyStart` needs nine per round before it leaves slow start.
//! - Data written meanwhile leaves with the acknowledgements that follow.
//!
//! Measured with the kernel's events `tcp_probe`, `tcp_sendmsg_locked`, `sched_wakeup` and those of the system calls (Linux 6.18, two virtual
//! processors, CUBIC behind grants). From one acknowledgement to the next: 7 to 11 µs where it is processed, 2 µs where it is queued. A write
//! of 128 kB takes 8 to 50 µs, half of them less than 19. Of 92 wake-ups 56 were on the processor that processes the acknowledgements, where
//! the application waits until all are processed; on the other one `poll` returned after 10 to some 100 µs.

use crate::host_timing::{DrawnTimes, HostTimes};
use crate::wire::Ack;
use bentpipe_profile::rng::Stream;
use bentpipe_profile::{Nanos, Time};
use std::collections::VecDeque;

/// Acknowledgements and application writes within one instant; see the module's documentation.
#[derive(Clone, Debug)]
pub struct Backlog {
    /// The model's times and the stream of wake-up times; `None`: an application that takes no time.
    host: Option<(HostTimes, Stream)>,
    /// The current instant; within it, the arrival of the newest acknowledgement and the earliest arrival of the next; whether more follow.
    at: Time,
    arrived_at: Nanos,
    next_arrival: Nanos,
    more_follow: bool,
    /// Time at which the woken application runs, if it has not written yet; and the spans in which it owns the socket, one per write.
    app_runs_at: Option<Nanos>,
    sock_owned: VecDeque<(Nanos, Nanos)>,
}

impl Backlog {
    /// Create a backlog of a host with these times; `None`: an application that takes no time.
    pub fn new(drawn: Option<DrawnTimes>) -> Self {
        Self {
            host: drawn.map(|drawn| (drawn.times, drawn.streams.stream("backlog"))),
            at: Time::ZERO,
            arrived_at: Nanos::ZERO,
            next_arrival: Nanos::ZERO,
            more_follow: false,
            app_runs_at: None,
            sock_owned: VecDeque::new(),
        }
    }

    /// Process the arrival of an acknowledgement; `more_follow`: another arrives at the same instant. Returns whether the application, woken
    /// by an earlier one, runs first.
    pub fn on_ack(&mut self, now: Time, more_follow: bool) -> bool {
        if now > self.at {
            (self.at, self.next_arrival, self.app_runs_at) = (now, Nanos::ZERO, None);
            self.sock_owned.clear();
        }
        (self.arrived_at, self.more_follow) = (self.next_arrival, more_follow);
        self.next_arrival = self.arrived_at + self.host.as_ref().map_or(Nanos::ZERO, |(times, _)| times.ack_processing);
        self.app_runs_at.is_some_and(|runs| runs <= self.arrived_at)
    }

    /// Whether the acknowledgement that just arrived is queued and coalesced with `next`.
    pub fn coalesces(&mut self, ack: &Ack, next: Option<&Ack>) -> bool {
        while self.sock_owned.front().is_some_and(|&(_, end)| end <= self.arrived_at) {
            self.sock_owned.pop_front();
        }
        let Some(&(_, end)) = self.sock_owned.front().filter(|&&(begin, _)| begin <= self.arrived_at) else { return false };
        let Some((times, _)) = &self.host else { return false };
        self.next_arrival = self.arrived_at + times.ack_queueing;
        // The next one must arrive before the application releases the socket.
        self.next_arrival < end && next.is_some_and(|next| ack.coalesces_with(next))
    }

    /// Whether the application, which may write now, first has to wake up because more acknowledgements follow at this instant.
    pub fn needs_wakeup(&mut self, now: Time) -> bool {
        let Some((times, wakeups)) = self.host.as_mut().filter(|_| self.more_follow && now == self.at) else { return false };
        if self.app_runs_at.is_none() {
            let on_other_cpu = wakeups.uniform() < times.other_cpu_probability;
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss)] // some microseconds
            let more = Nanos(wakeups.exponential(times.writer_wakeup_extra_mean.0 as f64) as u64);
            self.app_runs_at = Some(if on_other_cpu { self.arrived_at + times.writer_wakeup_min + more } else { Nanos::MAX });
        }
        true
    }

    /// Record a write of `bytes` in one call, during which the application owns the socket. It has no effect if no acknowledgement follows at
    /// this instant.
    pub fn on_write(&mut self, bytes: u64) {
        let app_runs_at = self.app_runs_at.take();
        let Some((times, _)) = self.host.as_ref().filter(|_| self.more_follow) else { return };
        // Writes follow one another, even if the application is woken while it still writes.
        let free = self.sock_owned.back().map_or(Nanos::ZERO, |&(_, end)| end);
        let begin = app_runs_at.unwrap_or(self.arrived_at).max(free);
        self.sock_owned.push_back((begin, begin + Nanos(1_000 * bytes / times.write_bytes_per_micro)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host_timing::LINUX_VM;
    use bentpipe_profile::{Bytes, Streams};

    const NOW: Time = Time(5_000_000_000);

    #[allow(clippy::unnecessary_wraps)] // as `Backlog::new` takes it
    fn drawn(seed: u64) -> Option<DrawnTimes> {
        Some(DrawnTimes { times: LINUX_VM, streams: Streams::new(seed) })
    }

    /// Acknowledgements that differ in the window only, which does not prevent coalescing.
    fn ack(number: u64) -> Ack {
        Ack { window: Bytes(100_000 + number), ..Ack::plain(NOW, number) }
    }

    /// Return which of `acks` acknowledgements of one instant are processed; the first wakes the application, which writes `writes`.
    fn processed(backlog: &mut Backlog, now: Time, acks: u64, writes: &[u64]) -> Vec<u64> {
        let mut processed_acks = Vec::new();
        for n in 1..=acks {
            let next_ack = (n < acks).then(|| ack(n + 1));
            if backlog.on_ack(now, next_ack.is_some()) {
                for &bytes in writes {
                    backlog.on_write(bytes);
                }
            }
            if !backlog.coalesces(&ack(n), next_ack.as_ref()) {
                processed_acks.push(n);
                assert!(n > 1 || writes.is_empty() || backlog.needs_wakeup(now) == (acks > 1 && backlog.host.is_some()));
            }
        }
        processed_acks
    }

    #[test]
    fn acks_that_arrive_during_a_write_are_coalesced_into_one_per_write() {
        // 120 µs per write, in which 60 acknowledgements are queued.
        let write_bytes = 120 * LINUX_VM.write_bytes_per_micro;
        let mut backlog = Backlog::new(drawn(1));
        let (mut before, mut on_other_cpu) = (0, 0);
        for instant in 0..1000 {
            let processed_acks = processed(&mut backlog, Time(NOW.0 + instant), 400, &[write_bytes, write_bytes]);
            let gaps: Vec<u64> = processed_acks.windows(2).map(|w| w[1] - w[0]).filter(|&gap| gap > 1).collect();
            if gaps.is_empty() {
                continue;
            }
            on_other_cpu += 1;
            assert!(gaps.len() == 2 && gaps.iter().all(|gap| (55..=61).contains(gap)), "{gaps:?}");
            before += processed_acks.windows(2).position(|w| w[1] - w[0] > 1).unwrap_or(400);
        }
        // Before the first write: the acknowledgement that woke the application, those of its mean wake-up time of 40 µs, and the one being
        // processed.
        assert!((370..430).contains(&(100 * before / on_other_cpu)), "{before} before {on_other_cpu} writes");
        assert!((350..450).contains(&on_other_cpu), "wake-ups on the other processor: {on_other_cpu}");
    }

    #[test]
    fn acks_that_arrive_alone_or_wake_no_application_are_processed_at_once() {
        let mut backlog = Backlog::new(drawn(1));
        assert_eq!(processed(&mut backlog, NOW, 100, &[]).len(), 100);
        for later in 1..100 {
            assert!(!backlog.on_ack(Time(NOW.0 + later), false) && !backlog.coalesces(&ack(later), None));
            assert!(!backlog.needs_wakeup(Time(NOW.0 + later)), "the application writes at once if no acknowledgement follows");
            backlog.on_write(1 << 20);
        }
        assert_eq!(processed(&mut Backlog::new(None), NOW, 100, &[1 << 20]).len(), 100, "an application that takes no time");
    }

    #[test]
    fn an_application_that_takes_no_time_never_owns_the_socket() {
        let mut backlog = Backlog::new(None);
        for n in 1..100 {
            assert!(!backlog.on_ack(NOW, true) && !backlog.coalesces(&ack(n), Some(&ack(n + 1))) && !backlog.needs_wakeup(NOW));
            backlog.on_write(1 << 20);
        }
    }

    #[test]
    fn writes_do_not_overlap_when_the_application_is_woken_while_writing() {
        let write_bytes = 100 * LINUX_VM.write_bytes_per_micro;
        for seed in 0..50 {
            let mut backlog = Backlog::new(drawn(seed));
            backlog.on_ack(NOW, true);
            for _ in 0..3 {
                assert!(backlog.needs_wakeup(NOW));
                if backlog.app_runs_at == Some(Nanos::MAX) {
                    break; // on this processor: it runs when all are processed
                }
                backlog.on_write(write_bytes);
            }
            assert!(backlog.sock_owned.iter().zip(backlog.sock_owned.iter().skip(1)).all(|(a, b)| a.1 <= b.0), "{:?}", backlog.sock_owned);
            backlog.on_ack(Time(NOW.0 + 1), true);
            assert!(backlog.sock_owned.is_empty() && backlog.app_runs_at.is_none());
        }
    }

    #[test]
    fn only_acks_that_differ_in_number_and_window_alone_are_coalesced() {
        let coalesces_with = |change: fn(&mut Ack)| {
            let mut other = ack(2);
            change(&mut other);
            ack(1).coalesces_with(&other)
        };
        assert!(coalesces_with(|_| ()));
        assert!(coalesces_with(|a| a.tsval = NOW + Nanos::from_micros(900)), "the same millisecond");
        assert!(!coalesces_with(|a| a.tsval = NOW + Nanos::from_millis(1)));
        assert!(!coalesces_with(|a| a.ts_ecr = Time(NOW.0 - 1)));
        assert!(!coalesces_with(|a| a.ece = true));
        assert!(!coalesces_with(|a| a.ce_count = 1));
        assert!(!coalesces_with(|a| a.dsack = true));
        assert!(!coalesces_with(|a| a.ack = 0), "an older ACK");
    }
}
