//! The sender's side: packets become frames, and frames get parities.

use super::code::{Code, MOST_SYMBOLS};
use super::{Options, Parity, Report, Symbol};
use bentpipe_profile::{Nanos, Time};
use std::collections::VecDeque;

/// Share of parities after a loss.
const LOSSY_SHARE: f64 = 0.5;

/// One direction's sender.
#[derive(Debug)]
pub struct Sender {
    code: Code,
    packets: usize,
    span: Nanos,
    /// Share of parities; `None`: by feedback.
    fixed: Option<f64>,
    held: u32,
    /// Reports for which parities are still sent.
    lossy_for: u32,
    frame: u64,
    begun: Time,
    /// Packets of the open frame, and of the frames before it that its parities cover, oldest first.
    open: Vec<Vec<u8>>,
    closed: VecDeque<Vec<Vec<u8>>>,
}

impl Sender {
    /// Create a sender without packets.
    #[must_use]
    pub fn new(options: &Options) -> Self {
        Self {
            code: Code { tau: u64::from(options.tau) },
            packets: options.packets as usize,
            span: options.span,
            fixed: (options.share > 0.0).then_some(options.share),
            held: options.held,
            lossy_for: 0,
            frame: 0,
            begun: Time::ZERO,
            open: Vec::new(),
            closed: VecDeque::new(),
        }
    }

    /// Return the place of a packet that is sent now. [`Self::close_if_due`] follows.
    pub fn on_sent(&mut self, now: Time, content: Vec<u8>) -> Symbol {
        if self.open.is_empty() {
            self.begun = now;
        }
        self.open.push(content);
        Symbol { frame: self.frame, index: u16::try_from(self.open.len() - 1).unwrap_or(u16::MAX) }
    }

    /// Return whether the open frame is full.
    #[must_use]
    pub const fn is_full(&self) -> bool {
        self.open.len() >= self.packets
    }

    /// Close the open frame if it is full or its time is over, and return its parities.
    pub fn close_if_due(&mut self, now: Time) -> Vec<Parity> {
        let is_due = self.is_full() || self.wake_at().is_some_and(|at| at <= now);
        if !is_due {
            return Vec::new();
        }
        let size = self.open.len();
        self.closed.push_back(std::mem::take(&mut self.open));
        let share = self.fixed.unwrap_or(if self.lossy_for > 0 { LOSSY_SHARE } else { 0.0 });
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // at most 16
        let count = ((size as f64 * share).ceil() as u16).min(MOST_SYMBOLS);
        let frames = self.closed.make_contiguous();
        let parities = (0..count).map(|number| self.code.parity(self.frame, number, frames)).collect();
        self.frame += 1;
        if self.closed.len() as u64 > self.code.tau {
            self.closed.pop_front();
        }
        parities
    }

    /// Take in a report.
    pub const fn on_report(&mut self, report: Report) {
        self.lossy_for = if report.is_lossy { self.held } else { self.lossy_for.saturating_sub(1) };
    }

    /// Return when the open frame's time is over; `None`: it is empty.
    #[must_use]
    pub fn wake_at(&self) -> Option<Time> {
        (!self.open.is_empty()).then(|| self.begun + self.span)
    }

    /// Return the oldest frame that a parity may still cover.
    #[must_use]
    pub const fn oldest(&self) -> u64 {
        self.frame.saturating_sub(self.code.span())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tambur::defaults;

    fn send(sender: &mut Sender, at_ms: u64, packets: u16) -> Vec<usize> {
        let now = Time(at_ms * 1_000_000);
        (0..packets)
            .map(|_| {
                sender.on_sent(now, Vec::new());
                sender.close_if_due(now).len()
            })
            .collect()
    }

    #[test]
    fn parities_follow_a_report_of_loss_for_two_reports() {
        let mut sender = Sender::new(&defaults());
        assert_eq!(send(&mut sender, 0, 8), [0; 8]);
        sender.on_report(Report { is_lossy: true });
        assert_eq!(send(&mut sender, 1, 8), [0, 0, 0, 0, 0, 0, 0, 4]);
        sender.on_report(Report { is_lossy: false });
        assert_eq!(send(&mut sender, 2, 8)[7], 4);
        sender.on_report(Report { is_lossy: false });
        assert_eq!(send(&mut sender, 3, 8)[7], 0);
    }

    #[test]
    fn a_frame_ends_after_its_span() {
        let mut sender = Sender::new(&Options { share: 0.25, ..defaults() });
        assert_eq!(send(&mut sender, 5, 3), [0; 3]);
        assert_eq!(sender.wake_at(), Some(Time(38_000_000)));
        assert!(sender.close_if_due(Time(37_999_999)).is_empty());
        let parities = sender.close_if_due(Time(38_000_000));
        assert_eq!(parities.iter().map(|parity| (parity.frame, parity.sizes.clone())).collect::<Vec<_>>(), [(0, vec![3])]);
        assert_eq!(sender.wake_at(), None);
    }
}
