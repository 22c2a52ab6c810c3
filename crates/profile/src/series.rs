//! A value over time, with the intervals in which it is known.

use crate::error::ProfileError;
use crate::units::{Nanos, Time};
use std::sync::Arc;

/// How a series is interpolated between its points.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interpolation {
    /// Linear to the next point (delay).
    Linear,
    /// Value of the last point (capacity, loss).
    Step,
}

/// An integer value over time: delay [ns], capacity [bit/s] or loss probability [1e-9].
///
/// The first value also holds before the first point, the last value after the last point. A point whose `valid` is false opens a gap that lasts to
/// the next valid point. In a gap the value can still be read (drivers use the last known one), but [`Series::is_valid`] is false: it was not measured.
/// Clones share the points.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Series(Points);

/// The points of a series.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Points {
    /// A valid one at zero. It has no memory of its own, which a simulation of many links would have to load for each packet.
    Constant(u64),
    /// Any others.
    Several(Interpolation, Arc<[Point]>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Point {
    at: Time,
    value: u64,
    valid: bool,
}

/// The last position of a reader in a series. Readers move forward in time, so finding the next point takes a step, not a search.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cursor(usize);

impl Series {
    /// Create a series from its points. `name`: `hop/direction/kind`, for error messages.
    ///
    /// # Errors
    /// No points, or times that do not increase.
    pub fn new(
        name: &str,
        interpolation: Interpolation,
        times: Vec<Time>,
        values: Vec<u64>,
        valid: Vec<bool>,
    ) -> Result<Self, ProfileError> {
        if times.is_empty() {
            return Err(ProfileError::EmptySeries { series: name.to_owned(), kind: "delay, capacity or loss" });
        }
        for (column, rows) in [("value", values.len()), ("valid", valid.len())] {
            if rows != times.len() {
                return Err(ProfileError::UnequalColumns { column, rows, expected: times.len() });
            }
        }
        if let Some(row) = (1..times.len()).find(|&i| times[i] <= times[i - 1]) {
            return Err(ProfileError::TimesNotIncreasing {
                series: name.to_owned(),
                row,
                at_s: times[row].as_secs_f64(),
                before_s: times[row - 1].as_secs_f64(),
            });
        }
        // A single point means the same with either interpolation. One form makes equal series compare equal.
        let interpolation = if times.len() == 1 { Interpolation::Step } else { interpolation };
        if (times.as_slice(), valid.as_slice()) == (&[Time::ZERO], &[true]) {
            return Ok(Self::constant(values[0]));
        }
        let points = times.into_iter().zip(values).zip(valid).map(|((at, value), valid)| Point { at, value, valid });
        Ok(Self(Points::Several(interpolation, points.collect())))
    }

    /// Create a constant series.
    #[must_use]
    pub const fn constant(value: u64) -> Self {
        Self(Points::Constant(value))
    }

    /// Create a stepped series from `(time, value)` points.
    ///
    /// # Errors
    /// As [`Series::new`].
    pub fn steps(name: &str, points: &[(Time, u64)]) -> Result<Self, ProfileError> {
        Self::from_points(name, Interpolation::Step, points)
    }

    /// Create a linearly interpolated series from `(time, value)` points.
    ///
    /// # Errors
    /// As [`Series::new`].
    pub fn linear(name: &str, points: &[(Time, u64)]) -> Result<Self, ProfileError> {
        Self::from_points(name, Interpolation::Linear, points)
    }

    fn from_points(name: &str, interpolation: Interpolation, points: &[(Time, u64)]) -> Result<Self, ProfileError> {
        let (times, values): (Vec<_>, Vec<_>) = points.iter().copied().unzip();
        let valid = vec![true; times.len()];
        Self::new(name, interpolation, times, values, valid)
    }

    /// Return the value at `at`. `cursor` stores the position; it may also move back.
    #[must_use]
    #[inline]
    pub fn at(&self, cursor: &mut Cursor, at: Time) -> u64 {
        match &self.0 {
            Points::Constant(value) => *value,
            Points::Several(interpolation, points) => value_at(*interpolation, points, cursor, at),
        }
    }

    /// Return the time of the next point after `at`; `None`: there is none.
    #[must_use]
    #[inline]
    pub fn next_change(&self, cursor: &mut Cursor, at: Time) -> Option<Time> {
        let Points::Several(_, points) = &self.0 else { return None };
        let i = seek(points, cursor, at);
        if at < points[i].at {
            return Some(points[i].at);
        }
        points.get(i + 1).map(|point| point.at)
    }

    /// Return whether the value at `at` was measured or computed (not in a gap).
    #[must_use]
    pub fn is_valid(&self, cursor: &mut Cursor, at: Time) -> bool {
        match &self.0 {
            Points::Constant(_) => true,
            Points::Several(_, points) => points[seek(points, cursor, at)].valid,
        }
    }

    /// Return the intervals within `0..span` in which the value is known, as `(from, to)`.
    #[must_use]
    pub fn valid_intervals(&self, span: Nanos) -> Vec<(Time, Time)> {
        let end = Time::ZERO + span;
        let mut out: Vec<(Time, Time)> = Vec::new();
        let nexts = self.points().skip(1).map(|(at, ..)| at).chain([end]);
        for (i, ((at, _, valid), next)) in self.points().zip(nexts).enumerate() {
            let from = if i == 0 { Time::ZERO } else { at };
            let to = next.min(end);
            if !valid || to <= from {
                continue;
            }
            match out.last_mut() {
                Some(last) if last.1 == from => last.1 = to,
                _ => out.push((from, to)),
            }
        }
        out
    }

    /// Return the interpolation between points.
    #[must_use]
    pub const fn interpolation(&self) -> Interpolation {
        match &self.0 {
            Points::Constant(_) => Interpolation::Step,
            Points::Several(interpolation, _) => *interpolation,
        }
    }

    /// Iterate over the points: time, value, valid.
    #[must_use]
    pub fn points(&self) -> impl ExactSizeIterator<Item = (Time, u64, bool)> + '_ {
        (0..self.len()).map(|i| match &self.0 {
            Points::Constant(value) => (Time::ZERO, *value, true),
            Points::Several(_, points) => (points[i].at, points[i].value, points[i].valid),
        })
    }

    /// Return the number of points (never 0).
    #[must_use]
    #[allow(clippy::len_without_is_empty)] // empty cannot be built
    pub fn len(&self) -> usize {
        match &self.0 {
            Points::Constant(_) => 1,
            Points::Several(_, points) => points.len(),
        }
    }

    /// Return the largest value of all points.
    #[must_use]
    pub fn max(&self) -> u64 {
        self.points().map(|(_, value, _)| value).max().unwrap_or(0)
    }

    /// Return the smallest value of all points.
    #[must_use]
    pub fn min(&self) -> u64 {
        self.points().map(|(_, value, _)| value).min().unwrap_or(0)
    }
}

