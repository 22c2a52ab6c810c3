//! Explicit congestion notification at both ends: what is agreed on, which packets may be marked, how marks are echoed.
//!
//! Source: RFC 3168 §6.1 (classic) and RFC 9768 (accurate), as Linux has them (`include/net/tcp_ecn.h`, `tcp_ecn_send`, `__tcp_ecn_check_ce`, 6.18). With
//! classic feedback only new data may be marked, not retransmissions nor pure acknowledgements; with accurate feedback everything behind the handshake
//! may. The accurate counter is exact, as with the option of RFC 9768 §3.2.3, whose bytes are not counted; on the wire its three bits wrap.

use crate::wire::{Ack, SegmentEcn};
use bentpipe_profile::experiment::EcnMode;

/// The sender's end.
#[derive(Clone, Copy, Debug, Default)]
pub struct SenderEcn {
    mode: EcnMode,
    /// The window was reduced, and the receiver has not been told (`TCP_ECN_QUEUE_CWR`).
    cwr_due: bool,
}

impl SenderEcn {
    /// The answer to the SYN says so.
    pub const fn agree(&mut self, mode: EcnMode) {
        self.mode = mode;
    }

    /// The window comes down, for a mark or a loss.
    pub fn on_reduction(&mut self) {
        self.cwr_due = self.mode == EcnMode::Classic;
    }

    /// What new data carries.
    pub fn on_new_data(&mut self) -> SegmentEcn {
        SegmentEcn { ask: EcnMode::Off, capable: self.mode != EcnMode::Off, cwr: std::mem::take(&mut self.cwr_due) }
    }

    /// What data carries that is retransmitted: a mark on it would be lost on a receiver that has it (RFC 3168 §6.1.5).
    pub fn on_retransmission(self) -> SegmentEcn {
        SegmentEcn { capable: self.mode == EcnMode::Accurate, ..SegmentEcn::default() }
    }

    /// Whether an acknowledgement echoes a mark; `known`: marks echoed before.
    pub const fn hears(self, ack: &Ack, known: u64) -> bool {
        match self.mode {
            EcnMode::Off => false,
            EcnMode::Classic => ack.ece,
            EcnMode::Accurate => ack.ce_count > known,
        }
    }

    /// Marks echoed so far, with an acknowledgement that [`Self::hears`] one and delivers packets. Classic feedback does not say how many: all that is delivered while
    /// it lasts counts (`tcp_count_delivered_ce`).
    pub fn marks(self, ack: &Ack, known: u64, delivered: u32) -> u64 {
        match self.mode {
            EcnMode::Off => known,
            EcnMode::Classic => known + u64::from(delivered),
            EcnMode::Accurate => known.max(ack.ce_count),
        }
    }
}

/// The receiver's end.
#[derive(Clone, Copy, Debug)]
pub struct ReceiverEcn {
    /// The most that this host takes part in.
    accepts: EcnMode,
    /// Agreed on; `None`: no SYN has come.
    mode: Option<EcnMode>,
    /// A mark is echoed until the sender says that it heard (`TCP_ECN_DEMAND_CWR`).
    demands_cwr: bool,
    /// Whether a packet came that could be marked.
    seen: bool,
    /// Whether the last packet was marked.
    last: bool,
    count: u64,
}

impl ReceiverEcn {
    /// Before the connection.
    pub const fn new(accepts: EcnMode) -> Self {
        Self { accepts, mode: None, demands_cwr: false, seen: false, last: false, count: 0 }
    }

    /// A SYN asks; what is agreed on. Of several the first one counts: its answer may be on its way.
    pub fn on_syn(&mut self, ask: EcnMode) -> EcnMode {
        let accepts = self.accepts;
        *self.mode.get_or_insert_with(|| ask.min(accepts))
    }

