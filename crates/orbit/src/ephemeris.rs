//! Earth-fixed positions of many satellites at a block of times.

use crate::frames::gmst_rad;
use crate::propagate::{BLOCK, BlockKm, Propagator};
use bentpipe_profile::Utc;

/// Largest number of times in one block.
pub const TIMES_PER_BLOCK: usize = BLOCK;

/// Earth-fixed positions [km] of all satellites at up to [`TIMES_PER_BLOCK`] times; NaN: the satellite cannot be propagated.
#[derive(Clone, Debug, Default)]
pub struct EcefBlock {
    satellites: usize,
    positions_km: Vec<[f64; 3]>,
}

impl EcefBlock {
    /// Fill the block. Reuses its memory.
    ///
    /// # Panics
    /// With more than [`TIMES_PER_BLOCK`] times. Callers split their times into chunks of that length.
    pub fn fill(&mut self, satellites: &[Propagator], times: &[Utc]) {
        assert!(times.len() <= BLOCK, "at most {BLOCK} times in a block");
        self.satellites = satellites.len();
        self.positions_km.clear();
        self.positions_km.resize(satellites.len() * times.len(), [f64::NAN; 3]);
        let Some(&last) = times.last() else { return };
        let at: [Utc; BLOCK] = std::array::from_fn(|i| times.get(i).copied().unwrap_or(last));
        let rotation = at.map(|t| gmst_rad(t).sin_cos());
        let mut teme = BlockKm::default();
        for (index, satellite) in satellites.iter().enumerate() {
            if times.len() == 1 {
                // For a single time the rest of a block would be computed in vain.
                if let Ok(state) = satellite.state(last) {
                    let [x, y, z] = state.position_km;
                    let (s, c) = rotation[0];
                    self.positions_km[index] = [c * x + s * y, c * y - s * x, z];
                }
                continue;
            }
            satellite.positions(&at.map(|t| satellite.minutes(t)), &mut teme);
            for (i, &(s, c)) in rotation[..times.len()].iter().enumerate() {
                let (x, y) = (teme.x[i], teme.y[i]);
                self.positions_km[i * satellites.len() + index] = [c * x + s * y, c * y - s * x, teme.z[i]];
            }
        }
    }

    /// Return the positions of all satellites at the `time`-th of the filled times.
    #[must_use]
    pub fn at(&self, time: usize) -> &[[f64; 3]] {
        &self.positions_km[time * self.satellites..(time + 1) * self.satellites]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frames::{norm, sub, teme_to_ecef};
    use crate::walker::{WalkerShell, geostationary};

    #[test]
    fn block_positions_equal_single_positions_in_earth_fixed_coordinates() {
        let epoch = Utc(1_778_403_600_000_000_000);
        let shell = WalkerShell {
            name: "S".to_owned(),
            raan_spread_deg: 180.0,
            altitude_km: 1200.0,
            inclination_deg: 87.9,
            planes: 3,
            per_plane: 4,
            phasing: 1.0,
            first_raan_deg: 20.0,
            first_norad_id: 1,
        };
        let elements = [shell.elements(epoch).unwrap(), vec![geostationary("GEO", 100, 20.0, epoch).unwrap()]].concat();
        let satellites = Propagator::all(&elements).unwrap();
        let times: Vec<Utc> = (0_i64..).take(TIMES_PER_BLOCK).map(|i| Utc(epoch.0 + i * 7_300_000_000)).collect();
        let (mut block, mut single) = (EcefBlock::default(), EcefBlock::default());
        block.fill(&satellites, &times);
        for (i, &t) in times.iter().enumerate() {
            single.fill(&satellites, &[t]);
            for (k, satellite) in satellites.iter().enumerate() {
                let expected = teme_to_ecef(satellite.state(t).unwrap().position_km, gmst_rad(t));
                assert!(norm(sub(block.at(i)[k], expected)) < 1e-8);
                assert!(norm(sub(single.at(0)[k], expected)) < 1e-8);
            }
        }
    }
}
