//! The arguments of a call as words of 8 bytes, little-endian.

use crate::{AckSample, Congestion, LostPacket, PathHint, RateSample, RecoveryState};
use bentpipe_profile::{Bytes, Nanos, Rate, Time};

/// Size of a word.
pub(super) const WORD: usize = 8;
/// A value that is absent.
pub(super) const NONE: u64 = u64::MAX;
/// Greatest time [ns], size [bytes] and rate [bit/s] that is accepted: 52 days, 4 PB. Chosen here: far above any Run, and no controller's sums overflow.
pub(super) const LARGEST: u64 = 1 << 52;

pub(super) fn word(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |value, &byte| value << 8 | u64::from(byte))
}

/// A type that a record stores in whole words.
pub(super) trait Field: Copy {
    fn put(self, out: &mut Words<'_>);
    fn take(words: &mut Reader<'_>) -> Result<Self, &'static str>;
}

pub(super) struct Words<'a>(pub(super) &'a mut Vec<u8>);

impl Words<'_> {
    fn push(&mut self, value: u64) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }
}

pub(super) struct Reader<'a>(pub(super) &'a [u8]);

impl Reader<'_> {
    pub(super) fn next(&mut self) -> Result<u64, &'static str> {
        let (first, rest) = self.0.split_at_checked(WORD).ok_or("the record is too short")?;
        self.0 = rest;
        Ok(word(first))
    }

    fn next_bounded(&mut self) -> Result<u64, &'static str> {
        self.next().and_then(|value| if value <= LARGEST { Ok(value) } else { Err("a value is too large") })
    }
}