/// Return the value of these points at `at`.
fn value_at(interpolation: Interpolation, points: &[Point], cursor: &mut Cursor, at: Time) -> u64 {
    let i = seek(points, cursor, at);
    let Point { at: from, value, .. } = points[i];
    let (Interpolation::Linear, Some(&Point { at: to, value: next, .. })) = (interpolation, points.get(i + 1)) else {
        return value;
    };
    if at <= from {
        return value; // before the first point
    }
    let (elapsed, span) = (at.0 - from.0, to.0 - from.0);
    if next >= value { value + lerp(next - value, elapsed, span) } else { value - lerp(value - next, elapsed, span) }
}

/// Return the index of the last point at or before `at` (0 if `at` is before the first).
#[inline]
fn seek(points: &[Point], cursor: &mut Cursor, at: Time) -> usize {
    let n = points.len();
    let mut i = cursor.0.min(n - 1);
    if points[i].at > at {
        i = points.partition_point(|point| point.at <= at).saturating_sub(1);
    } else {
        let mut steps = 0;
        while i + 1 < n && points[i + 1].at <= at {
            i += 1;
            steps += 1;
            if steps == 8 {
                i = points.partition_point(|point| point.at <= at) - 1;
                break;
            }
        }
    }
    cursor.0 = i;
    i
}

