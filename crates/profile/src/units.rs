//! Units as types: integers of nanoseconds, bytes and bit/s (`docs/design/001-determinism.md`).

use serde::{Deserialize, Serialize};
use std::fmt;
use std::ops::{Add, AddAssign, Sub, SubAssign};

/// Nanoseconds in a second.
pub const NANOS_PER_SEC: u64 = 1_000_000_000;

/// A span of time [ns].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Nanos(pub u64);

/// An instant [ns since the start of the Profile].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Time(pub u64);

/// Wall-clock time, UTC [ns since 1970-01-01T00:00:00Z, leap seconds not counted].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Utc(pub i64);

/// A data rate [bit/s].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Rate(pub u64);

/// An amount of data [bytes].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Bytes(pub u64);

/// An angle, held in radians.
#[derive(Clone, Copy, PartialEq, PartialOrd, Debug, Default)]
pub struct Angle {
    radians: f64,
}

impl Nanos {
    /// Zero.
    pub const ZERO: Self = Self(0);
    /// The largest span, longer than any Run.
    pub const MAX: Self = Self(u64::MAX);

    /// Convert from whole seconds.
    #[must_use]
    pub const fn from_secs(s: u64) -> Self {
        Self(s * NANOS_PER_SEC)
    }

    /// Convert from whole milliseconds.
    #[must_use]
    pub const fn from_millis(ms: u64) -> Self {
        Self(ms * 1_000_000)
    }

    /// Convert from whole microseconds.
    #[must_use]
    pub const fn from_micros(us: u64) -> Self {
        Self(us * 1_000)
    }

    /// Convert from seconds, rounded to the nearest nanosecond. `None` for NaN, negative or beyond the range.
    #[must_use]
    pub fn from_secs_f64(s: f64) -> Option<Self> {
        let ns = (s * 1e9).round();
        // 2^63 ns is 292 years, longer than any Run, and the cast below is exact.
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        (0.0..9.223e18).contains(&ns).then_some(Self(ns as u64))
    }

    /// Convert to seconds.
    #[must_use]
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// Convert to milliseconds.
    #[must_use]
    pub fn as_millis_f64(self) -> f64 {
        self.0 as f64 / 1e6
    }

    /// Return the difference, at least zero.
    #[must_use]
    pub const fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }

    /// Return this span times `num / den`, rounded down, without overflow in between.
    #[must_use]
    #[allow(clippy::cast_possible_truncation)] // spans of a Run times small gains stay far below 2^64
    pub const fn mul_div(self, num: u64, den: u64) -> Self {
        Self((self.0 as u128 * num as u128 / den as u128) as u64)
    }
}

impl Time {
    /// The start of the Profile.
    pub const ZERO: Self = Self(0);
    /// The largest time; means "never".
    pub const MAX: Self = Self(u64::MAX);

    /// Return the span since `earlier`; zero if `earlier` is later.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Nanos {
        Nanos(self.0.saturating_sub(earlier.0))
    }

    /// Convert to seconds since the start of the Profile.
    #[must_use]
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// Convert from seconds since the start of the Profile, rounded to the nearest nanosecond. `None` for NaN, negative or beyond the range.
    #[must_use]
    pub fn from_secs_f64(s: f64) -> Option<Self> {
        Nanos::from_secs_f64(s).map(|n| Self(n.0))
    }
}

impl Utc {
    /// Convert to seconds since 1970-01-01T00:00:00Z.
    #[must_use]
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// Return this instant plus a span of the Profile.
    ///
    /// # Panics
    /// Never in practice: the year 2262 is out of range.
    #[must_use]
    pub fn plus(self, span: Nanos) -> Self {
        Self(self.0.saturating_add_unsigned(span.0))
    }
}

impl Rate {
    /// Convert from Mbit/s.
    #[must_use]
    pub const fn from_mbps(mbps: u64) -> Self {
        Self(mbps * 1_000_000)
    }

    /// Return the time to send `bytes` at this rate, rounded down [ns]; `Nanos::MAX` at rate zero.
    #[must_use]
    pub const fn time_for(self, bytes: Bytes) -> Nanos {
        if self.0 == 0 {
            return Nanos::MAX;
        }
        Nanos(mul_div_u64(bytes.0, 8 * NANOS_PER_SEC, self.0))
    }

    /// Return the bytes sent at this rate in `span`, rounded down.
    #[must_use]
    pub const fn bytes_in(self, span: Nanos) -> Bytes {
        Bytes(mul_div_u64(self.0, span.0, 8 * NANOS_PER_SEC))
    }

