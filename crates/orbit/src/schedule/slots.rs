//! The slot grid: UTC times at which the serving satellite may change.

use crate::error::{OrbitError, in_range};
use bentpipe_profile::Utc;
use serde::{Deserialize, Serialize};

/// The slot grid. Slots begin at every UTC time that is `phase_ns` past a multiple of `period_ns` since 1970 (also since each minute, if the period
/// divides one).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SlotGrid {
    /// Duration of a slot [ns].
    pub period_ns: u64,
    /// Start of a slot past a multiple of the period [ns].
    pub phase_ns: u64,
}

impl Default for SlotGrid {
    /// Starlink's: 15 s, at :12, :27, :42 and :57 of each minute.
    ///
    /// Source: Tanveer et al., "Making Sense of Constellations", `CoNEXT` Companion 2023 (arXiv 2307.00402), §3; edges measured on published pings
    /// fall between 11.5 and 12.0 s past the quarter minutes.
    fn default() -> Self {
        Self { period_ns: 15_000_000_000, phase_ns: 12_000_000_000 }
    }
}

impl SlotGrid {
    /// Create a grid.
    ///
    /// # Errors
    /// [`OrbitError::OutOfRange`] for a period outside 0.1–3600 s or a phase that is not below the period.
    pub fn new(period_ns: u64, phase_ns: u64) -> Result<Self, OrbitError> {
        in_range("slot period in seconds", period_ns as f64 / 1e9, 0.1..=3600.0, "0.1 to 3600 s")?;
        if phase_ns >= period_ns {
            return Err(OrbitError::OutOfRange {
                name: "slot phase in seconds",
                value: phase_ns as f64 / 1e9,
                expected: "a phase below the slot's period",
            });
        }
        Ok(Self { period_ns, phase_ns })
    }

    /// Return the number of the slot that contains `at`, counted from the first after 1970.
    #[must_use]
    #[allow(clippy::cast_possible_truncation, clippy::cast_possible_wrap, reason = "periods are at most an hour; the quotient fits")]
    pub fn slot_at(&self, at: Utc) -> i64 {
        (i128::from(at.0) - i128::from(self.phase_ns)).div_euclid(i128::from(self.period_ns)) as i64
    }

    /// Return the start of a slot.
    #[must_use]
    #[allow(clippy::cast_possible_truncation, reason = "slot numbers come from slot_at")]
    pub fn start_of(&self, slot: i64) -> Utc {
        Utc((i128::from(slot) * i128::from(self.period_ns) + i128::from(self.phase_ns)) as i64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn slots_begin_at_12_27_42_and_57() {
        let grid = SlotGrid::default();
        let midnight = 1_778_371_200_000_000_000_i64; // 2026-05-10T00:00:00Z
        for second in [12, 27, 42, 57] {
            let edge = Utc(midnight + second * 1_000_000_000);
            assert_eq!(grid.start_of(grid.slot_at(edge)), edge, "a slot contains its start");
            assert_eq!(grid.slot_at(Utc(edge.0 - 1)), grid.slot_at(edge) - 1, "a slot ends one nanosecond before the next");
        }
    }

    #[test]
    fn invalid_grids_are_refused() {
        assert!(SlotGrid::new(0, 0).is_err());
        assert!(SlotGrid::new(15_000_000_000, 15_000_000_000).is_err());
        assert!(SlotGrid::new(u64::MAX, 0).is_err());
    }

    proptest! {
        #[test]
        fn every_instant_is_in_its_slot(at in any::<i64>(), period_s in 1_u64..3600, phase in 0.0..1.0_f64) {
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
            let grid = SlotGrid::new(period_s * 1_000_000_000, (phase * period_s as f64) as u64 * 1_000_000_000).unwrap();
            prop_assume!(at.checked_sub_unsigned(2 * grid.period_ns).is_some() && at.checked_add_unsigned(2 * grid.period_ns).is_some());
            let start = grid.start_of(grid.slot_at(Utc(at)));
            prop_assert!(start.0 <= at && at - start.0 < i64::try_from(grid.period_ns).unwrap());
        }
    }
}