/// Return `delta * elapsed / span`, rounded down.
#[allow(clippy::cast_possible_truncation)] // elapsed < span, so the result is below delta
fn lerp(delta: u64, elapsed: u64, span: u64) -> u64 {
    match delta.checked_mul(elapsed) {
        Some(product) => product / span,
        None => (u128::from(delta) * u128::from(elapsed) / u128::from(span)) as u64,
    }
}

/// Jitter as a function of time: a grant schedule.
///
/// A closure `(start, length)` holds every packet that arrives in `start..start + length` until `start + length`; outside closures packets pass.
/// Since the ends never decrease, the release time is a non-decreasing function of the arrival time: a ping every second and a 200 Mbit/s flow see the
/// same delay, and no packet overtakes another. (Starlink shares its channels in frames of 1/750 s: Humphreys et al., IEEE TAES 2023.)
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JitterSeries {
    starts: Arc<[Time]>,
    lengths: Arc<[Nanos]>,
}

impl JitterSeries {
    /// Create a schedule from its closures.
    ///
    /// # Errors
    /// Starts that do not increase, or an end before an earlier end.
    pub fn new(name: &str, closures: &[(Time, Nanos)]) -> Result<Self, ProfileError> {
        for (row, pair) in closures.windows(2).enumerate() {
            let ((start, length), (next_start, next_length)) = (pair[0], pair[1]);
            if next_start <= start {
                return Err(ProfileError::TimesNotIncreasing {
                    series: name.to_owned(),
                    row: row + 1,
                    at_s: next_start.as_secs_f64(),
                    before_s: start.as_secs_f64(),
                });
            }
            if next_start + next_length < start + length {
                return Err(ProfileError::GrantsCross {
                    series: name.to_owned(),
                    at_s: next_start.as_secs_f64(),
                    end_s: (next_start + next_length).as_secs_f64(),
                    before_s: (start + length).as_secs_f64(),
                });
            }
        }
        let (starts, lengths): (Vec<_>, Vec<_>) = closures.iter().copied().unzip();
        Ok(Self { starts: starts.into(), lengths: lengths.into() })
    }

    /// Return when a packet that arrives at `at` is released: `at` itself, or the end of the closure it falls into.
    #[must_use]
    pub fn release(&self, cursor: &mut Cursor, at: Time) -> Time {
        let n = self.starts.len();
        if n == 0 || at < self.starts[0] {
            return at;
        }
        let mut i = cursor.0.min(n - 1);
        if self.starts[i] > at || (i + 8 < n && self.starts[i + 8] <= at) {
            i = self.starts.partition_point(|&t| t <= at) - 1;
        } else {
            while i + 1 < n && self.starts[i + 1] <= at {
                i += 1;
            }
        }
        cursor.0 = i;
        (self.starts[i] + self.lengths[i]).max(at)
    }

