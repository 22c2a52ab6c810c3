//! Queues: what waits for a hop's capacity, which of it is marked or given up, and what leaves next.
//!
//! | module | discipline |
//! |---|---|
//! | [`droptail`] | first in, first out, up to a limit |
//! | [`codel`] | `CoDel`, RFC 8289 |
//! | [`fq_codel`] | FQ-CoDel, RFC 8290 |
//! | [`red`] | RED |
//! | [`step`] | everything beyond a threshold |
//!
//! A packet's `at` is when it arrived, so how long it has waited needs no other stamp. A discipline that would drop a packet marks it instead where it may
//! and the transport takes part ([`mark`]). Packets come in by [`Queue::enqueue`] and leave exactly once: by [`Queue::dequeue`] to be sent, by
//! [`Queue::take`] because the hop gives up all it holds, or into the list of what was lost.

pub mod codel;
pub mod droptail;
pub mod fq_codel;
pub mod red;
pub mod step;

use crate::element::{DropCause, MarkCause};
use crate::packet::{Ecn, Packet};
use bentpipe_profile::{Bytes, QueueDiscipline, QueueLimit, QueueSpec, Rate, Time};
use codel::CodelQueue;
use droptail::DropTail;
use fq_codel::FqCodelQueue;
use red::RedQueue;
use step::StepQueue;

/// Packets that a queue gave up, with the reason.
pub type Lost = Vec<(Packet, DropCause)>;

/// A queue of any discipline. An enum, since a virtual call for each packet would cost more than drop-tail's own work.
#[derive(Clone, Debug)]
pub enum Queue {
    /// First in, first out.
    DropTail(DropTail),
    /// `CoDel`.
    Codel(CodelQueue),
    /// FQ-CoDel. In a box: the others are a tenth of its size.
    FqCodel(Box<FqCodelQueue>),
    /// RED.
    Red(RedQueue),
    /// Step.
    Step(StepQueue),
}

/// Does the same to whichever discipline it is.
macro_rules! each {
    ($queue:expr, $q:ident => $do:expr) => {
        match $queue {
            Queue::DropTail($q) => $do,
            Queue::Codel($q) => $do,
            Queue::FqCodel($q) => $do,
            Queue::Red($q) => $do,
            Queue::Step($q) => $do,
        }
    };
}

impl Queue {
    /// An empty queue; `key`: of what it draws (RED's marks, FQ-CoDel's hash).
    #[must_use]
    pub fn new(spec: &QueueSpec, key: u64) -> Self {
        let fifo = DropTail::new(spec.limit);
        match spec.discipline {
            QueueDiscipline::DropTail => Self::DropTail(fifo),
            QueueDiscipline::Codel(codel) => Self::Codel(CodelQueue::new(codel, fifo)),
            QueueDiscipline::FqCodel(fq) => Self::FqCodel(Box::new(FqCodelQueue::new(fq, spec.limit, key))),
            QueueDiscipline::Red(red) => Self::Red(RedQueue::new(red, fifo, key)),
            QueueDiscipline::Step(step) => Self::Step(StepQueue::new(step, fifo)),
        }
    }

    /// Whether a packet that finds the line free need not be shown to it: it would come out at once, and leave nothing behind. RED averages over all
    /// arrivals, also those.
    #[must_use]
    pub const fn allows_bypass(&self) -> bool {
        !matches!(self, Self::Red(_))
    }

    /// Takes a packet that arrived at `packet.at`. `rate`: capacity of the moment; `None`: unlimited.
    pub fn enqueue(&mut self, packet: Packet, rate: Option<Rate>, lost: &mut Lost) {
        match self {
            Self::DropTail(q) => {
                if let Err(packet) = q.enqueue(packet, rate) {
                    lost.push((packet, DropCause::QueueFull));
                }
            }
            Self::Codel(q) => q.enqueue(packet, rate, lost),
            Self::FqCodel(q) => q.enqueue(packet, rate, lost),
            Self::Red(q) => q.enqueue(packet, rate, lost),
            Self::Step(q) => q.enqueue(packet, rate, lost),
        }
    }

    /// The packet to send next, at `now`.
    pub fn dequeue(&mut self, now: Time, lost: &mut Lost) -> Option<Packet> {
        match self {
            Self::DropTail(q) => q.dequeue(),
            Self::Codel(q) => q.dequeue(now, lost),
            Self::FqCodel(q) => q.dequeue(now, lost),
            Self::Red(q) => q.dequeue(now),
            Self::Step(q) => q.dequeue(now, lost),
        }
    }

    /// The next packet, whatever the discipline thinks of it.
    pub fn take(&mut self) -> Option<Packet> {
        each!(self, q => q.take())
    }

    /// Gives a packet back its place at the head: it was taken out, but its transmission has not begun.
    pub fn put_back(&mut self, packet: Packet) {
        each!(self, q => q.put_back(packet));
    }

    /// Packets that wait; of FQ-CoDel queue by queue, else in the order in which they leave.
    pub fn iter(&self) -> impl Iterator<Item = &Packet> {
        each!(self, q => Box::new(q.iter()) as Box<dyn Iterator<Item = &Packet>>)
    }

    /// Bytes that wait.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        each!(self, q => q.bytes())
    }

    /// Packets that wait.
    #[must_use]
    pub fn len(&self) -> usize {
        each!(self, q => q.len())
    }

    /// Whether nothing waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Goes on where `other` is: a handover moved its packets here, and the queue is the same machine's as before. Of another discipline: begins anew.
    pub fn adopt_aqm_state(&mut self, other: &Self) {
        match (self, other) {
            (Self::Codel(to), Self::Codel(from)) => to.adopt_aqm_state(from),
            (Self::FqCodel(to), Self::FqCodel(from)) => to.adopt_aqm_state(from),
            (Self::Red(to), Self::Red(from)) => to.adopt_aqm_state(from),
            _ => {} // the others remember nothing but their packets
        }
    }
}

/// Whether a queue of `packets` and `bytes` has room for one of `more` bytes.
fn fits(limit: QueueLimit, packets: usize, bytes: u64, more: u32, rate: Option<Rate>) -> bool {
    let bytes = bytes + u64::from(more);
    match limit {
        QueueLimit::Bytes(limit) => bytes <= limit.0,
        QueueLimit::Packets(limit) => (packets as u64) < limit,
        QueueLimit::TimeNs(limit) => rate.is_none_or(|r| r.time_for(Bytes(bytes)) <= limit),
    }
}

/// Marks the packet, if its transport takes part (RFC 3168 §5); whether it is marked now.
fn mark(packet: &mut Packet, cause: MarkCause) -> bool {
    if packet.ecn == Ecn::Ect {
        packet.ecn = Ecn::Ce;
        packet.marked = Some(cause);
    }
    packet.ecn == Ecn::Ce
}

#[cfg(test)]
mod testing {
    use super::*;
    use bentpipe_profile::{Codel, Direction, Nanos};

    /// The RFCs' parameters.
    pub const RFC: Codel = Codel { target_ns: Nanos::from_millis(5), interval_ns: Nanos::from_millis(100), ecn: true };

    /// A packet of 1500 bytes that arrives at `at`.
    pub fn packet(at: Time, flow: u32, ecn: Ecn) -> Packet {
        Packet { ecn, ..Packet::new(at, 0, Direction::Down, flow, 1500, 0) }
    }
}
