//! Queues in front of a hop's capacity: packets that wait, which of them are marked or dropped, and which leaves next.
//!
//! | module | discipline |
//! |---|---|
//! | [`droptail`] | first in, first out, up to a limit |
//! | [`codel`] | `CoDel`, RFC 8289 |
//! | [`fq_codel`] | FQ-CoDel, RFC 8290 |
//! | [`red`] | RED |
//! | [`step`] | marks beyond a threshold |
//!
//! A packet's `at` is its arrival, so its waiting time needs no other timestamp. A discipline that would drop a packet marks it instead, if it is set to
//! mark and the transport supports ECN ([`mark`]). Packets enter by [`Queue::enqueue`] and leave exactly once: by [`Queue::dequeue`] to be sent, by
//! [`Queue::take`] when an event empties the hop, or into the list of dropped packets.

pub mod codel;
pub mod droptail;
pub mod fq_codel;
pub mod red;
pub mod step;

use crate::cause::{DropCause, MarkCause};
use crate::event::Scope;
use crate::packet::{Ecn, Packet};
use bentpipe_profile::{Bytes, QueueDiscipline, QueueLimit, QueueSpec, Rate, Time};
use codel::CodelQueue;
use droptail::DropTail;
use fq_codel::FqCodelQueue;
use red::RedQueue;
use step::StepQueue;

/// Packets that a queue dropped, with the cause.
pub type Dropped = Vec<(Packet, DropCause)>;

/// A queue of any discipline. An enum, since a virtual call per packet would cost more than drop-tail itself. All but drop-tail are boxed, since networks of
/// many links have few of them.
#[derive(Clone, Debug)]
pub enum Queue {
    /// First in, first out.
    DropTail(DropTail),
    /// `CoDel`.
    Codel(Box<CodelQueue>),
    /// FQ-CoDel.
    FqCodel(Box<FqCodelQueue>),
    /// RED.
    Red(Box<RedQueue>),
    /// Step.
    Step(Box<StepQueue>),
}

/// Evaluates an expression for the queue of any discipline.
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
    /// Create an empty queue. `key`: key of its draws (RED's marks, FQ-CoDel's hash).
    #[must_use]
    pub fn new(spec: &QueueSpec, key: u64) -> Self {
        let fifo = DropTail::new(spec.limit);
        match spec.discipline {
            QueueDiscipline::DropTail => Self::DropTail(fifo),
            QueueDiscipline::Codel(codel) => Self::Codel(Box::new(CodelQueue::new(codel, fifo))),
            QueueDiscipline::FqCodel(fq) => Self::FqCodel(Box::new(FqCodelQueue::new(fq, spec.limit, key))),
            QueueDiscipline::Red(red) => Self::Red(Box::new(RedQueue::new(red, fifo, key))),
            QueueDiscipline::Step(step) => Self::Step(Box::new(StepQueue::new(step, fifo))),
        }
    }

    /// Return whether a packet that finds an idle link may bypass the queue: it would leave at once and change no state. RED averages over all
    /// arrivals, including these.
    #[must_use]
    pub const fn allows_bypass(&self) -> bool {
        !matches!(self, Self::Red(_))
    }

    /// Enqueue a packet that arrives at `packet.at`. `rate`: current capacity; `None`: unlimited.
    pub fn enqueue(&mut self, packet: Packet, rate: Option<Rate>, dropped: &mut Dropped) {
        match self {
            Self::DropTail(q) => {
                if let Err(packet) = q.enqueue(packet, rate) {
                    dropped.push((packet, DropCause::QueueFull));
                }
            }
            Self::Codel(q) => q.enqueue(packet, rate, dropped),
            Self::FqCodel(q) => q.enqueue(packet, rate, dropped),
            Self::Red(q) => q.enqueue(packet, rate, dropped),
            Self::Step(q) => q.enqueue(packet, rate, dropped),
        }
    }

    /// Return the packet to send next, at `now`.
    pub fn dequeue(&mut self, now: Time, dropped: &mut Dropped) -> Option<Packet> {
        match self {
            Self::DropTail(q) => q.dequeue(),
            Self::Codel(q) => q.dequeue(now, dropped),
            Self::FqCodel(q) => q.dequeue(now, dropped),
            Self::Red(q) => q.dequeue(now),
            Self::Step(q) => q.dequeue(now, dropped),
        }
    }

    /// Remove and return the next packet, without the discipline.
    pub fn take(&mut self) -> Option<Packet> {
        each!(self, q => q.take())
    }

    /// Remove and return the packets that an event concerns in order of arrival, without the discipline.
    pub fn extract(&mut self, scope: &Scope) -> Vec<Packet> {
        each!(self, q => q.extract(scope))
    }

    /// Put a packet back at the head: it was removed, but its transmission has not begun.
    pub fn put_back(&mut self, packet: Packet) {
        each!(self, q => q.put_back(packet));
    }

    /// Iterate over the packets: FQ-CoDel's queue by queue, others' in order of departure.
    pub fn iter(&self) -> impl Iterator<Item = &Packet> {
        each!(self, q => Box::new(q.iter()) as Box<dyn Iterator<Item = &Packet>>)
    }

    /// Return the limit.
    #[must_use]
    pub fn limit(&self) -> QueueLimit {
        each!(self, q => q.limit())
    }

    /// Return the bytes that wait.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        each!(self, q => q.bytes())
    }

    /// Return the number of packets that wait.
    #[must_use]
    pub fn len(&self) -> usize {
        each!(self, q => q.len())
    }

    /// Return whether the queue is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Adopt the AQM state of `other`, whose packets migrate here at a handover. Keeps its own state if the disciplines differ.
    pub fn adopt_aqm_state(&mut self, other: &Self) {
        match (self, other) {
            (Self::Codel(to), Self::Codel(from)) => to.adopt_aqm_state(from),
            (Self::FqCodel(to), Self::FqCodel(from)) => to.adopt_aqm_state(from),
            (Self::Red(to), Self::Red(from)) => to.adopt_aqm_state(from),
            _ => {} // drop-tail and step have no state but their packets
        }
    }
}

/// Return whether a queue of `packets` and `bytes` has room for a packet of `more` bytes.
pub(crate) fn fits(limit: QueueLimit, packets: usize, bytes: u64, more: u16, rate: Option<Rate>) -> bool {
    let bytes = bytes + u64::from(more);
    match limit {
        QueueLimit::Bytes(limit) => bytes <= limit.0,
        QueueLimit::Packets(limit) => (packets as u64) < limit,
        QueueLimit::TimeNs(limit) => rate.is_none_or(|r| r.time_for(Bytes(bytes)) <= limit),
    }
}

/// Mark the packet, if its transport supports ECN (RFC 3168 §5). Returns whether it is marked now.
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

    /// The parameters that the RFCs recommend.
    pub const RFC: Codel = Codel { target_ns: Nanos::from_millis(5), interval_ns: Nanos::from_millis(100), ecn: true };

    /// A packet of 1500 bytes that arrives at `at`.
    pub fn packet(at: Time, flow: u32, ecn: Ecn) -> Packet {
        Packet { ecn, ..Packet::new(at, 0, Direction::Down, flow, 1500, 0) }
    }
}