    /// A data packet arrives, marked or not. `duplicate`: nothing in it was new. Whether the sender should hear soon.
    pub fn on_data(&mut self, carries: SegmentEcn, marked: bool, duplicate: bool) -> bool {
        let (mode, last) = (self.mode.unwrap_or_default(), self.last);
        self.count += u64::from(marked);
        self.last = marked;
        match mode {
            EcnMode::Off => false,
            EcnMode::Classic => {
                if carries.cwr {
                    self.demands_cwr = false;
                }
                if duplicate {
                    return false;
                }
                let soon = if marked {
                    !std::mem::replace(&mut self.demands_cwr, true)
                } else {
                    // What cannot be marked, of a sender that takes part, is probably a retransmission: its window may be small.
                    !carries.capable && self.seen
                };
                self.seen |= marked || carries.capable;
                soon
            }
            // When marks begin and when they end (RFC 9768 §3.2.2.5.1); in between delayed acknowledgements count them.
            EcnMode::Accurate => marked != last,
        }
    }

    /// Data packets that arrived marked.
    pub const fn count(&self) -> u64 {
        self.count
    }

    /// What an acknowledgement says: whether a mark is echoed, how many there were, and whether it may be marked itself.
    pub fn echo(&self) -> (bool, u64, bool) {
        let mode = self.mode.unwrap_or_default();
        (self.demands_cwr, if mode == EcnMode::Accurate { self.count } else { 0 }, mode == EcnMode::Accurate)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEW: SegmentEcn = SegmentEcn { ask: EcnMode::Off, capable: true, cwr: false };

    fn receiver(mode: EcnMode) -> ReceiverEcn {
        let mut receiver = ReceiverEcn::new(EcnMode::Accurate);
        assert_eq!(receiver.on_syn(mode), mode);
        receiver
    }

    #[test]
    fn what_is_agreed_on_is_the_less_of_both() {
        for (asked, accepts, agreed) in [
            (EcnMode::Accurate, EcnMode::Classic, EcnMode::Classic),
            (EcnMode::Classic, EcnMode::Accurate, EcnMode::Classic),
            (EcnMode::Accurate, EcnMode::Off, EcnMode::Off),
            (EcnMode::Off, EcnMode::Accurate, EcnMode::Off),
        ] {
            assert_eq!(ReceiverEcn::new(accepts).on_syn(asked), agreed);
        }
    }

    #[test]
    fn classic_echo_lasts_until_the_sender_says_that_it_heard() {
        let mut r = receiver(EcnMode::Classic);
        assert!(!r.on_data(NEW, false, false) && !r.echo().0);
        assert!(r.on_data(NEW, true, false), "the first mark is told soon");
        assert!(!r.on_data(NEW, true, false) && r.echo().0, "the next is not");
        r.on_data(NEW, false, false);
        assert!(r.echo().0);
        r.on_data(SegmentEcn { cwr: true, ..NEW }, false, false);
        assert!(!r.echo().0);
        assert!(r.on_data(SegmentEcn { cwr: true, ..NEW }, true, false) && r.echo().0, "a mark on the packet that says so is a new one");
        assert_eq!((r.count(), r.echo().1), (3, 0), "it does not say how many");
    }

    #[test]
    fn accurate_echo_counts() {
        let mut r = receiver(EcnMode::Accurate);
        let soon: Vec<_> = [false, true, true, false, false].iter().map(|&m| r.on_data(NEW, m, false)).collect();
        assert_eq!(soon, [false, true, false, true, false]);
        assert_eq!(r.echo(), (false, 2, true));
    }

    #[test]
    fn without_ecn_nothing_is_echoed() {
        let mut r = receiver(EcnMode::Off);
        assert!(!r.on_data(SegmentEcn::default(), false, false));
        assert_eq!(r.echo(), (false, 0, false));
        let mut s = SenderEcn::default();
        s.on_reduction();
        assert_eq!(s.on_new_data(), SegmentEcn::default());
    }

    #[test]
    fn a_reduction_is_told_once_with_new_data() {
        let mut s = SenderEcn::default();
        s.agree(EcnMode::Classic);
        s.on_reduction();
        assert_eq!(s.on_retransmission(), SegmentEcn::default(), "not ECT, and no word of it");
        assert_eq!([s.on_new_data().cwr, s.on_new_data().cwr], [true, false]);
    }
}
