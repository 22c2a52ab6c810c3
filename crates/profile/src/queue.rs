//! Queue parameters: the size, and the discipline, which decides drops, marks and the order of departure.

use crate::units::{Bytes, Nanos};
use serde::{Deserialize, Serialize};

/// Probabilities are integers in units of 1e-9.
pub const PROBABILITY_ONE: u64 = 1_000_000_000;

/// Size of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum QueueLimit {
    /// Bytes of packets.
    Bytes(Bytes),
    /// Number of packets.
    Packets(u64),
    /// Time: the bytes that the link sends in it at the current capacity [ns].
    TimeNs(Nanos),
}

impl QueueLimit {
    const fn is_zero(self) -> bool {
        matches!(self, Self::Bytes(Bytes(0)) | Self::Packets(0) | Self::TimeNs(Nanos(0)))
    }
}

/// Queue discipline: which packets a queue drops or marks, and in which order packets leave. A discipline that marks does so to packets of transports that
/// support ECN (RFC 3168), and drops the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum QueueDiscipline {
    /// First in, first out; an arrival that does not fit is dropped.
    DropTail,
    /// `CoDel`: by waiting time, at a rising rate (RFC 8289).
    Codel(Codel),
    /// FQ-CoDel: a `CoDel` queue for each flow, served in turn (RFC 8290).
    FqCodel(FqCodel),
    /// RED: with a probability that rises with the average queue length (Floyd and Jacobson 1993; Linux `red`).
    Red(Red),
    /// Step: every packet beyond a threshold (DCTCP, RFC 8257 §3.1; Linux `ce_threshold`).
    Step(Step),
}

/// Parameters of `CoDel`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Codel {
    /// Acceptable standing waiting time [ns].
    pub target_ns: Nanos,
    /// How long the waiting time must stay above the target before the first drop [ns]: a worst-case RTT.
    pub interval_ns: Nanos,
    /// Whether packets that support ECN are marked instead of dropped.
    pub ecn: bool,
}

/// Parameters of FQ-CoDel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FqCodel {
    /// `CoDel` parameters of each flow's queue.
    pub codel: Codel,
    /// Number of queues that flows are hashed to.
    pub flows: u32,
    /// Bytes that a queue sends in one turn.
    pub quantum_bytes: u32,
}

/// Parameters of RED.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Red {
    /// Average queue length below which no packet is marked or dropped.
    pub min: QueueLimit,
    /// Average queue length from which on every packet is marked or dropped.
    pub max: QueueLimit,
    /// Probability just below `max` [1e-9].
    pub max_probability_ppb: u64,
    /// Binary logarithm of the averaging weight: each arrival moves the average by 2^-`weight_log` of the difference.
    pub weight_log: u32,
    /// Whether packets that support ECN are marked instead of dropped.
    pub ecn: bool,
}

/// Parameters of step marking.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// Backlog when a packet arrives [packets or bytes], or its waiting time when it leaves the queue [ns].
    pub threshold: QueueLimit,
}

impl QueueDiscipline {
    /// Return the name: `drop_tail`, `codel`, `fq_codel`, `red`, `step`.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::DropTail => "drop_tail",
            Self::Codel(_) => "codel",
            Self::FqCodel(_) => "fq_codel",
            Self::Red(_) => "red",
            Self::Step(_) => "step",
        }
    }

    /// Return the first invalid parameter: name, value, accepted values.
    #[must_use]
    pub fn first_invalid(&self) -> Option<(&'static str, f64, &'static str)> {
        match self {
            Self::DropTail => None,
            Self::Codel(codel) => codel.first_invalid(),
            Self::FqCodel(fq) => fq.codel.first_invalid().or_else(|| {
                if !(1..=65_536).contains(&fq.flows) {
                    Some(("flows", f64::from(fq.flows), "1 to 65536 queues"))
                } else if !(64..=1 << 24).contains(&fq.quantum_bytes) {
                    Some(("quantum_bytes", f64::from(fq.quantum_bytes), "64 to 16777216 bytes"))
                } else {
                    None
                }
            }),
            Self::Red(red) => red.first_invalid(),
            Self::Step(step) => step.threshold.is_zero().then_some(("threshold", 0.0, "a threshold above zero")),
        }
    }
}

impl Codel {
    fn first_invalid(&self) -> Option<(&'static str, f64, &'static str)> {
        if self.target_ns == Nanos::ZERO {
            Some(("target_ns", 0.0, "a wait above zero"))
        } else if self.interval_ns < self.target_ns || self.interval_ns > Nanos::from_secs(1000) {
            Some(("interval_ns", self.interval_ns.0 as f64, "at least the target, at most 1000 s"))
        } else {
            None
        }
    }
}

impl Red {
    fn first_invalid(&self) -> Option<(&'static str, f64, &'static str)> {
        let in_order = match (self.min, self.max) {
            (QueueLimit::Bytes(min), QueueLimit::Bytes(max)) => min < max,
            (QueueLimit::TimeNs(min), QueueLimit::TimeNs(max)) => min < max,
            _ => false, // the average is of bytes
        };
        if !in_order {
            Some(("max", 0.0, "above min, both in bytes or both in time"))
        } else if self.max_probability_ppb == 0 || self.max_probability_ppb > PROBABILITY_ONE {
            Some(("max_probability_ppb", self.max_probability_ppb as f64, "1 to 1e9"))
        } else if self.weight_log > 24 {
            Some(("weight_log", f64::from(self.weight_log), "0 to 24"))
        } else {
            None
        }
    }
}

/// A queue in front of a hop's capacity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueueSpec {
    /// Discipline: drops, marks and order.
    pub discipline: QueueDiscipline,
    /// Size; the packet in transmission is not counted.
    pub limit: QueueLimit,
}

impl QueueSpec {
    /// Return the first invalid parameter: name, value, accepted values.
    #[must_use]
    pub fn first_invalid(&self) -> Option<(&'static str, f64, &'static str)> {
        self.limit.is_zero().then_some(("limit", 0.0, "room for at least one packet")).or_else(|| self.discipline.first_invalid())
    }
}
