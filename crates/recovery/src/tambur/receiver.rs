//! The receiver's side: it recovers lost packets, and reports whether there were some.

use super::code::{Code, Decoder};
use super::{Options, Parity, Report, Symbol};
use bentpipe_profile::{Nanos, Time};

/// One direction's receiver.
#[derive(Debug)]
pub struct Receiver {
    decoder: Decoder,
    report_every: Nanos,
    next_report: Option<Time>,
    /// Packet after the highest that arrived, and packets that came after a gap, since the last report.
    next: Option<Symbol>,
    is_lossy: bool,
}

impl Receiver {
    /// Create a receiver without packets.
    #[must_use]
    pub fn new(options: &Options) -> Self {
        Self {
            decoder: Decoder::new(Code { tau: u64::from(options.tau) }),
            report_every: options.report,
            next_report: None,
            next: None,
            is_lossy: false,
        }
    }

    /// Take in a packet. Returns those that are recovered with it.
    pub fn on_symbol(&mut self, now: Time, symbol: Symbol, content: Vec<u8>) -> Vec<(Symbol, Vec<u8>)> {
        self.next_report.get_or_insert(now + self.report_every);
        // A new frame may begin anywhere: a frame's size is known from its parities alone. A gap within a frame, or a whole frame, is a loss.
        let expected = self.next.unwrap_or(symbol);
        let is_gap = symbol.frame > expected.frame + 1
            || (symbol.frame == expected.frame && symbol.index > expected.index)
            || (symbol.frame == expected.frame + 1 && symbol.index > 0);
        self.is_lossy |= is_gap;
        self.next = Some(expected.max(Symbol { index: symbol.index + 1, ..symbol }));
        if self.decoder.on_symbol(symbol, content) { self.decoder.recover() } else { Vec::new() }
    }

    /// Take in a parity. Returns the packets that are recovered with it.
    pub fn on_parity(&mut self, parity: Parity) -> Vec<(Symbol, Vec<u8>)> {
        self.decoder.on_parity(parity);
        let recovered = self.decoder.recover();
        self.is_lossy |= !recovered.is_empty();
        recovered
    }

    /// Return the report that is due.
    pub fn take_report(&mut self, now: Time) -> Option<Report> {
        let due = self.next_report.filter(|&at| at <= now)?;
        self.next_report = Some(due + self.report_every);
        Some(Report { is_lossy: std::mem::take(&mut self.is_lossy) })
    }

    /// Return when the next report is due; `None`: nothing has arrived yet.
    #[must_use]
    pub const fn wake_at(&self) -> Option<Time> {
        self.next_report
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tambur::defaults;

    fn lossy(symbols: &[(u64, u16)]) -> bool {
        let mut receiver = Receiver::new(&defaults());
        for &(frame, index) in symbols {
            receiver.on_symbol(Time(0), Symbol { frame, index }, Vec::new());
        }
        assert_eq!(receiver.take_report(Time(1_999_999_999)), None);
        receiver.take_report(Time(2_000_000_000)).expect("a report is due").is_lossy
    }

    #[test]
    fn gaps_are_losses_and_the_end_of_a_frame_is_none() {
        assert!(!lossy(&[(0, 0), (0, 1), (1, 0), (1, 1), (1, 2)]));
        assert!(lossy(&[(0, 0), (0, 2)]));
        assert!(lossy(&[(0, 0), (1, 1)]));
        assert!(lossy(&[(0, 0), (2, 0)]));
        assert!(!lossy(&[(3, 5), (3, 6), (3, 4)]));
    }
}
