//! Explicit congestion notification (ECN) at both ends: negotiation, ECN-capable packets, and the echo of CE marks.
//!
//! Source: RFC 3168 §6.1 (classic) and RFC 9768 (accurate), as implemented in Linux 6.18 (`include/net/tcp_ecn.h`, `tcp_ecn_send`,
//! `__tcp_ecn_check_ce`). With classic feedback only new data is ECN-capable, not retransmissions or pure acknowledgements; with accurate
//! feedback every packet after the handshake is. The accurate counter is exact, as with the option of RFC 9768 §3.2.3, whose bytes are not
//! counted; on the wire its three bits wrap.

use crate::wire::{Ack, SegmentEcn};
use bentpipe_profile::experiment::EcnMode;

/// ECN state of the sender.
#[derive(Clone, Copy, Debug, Default)]
pub struct SenderEcn {
    mode: EcnMode,
    /// The window was reduced and CWR was not sent yet (`TCP_ECN_QUEUE_CWR`).
    cwr_due: bool,
}

impl SenderEcn {
    /// Set the mode that the SYN-ACK agreed on.
    pub const fn agree(&mut self, mode: EcnMode) {
        self.mode = mode;
    }

    /// Record a window reduction, for a mark or a loss.
    pub fn on_reduction(&mut self) {
        self.cwr_due = self.mode == EcnMode::Classic;
    }

    /// Return the ECN fields of new data.
    pub fn on_new_data(&mut self) -> SegmentEcn {
        SegmentEcn { requested: EcnMode::Off, capable: self.mode != EcnMode::Off, cwr: std::mem::take(&mut self.cwr_due) }
    }

    /// Return the ECN fields of a retransmission. With classic feedback it is not ECN-capable: a receiver that has the data already would lose
    /// its mark (RFC 3168 §6.1.5).
    pub fn on_retransmission(self) -> SegmentEcn {
        SegmentEcn { capable: self.mode == EcnMode::Accurate, ..SegmentEcn::default() }
    }

    /// Whether an acknowledgement echoes a new mark; `known`: marks echoed before.
    pub const fn echoes_mark(self, ack: &Ack, known: u64) -> bool {
        match self.mode {
            EcnMode::Off => false,
            EcnMode::Classic => ack.ece,
            EcnMode::Accurate => ack.ce_count > known,
        }
    }

    /// Return the marks echoed so far, after an acknowledgement for which [`Self::echoes_mark`] holds. Classic feedback does not count marks:
    /// all packets delivered while the echo lasts count (`tcp_count_delivered_ce`).
    pub fn marks(self, ack: &Ack, known: u64, delivered: u32) -> u64 {
        match self.mode {
            EcnMode::Off => known,
            EcnMode::Classic => known + u64::from(delivered),
            EcnMode::Accurate => known.max(ack.ce_count),
        }
    }
}

/// ECN state of the receiver.
#[derive(Clone, Copy, Debug)]
pub struct ReceiverEcn {
    /// Most capable mode that this host accepts.
    accepts: EcnMode,
    /// Negotiated mode; `None`: no SYN has arrived.
    mode: Option<EcnMode>,
    /// ECE is sent until the sender answers with CWR (`TCP_ECN_DEMAND_CWR`).
    demands_cwr: bool,
    /// Whether an ECN-capable packet has arrived (`TCP_ECN_SEEN`).
    ect_seen: bool,
    /// Whether the last packet was CE-marked.
    last_marked: bool,
    count: u64,
}

impl ReceiverEcn {
    /// Create the state of a host that accepts up to `accepts`.
    pub const fn new(accepts: EcnMode) -> Self {
        Self { accepts, mode: None, demands_cwr: false, ect_seen: false, last_marked: false, count: 0 }
    }

    /// Process the mode that a SYN requests and return the negotiated mode. Only the first SYN counts: its answer may be in flight.
    pub fn on_syn(&mut self, requested: EcnMode) -> EcnMode {
        let accepts = self.accepts;
        *self.mode.get_or_insert_with(|| requested.min(accepts))
    }