/// Implements [`Field`] for a newtype of `u64`, with a bound.
macro_rules! bounded {
    ($($newtype:ident)*) => {
        $(impl Field for $newtype {
            fn put(self, out: &mut Words<'_>) {
                out.push(self.0);
            }
            fn take(words: &mut Reader<'_>) -> Result<Self, &'static str> {
                words.next_bounded().map(Self)
            }
        }

        impl Field for Option<$newtype> {
            fn put(self, out: &mut Words<'_>) {
                out.push(self.map_or(NONE, |value| value.0));
            }
            fn take(words: &mut Reader<'_>) -> Result<Self, &'static str> {
                match words.next()? {
                    NONE => Ok(None),
                    value if value <= LARGEST => Ok(Some($newtype(value))),
                    _ => Err("a value is too large"),
                }
            }
        })*
    };
}
bounded!(Nanos Time Bytes Rate);

impl Field for u64 {
    fn put(self, out: &mut Words<'_>) {
        out.push(self);
    }
    fn take(words: &mut Reader<'_>) -> Result<Self, &'static str> {
        words.next_bounded()
    }
}

impl Field for u32 {
    fn put(self, out: &mut Words<'_>) {
        out.push(u64::from(self));
    }
    fn take(words: &mut Reader<'_>) -> Result<Self, &'static str> {
        Self::try_from(words.next()?).ok().filter(|value| (1..=65_535).contains(value)).ok_or("a segment size is out of range")
    }
}

impl Field for bool {
    fn put(self, out: &mut Words<'_>) {
        out.push(u64::from(self));
    }
    fn take(words: &mut Reader<'_>) -> Result<Self, &'static str> {
        match words.next()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err("a flag is neither 0 nor 1"),
        }
    }
}

/// States in the order of their numbers in a record, which are those of Linux's `tcp_ca_state`.
const STATES: [RecoveryState; 5] =
    [RecoveryState::Open, RecoveryState::Disorder, RecoveryState::Cwr, RecoveryState::Recovery, RecoveryState::Loss];

impl Field for RecoveryState {
    fn put(self, out: &mut Words<'_>) {
        out.push(self as u64);
    }
    fn take(words: &mut Reader<'_>) -> Result<Self, &'static str> {
        let number = usize::try_from(words.next()?).unwrap_or(usize::MAX);
        STATES.get(number).copied().ok_or("a recovery state is unknown")
    }
}

impl Field for Option<RateSample> {
    fn put(self, out: &mut Words<'_>) {
        self.map(|sample| sample.prior_delivered).put(out);
        let sample = self.unwrap_or(RateSample { prior_delivered: Bytes(0), delivered: Bytes(0), interval: Nanos(0), app_limited: false });
        sample.delivered.put(out);
        sample.interval.put(out);
        sample.app_limited.put(out);
    }
    fn take(words: &mut Reader<'_>) -> Result<Self, &'static str> {
        let prior_delivered: Option<Bytes> = Field::take(words)?;
        let (delivered, interval, app_limited) = (Field::take(words)?, Field::take(words)?, Field::take(words)?);
        Ok(prior_delivered.map(|prior_delivered| RateSample { prior_delivered, delivered, interval, app_limited }))
    }
}

/// Implements [`Field`] for a struct, field by field in this order. The fields of the middle list are spans whose absence is `Nanos::MAX`.
macro_rules! record {
    ($name:ident: $($before:ident)*; $($span:ident)*; $($after:ident)*) => {
        impl Field for $name {
            fn put(self, out: &mut Words<'_>) {
                $(self.$before.put(out);)*
                $(Some(self.$span).filter(|span| *span != Nanos::MAX).put(out);)*
                $(self.$after.put(out);)*
            }
            fn take(words: &mut Reader<'_>) -> Result<Self, &'static str> {
                Ok(Self {
                    $($before: Field::take(words)?,)*
                    $($span: <Option<Nanos> as Field>::take(words)?.unwrap_or(Nanos::MAX),)*
                    $($after: Field::take(words)?,)*
                })
            }
        }
    };
}

record!(AckSample:
    now mss acked cumulative newly_lost rtt srtt; min_rtt; delivery delivered_total lost_total tx_in_flight lost_since_sent prior_in_flight in_flight ce_count
    ack_delayed cwnd_limited window_full recovery app_limited snd_una snd_nxt pacing_rate next_departure);
record!(LostPacket: now seq bytes sent_at tx_in_flight delivered_at_send lost_at_send lost_total delivered_total app_limited;;);

/// Events in the order of their numbers in a record; the last one has a span.
const EVENTS: [Congestion; 8] = [
    Congestion::Loss,
    Congestion::Ecn,
    Congestion::Timeout,
    Congestion::TimeoutAgain,
    Congestion::TailLoss,
    Congestion::Undo,
    Congestion::RecoveryEnd,
    Congestion::Restart(Nanos::ZERO),
];

impl Field for Congestion {
    fn put(self, out: &mut Words<'_>) {
        let (number, idle) = match self {
            Self::Loss => (0, Nanos::ZERO),
            Self::Ecn => (1, Nanos::ZERO),
            Self::Timeout => (2, Nanos::ZERO),
            Self::TimeoutAgain => (3, Nanos::ZERO),
            Self::TailLoss => (4, Nanos::ZERO),
            Self::Undo => (5, Nanos::ZERO),
            Self::RecoveryEnd => (6, Nanos::ZERO),
            Self::Restart(idle) => (7, idle),
        };
        out.push(number);
        idle.put(out);
    }
    fn take(words: &mut Reader<'_>) -> Result<Self, &'static str> {
        let number = usize::try_from(words.next()?).unwrap_or(usize::MAX);
        let idle = Nanos::take(words)?;
        match EVENTS.get(number).copied().ok_or("a congestion event is unknown")? {
            Self::Restart(_) => Ok(Self::Restart(idle)),
            other => Ok(other),
        }
    }
}

impl Field for PathHint {
    fn put(self, out: &mut Words<'_>) {
        let (number, value) = match self {
            Self::Reconfiguration(at) => (0, at.0),
            Self::WallClock(unix_ns) => (1, unix_ns.cast_unsigned()),
        };
        out.push(number);
        out.push(value);
    }
    fn take(words: &mut Reader<'_>) -> Result<Self, &'static str> {
        match words.next()? {
            0 => Time::take(words).map(Self::Reconfiguration),
            1 => words.next().map(|value| Self::WallClock(value.cast_signed())),
            _ => Err("a path hint is unknown"),
        }
    }
}