    /// Iterate over the closures: start and length.
    #[must_use]
    pub fn closures(&self) -> impl ExactSizeIterator<Item = (Time, Nanos)> + '_ {
        (0..self.starts.len()).map(|i| (self.starts[i], self.lengths[i]))
    }

    /// Return whether there are no closures.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.starts.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn t(ms: u64) -> Time {
        Time(ms * 1_000_000)
    }

    #[test]
    fn delay_is_interpolated_and_capacity_is_not() {
        let delay = Series::linear("d", &[(t(0), 100), (t(10), 200), (t(20), 0)]).unwrap();
        let mut c = Cursor::default();
        assert_eq!(delay.at(&mut c, t(5)), 150);
        assert_eq!(delay.at(&mut c, t(15)), 100);
        assert_eq!(delay.at(&mut c, t(99)), 0);
        assert_eq!(delay.at(&mut c, t(0)), 100);
        let steps = Series::steps("c", &[(t(0), 100), (t(10), 200)]).unwrap();
        assert_eq!(steps.at(&mut Cursor::default(), t(9)), 100);
        assert_eq!(steps.next_change(&mut Cursor::default(), t(9)), Some(t(10)));
        assert_eq!(steps.next_change(&mut Cursor::default(), t(10)), None);
    }

    #[test]
    fn times_must_increase() {
        let error = Series::steps("sat:1/up/delay_s", &[(t(5), 1), (t(5), 2)]).unwrap_err();
        assert!(error.to_string().contains("sat:1/up/delay_s: row 1 is at 0.005 s"), "{error}");
        assert!(Series::steps("x", &[]).is_err());
    }

    #[test]
    fn values_in_a_gap_are_not_valid() {
        let s = Series::new("s", Interpolation::Linear, vec![t(0), t(10), t(20)], vec![1, 2, 3], vec![true, false, true]).unwrap();
        assert_eq!(s.valid_intervals(Nanos::from_millis(30)), vec![(t(0), t(10)), (t(20), t(30))]);
        assert!(!s.is_valid(&mut Cursor::default(), t(15)));
        assert!(s.is_valid(&mut Cursor::default(), t(25)));
    }

    #[test]
    fn closures_whose_ends_decrease_are_refused() {
        let ms = Nanos::from_millis;
        assert!(JitterSeries::new("j", &[(t(0), ms(10)), (t(5), ms(4))]).is_err());
        assert!(JitterSeries::new("j", &[(t(0), ms(10)), (t(5), ms(5))]).is_ok());
    }

    /// A constant is one point at zero, however it is made.
    #[test]
    fn a_valid_point_at_zero_is_a_constant() {
        let made = |at, valid| Series::new("s", Interpolation::Linear, vec![t(at)], vec![7], vec![valid]).unwrap();
        assert_eq!(made(0, true), Series::constant(7));
        assert_eq!(made(0, true).points().collect::<Vec<_>>(), [(t(0), 7, true)]);
        assert_eq!(made(0, true).valid_intervals(Nanos::from_millis(5)), [(t(0), t(5))]);
        for other in [made(1, true), made(0, false)] {
            assert_ne!(other, Series::constant(7));
            assert_eq!((other.at(&mut Cursor::default(), t(9)), other.next_change(&mut Cursor::default(), t(9))), (7, None));
        }
    }

    proptest! {
        #[test]
        fn a_cursor_never_changes_the_value(
            gaps in prop::collection::vec(1_u64..1000, 1..60),
            reads in prop::collection::vec(0_u64..40_000, 1..60),
        ) {
            let mut at = 0;
            let points: Vec<_> = gaps.iter().enumerate().map(|(i, g)| { at += g; (Time(at), (i as u64 * 7919) % 1000) }).collect();
            for series in [Series::linear("l", &points).unwrap(), Series::steps("s", &points).unwrap()] {
                let mut reused = Cursor::default();
                for &r in &reads {
                    prop_assert_eq!(series.at(&mut reused, Time(r)), series.at(&mut Cursor::default(), Time(r)));
                }
            }
        }

        #[test]
        fn grant_jitter_never_reorders(
            steps in prop::collection::vec((1_u64..2000, 0_u64..3000), 1..80),
            arrivals in prop::collection::vec(0_u64..90_000, 2..80),
        ) {
            let (mut at, mut end) = (0, 0);
            let closures: Vec<_> = steps.iter().map(|&(gap, length)| {
                at += gap;
                end = end.max(at + length);
                (Time(at), Nanos(end - at))
            }).collect();
            let jitter = JitterSeries::new("j", &closures).unwrap();
            let mut arrivals = arrivals;
            arrivals.sort_unstable();
            let mut cursor = Cursor::default();
            let out: Vec<_> = arrivals.iter().map(|&a| jitter.release(&mut cursor, Time(a))).collect();
            for (a, o) in arrivals.iter().zip(&out) {
                prop_assert!(o.0 >= *a);
                prop_assert_eq!(*o, jitter.release(&mut Cursor::default(), Time(*a)));
            }
            prop_assert!(out.is_sorted());
        }
    }
}