    /// The negotiated mode.
    pub fn mode(&self) -> EcnMode {
        self.mode.unwrap_or_default()
    }

    /// Process a data packet and return whether to acknowledge it soon. `duplicate`: it carried no new data.
    pub fn on_data(&mut self, carries: SegmentEcn, marked: bool, duplicate: bool) -> bool {
        let (mode, last_marked) = (self.mode.unwrap_or_default(), self.last_marked);
        self.count += u64::from(marked);
        self.last_marked = marked;
        match mode {
            EcnMode::Off => false,
            EcnMode::Classic => {
                if carries.cwr {
                    self.demands_cwr = false;
                }
                if duplicate {
                    return false;
                }
                let ack_soon = if marked {
                    !std::mem::replace(&mut self.demands_cwr, true)
                } else {
                    // A packet that is not ECN-capable, from an ECN sender, is probably a retransmission: its window may be small.
                    !carries.capable && self.ect_seen
                };
                self.ect_seen |= marked || carries.capable;
                ack_soon
            }
            // At the first and after the last mark of a run (RFC 9768 §3.2.2.5.1); in between delayed acknowledgements count them.
            EcnMode::Accurate => marked != last_marked,
        }
    }

    /// Data packets that arrived CE-marked.
    pub const fn count(&self) -> u64 {
        self.count
    }

    /// Return the ECN fields of an acknowledgement: ECE, the CE count, and whether it is ECN-capable.
    pub fn echo(&self) -> (bool, u64, bool) {
        let mode = self.mode.unwrap_or_default();
        (self.demands_cwr, if mode == EcnMode::Accurate { self.count } else { 0 }, mode == EcnMode::Accurate)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEW: SegmentEcn = SegmentEcn { requested: EcnMode::Off, capable: true, cwr: false };

    fn receiver(mode: EcnMode) -> ReceiverEcn {
        let mut receiver = ReceiverEcn::new(EcnMode::Accurate);
        assert_eq!(receiver.on_syn(mode), mode);
        receiver
    }

    #[test]
    fn the_less_capable_mode_of_both_hosts_is_negotiated() {
        for (requested, accepts, agreed) in [
            (EcnMode::Accurate, EcnMode::Classic, EcnMode::Classic),
            (EcnMode::Classic, EcnMode::Accurate, EcnMode::Classic),
            (EcnMode::Accurate, EcnMode::Off, EcnMode::Off),
            (EcnMode::Off, EcnMode::Accurate, EcnMode::Off),
        ] {
            assert_eq!(ReceiverEcn::new(accepts).on_syn(requested), agreed);
        }
    }

    #[test]
    fn classic_ece_lasts_until_cwr() {
        let mut r = receiver(EcnMode::Classic);
        assert!(!r.on_data(NEW, false, false) && !r.echo().0);
        assert!(r.on_data(NEW, true, false), "the first mark is acknowledged soon");
        assert!(!r.on_data(NEW, true, false) && r.echo().0, "the next is not");
        r.on_data(NEW, false, false);
        assert!(r.echo().0);
        r.on_data(SegmentEcn { cwr: true, ..NEW }, false, false);
        assert!(!r.echo().0);
        assert!(
            r.on_data(SegmentEcn { cwr: true, ..NEW }, true, false) && r.echo().0,
            "a mark on the packet that carries CWR is a new one"
        );
        assert_eq!((r.count(), r.echo().1), (3, 0), "classic feedback does not count marks");
    }

    #[test]
    fn accurate_echo_counts() {
        let mut r = receiver(EcnMode::Accurate);
        let ack_soon: Vec<_> = [false, true, true, false, false].iter().map(|&m| r.on_data(NEW, m, false)).collect();
        assert_eq!(ack_soon, [false, true, false, true, false]);
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
    fn cwr_is_sent_once_with_new_data() {
        let mut s = SenderEcn::default();
        s.agree(EcnMode::Classic);
        s.on_reduction();
        assert_eq!(s.on_retransmission(), SegmentEcn::default(), "neither ECT nor CWR");
        assert_eq!([s.on_new_data().cwr, s.on_new_data().cwr], [true, false]);
    }
}