    /// Return the rate that delivers `bytes` in `span`, rounded down; zero for an empty span.
    #[must_use]
    pub const fn of(bytes: Bytes, span: Nanos) -> Self {
        if span.0 == 0 {
            return Self(0);
        }
        Self(mul_div_u64(bytes.0, 8 * NANOS_PER_SEC, span.0))
    }

    /// Return this rate times `num / den`, rounded down.
    #[must_use]
    pub const fn mul_div(self, num: u64, den: u64) -> Self {
        Self(mul_div_u64(self.0, num, den))
    }
}

/// Return `a * b / den`, rounded down, saturating. Uses the faster 64-bit division if the product fits.
const fn mul_div_u64(a: u64, b: u64, den: u64) -> u64 {
    if let Some(product) = a.checked_mul(b) {
        return product / den;
    }
    let wide = a as u128 * b as u128 / den as u128;
    if wide > u64::MAX as u128 {
        u64::MAX
    } else {
        #[allow(clippy::cast_possible_truncation)] // checked above
        {
            wide as u64
        }
    }
}

impl Bytes {
    /// Zero bytes.
    pub const ZERO: Self = Self(0);
    /// The largest amount; means "unlimited".
    pub const MAX: Self = Self(u64::MAX);

    /// Return the difference, at least zero.
    #[must_use]
    pub const fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl Angle {
    /// Convert from degrees.
    #[must_use]
    pub fn from_deg(deg: f64) -> Self {
        Self { radians: deg * (std::f64::consts::PI / 180.0) }
    }

    /// Convert from radians.
    #[must_use]
    pub const fn from_rad(radians: f64) -> Self {
        Self { radians }
    }

    /// Convert to degrees.
    #[must_use]
    pub fn deg(self) -> f64 {
        self.radians * (180.0 / std::f64::consts::PI)
    }

    /// Convert to radians.
    #[must_use]
    pub const fn rad(self) -> f64 {
        self.radians
    }
}

macro_rules! span_ops {
    ($($t:ident)*) => {$(
        impl Add for $t { type Output = Self; fn add(self, o: Self) -> Self { Self(self.0 + o.0) } }
        impl Sub for $t { type Output = Self; fn sub(self, o: Self) -> Self { Self(self.0 - o.0) } }
        impl AddAssign for $t { fn add_assign(&mut self, o: Self) { self.0 += o.0; } }
        impl SubAssign for $t { fn sub_assign(&mut self, o: Self) { self.0 -= o.0; } }
    )*};
}
span_ops!(Nanos Bytes Rate);

impl Add<Nanos> for Time {
    type Output = Self;
    fn add(self, span: Nanos) -> Self {
        Self(self.0.saturating_add(span.0))
    }
}

impl fmt::Debug for Nanos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ns", self.0)
    }
}

impl fmt::Debug for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "t={:.9} s", self.as_secs_f64())
    }
}

impl fmt::Debug for Utc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unix {:.9} s", self.as_secs_f64())
    }
}

impl fmt::Debug for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bit/s", self.0)
    }
}

impl fmt::Debug for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} B", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_1500_byte_packet_takes_120_us_at_100_mbps() {
        assert_eq!(Rate::from_mbps(100).time_for(Bytes(1500)), Nanos::from_micros(120));
        assert_eq!(Rate(0).time_for(Bytes(1)), Nanos::MAX);
    }

    #[test]
    fn nanos_refuse_nan_and_negative() {
        assert_eq!(Nanos::from_secs_f64(f64::NAN), None);
        assert_eq!(Nanos::from_secs_f64(-1e-9), None);
        assert_eq!(Nanos::from_secs_f64(f64::INFINITY), None);
        assert_eq!(Nanos::from_secs_f64(0.3), Some(Nanos(300_000_000)));
    }

    proptest! {
        #[test]
        fn seconds_round_trip_to_the_nanosecond(ns in 0_u64..2_000_000 * NANOS_PER_SEC) {
            prop_assert_eq!(Nanos::from_secs_f64(Nanos(ns).as_secs_f64()), Some(Nanos(ns)));
        }

        #[test]
        fn rate_of_bytes_in_time_is_the_rate(rate in 1_000_u64..100_000_000_000, ns in 1_000_000_u64..100_000_000_000) {
            let bytes = Rate(rate).bytes_in(Nanos(ns));
            let back = Rate::of(bytes, Nanos(ns));
            prop_assert!(back.0 <= rate);
            prop_assert!(rate - back.0 <= 8 * NANOS_PER_SEC / ns + 1);
        }
    }
}
