//! Constellations built from their filings: Walker shells and geostationary satellites, as elements for SGP4.

use crate::elements::Elements;
use crate::error::{OrbitError, in_range};
use crate::frames::gmst_rad;
use crate::isl::PlusGrid;
use bentpipe_profile::Utc;
use serde::{Deserialize, Serialize};

/// Gravitational parameter of WGS72 [km³/s²] (Vallado et al., AIAA 2006-6753, Table 1).
const WGS72_MU_KM3_S2: f64 = 398_600.8;
/// Ratio of WGS72's zonal harmonics, J₃ / J₂ (same table).
const WGS72_J3_OVER_J2: f64 = -0.000_002_538_81 / 0.001_082_616;
/// Rotations of the Earth relative to the stars in a day (Aoki et al., 1982): a geostationary satellite's mean motion [rev/day].
const SIDEREAL_REV_DAY: f64 = 1.002_737_909_35;

/// One Walker shell, i : t / p / f in Walker's notation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WalkerShell {
    /// Prefix of the satellites' names: `PREFIX-plane-slot`, both from 0.
    pub name: String,
    /// Range of right ascension of the ascending nodes [deg]: 360 is a Walker delta, about 180 a Walker star.
    pub raan_spread_deg: f64,
    /// Mean altitude above the equatorial radius of WGS72 [km].
    pub altitude_km: f64,
    /// Inclination [deg].
    pub inclination_deg: f64,
    /// Planes.
    pub planes: u32,
    /// Satellites in a plane.
    pub per_plane: u32,
    /// Walker's f: a satellite is f × 360° / t ahead of its neighbour in the plane to the west.
    pub phasing: f64,
    /// Right ascension of plane 0 at the epoch [deg].
    pub first_raan_deg: f64,
    /// Catalogue number of the first satellite; the others follow.
    pub first_norad_id: u64,
}

impl WalkerShell {
    /// Return the number of satellites.
    #[must_use]
    pub fn len(&self) -> usize {
        self.planes as usize * self.per_plane as usize
    }

    /// Return the +Grid of the shell with links to the nearest slots of the neighbouring planes.
    ///
    /// # Errors
    /// [`OrbitError::GridSize`] for an empty shell.
    #[allow(clippy::cast_possible_truncation)] // at most the number of satellites, which is checked
    pub fn nearest_grid(&self) -> Result<PlusGrid, OrbitError> {
        // The same slot of the next plane is this many slots ahead; across the seam, plane 0 is behind by all planes but one.
        let ahead = self.phasing / f64::from(self.planes);
        let seam_ahead = ahead - self.phasing;
        let grid = PlusGrid::new(self.planes as usize, self.per_plane as usize, self.len())?;
        Ok(grid.shifted(-ahead.round() as i64, -seam_ahead.round() as i64))
    }

    /// Return whether the shell is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Return the shell's elements at `epoch`, plane by plane, slot by slot.
    ///
    /// **Altitude.** The mean motion is Kepler's for a semi-major axis of the equatorial radius plus the altitude, with WGS72's gravity: 550 km give
    /// 15.055 revolutions a day. SGP4 takes it as Kozai's mean motion, so the mean radius is within 0.2 km of the given one at 53° and
    /// within 3.5 km at any inclination (tested below).
    ///
    /// **Circular.** With zero eccentricity SGP4's J₃ term would vary the altitude by ± 6 km in each orbit. The elements therefore carry the
    /// eccentricity that cancels that term (perigee at −90°, e = −½ J₃/J₂ sin i / a, about 8.6e-4): the orbit is as circular as J₂ allows.
    ///
    /// # Errors
    /// [`OrbitError::OutOfRange`] for an altitude outside 160–50,000 km, an inclination outside 0–180° or a shell without satellites or with more
    /// than a million.
    pub fn elements(&self, epoch: Utc) -> Result<Vec<Elements>, OrbitError> {
        in_range("altitude of a shell", self.altitude_km, 160.0..=50_000.0, "160 to 50000 km")?;
        in_range("inclination of a shell", self.inclination_deg, 0.0..=180.0, "0 to 180 degrees")?;
        in_range("satellites in a shell", self.len() as f64, 1.0..=1e6, "1 to 1000000")?;
        in_range("phasing of a shell", self.phasing, 0.0..=1e6, "0 or more")?;
        let axis_km = crate::propagate::WGS72_RADIUS_KM + self.altitude_km;
        let mean_motion_rev_day = (WGS72_MU_KM3_S2 / axis_km.powi(3)).sqrt() * 86_400.0 / std::f64::consts::TAU;
        let axis_er = axis_km / crate::propagate::WGS72_RADIUS_KM;
        let eccentricity = -0.5 * WGS72_J3_OVER_J2 * self.inclination_deg.to_radians().sin() / axis_er;
        in_range("spread of the nodes", self.raan_spread_deg, 0.0..=360.0, "0 to 360 degrees")?;
        let total = f64::from(self.planes) * f64::from(self.per_plane);
        let satellite = |plane: u32, slot: u32| {
            // From the ascending node; the perigee at 270° is subtracted again.
            let along_deg = 360.0 * (f64::from(slot) / f64::from(self.per_plane) + self.phasing * f64::from(plane) / total);
            Elements {
                name: format!("{}-{plane:02}-{slot:02}", self.name),
                norad_id: self.first_norad_id + u64::from(plane) * u64::from(self.per_plane) + u64::from(slot),
                designator: None,
                epoch,
                mean_motion_rev_day,
                eccentricity,
                inclination_deg: self.inclination_deg,
                raan_deg: (self.first_raan_deg + self.raan_spread_deg * f64::from(plane) / f64::from(self.planes)).rem_euclid(360.0),
                arg_perigee_deg: 270.0,
                mean_anomaly_deg: (along_deg - 270.0).rem_euclid(360.0),
                bstar_per_er: 0.0,
            }
        };
        Ok((0..self.planes).flat_map(|plane| (0..self.per_plane).map(move |slot| (plane, slot))).map(|(p, s)| satellite(p, s)).collect())
    }
}

/// Return a geostationary satellite above `longitude_deg` at `epoch`.
///
/// # Errors
/// [`OrbitError::OutOfRange`] for a longitude outside −360…360°.
pub fn geostationary(name: &str, norad_id: u64, longitude_deg: f64, epoch: Utc) -> Result<Elements, OrbitError> {
    in_range("longitude", longitude_deg, -360.0..=360.0, "-360 to 360 degrees")?;
    Ok(Elements {
        name: name.to_owned(),
        norad_id,
        designator: None,
        epoch,
        mean_motion_rev_day: SIDEREAL_REV_DAY,
        eccentricity: 0.0,
        inclination_deg: 0.0,
        raan_deg: 0.0,
        arg_perigee_deg: 0.0,
        mean_anomaly_deg: (gmst_rad(epoch).to_degrees() + longitude_deg).rem_euclid(360.0),
        bstar_per_er: 0.0,
    })
}

/// The inter-satellite links of a shell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ShellLinks {
    /// None.
    None,
    /// To the neighbours in the plane.
    Ring,
    /// To the neighbours in the plane and to the nearest slots of the planes beside it.
    Grid,
}

/// A part of a constellation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Shell {
    /// A Walker shell.
    Walker {
        /// The shell.
        shell: WalkerShell,
        /// The links of its satellites.
        links: ShellLinks,
    },
    /// A geostationary satellite.
    Geostationary {
        /// Name.
        name: String,
        /// Catalogue number.
        norad_id: u64,
        /// Longitude [deg east].
        longitude_deg: f64,
    },
}

/// Return the elements and links of a constellation of several shells, in order; the links go to the nearest slots. The epoch of Walker shells is `epoch`. Geostationary satellites are at
/// their longitude at `station_kept_at`. A real one keeps its station, but SGP4 without manoeuvres would let it drift half way round the Earth within a
/// year, so `station_kept_at` must be within days of the requested times.
///
/// # Errors
/// As [`WalkerShell::elements`] and [`geostationary`].
pub fn constellation(shells: &[Shell], epoch: Utc, station_kept_at: Utc) -> Result<(Vec<Elements>, Vec<PlusGrid>), OrbitError> {
    let (mut elements, mut grids) = (Vec::new(), Vec::new());
    for shell in shells {
        match shell {
            Shell::Walker { shell, links } => {
                let satellites = shell.elements(epoch)?;
                let grid = shell.nearest_grid()?.starting_at(elements.len());
                match links {
                    ShellLinks::None => {}
                    ShellLinks::Ring => grids.push(grid.in_rings()),
                    ShellLinks::Grid => grids.push(grid),
                }
                elements.extend(satellites);
            }
            Shell::Geostationary { name, norad_id, longitude_deg } => {
                elements.push(geostationary(name, *norad_id, *longitude_deg, station_kept_at)?);
            }
        }
    }
    Ok((elements, grids))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frames::{dot, ecef_to_geodetic, norm, teme_to_ecef};
    use crate::propagate::{Propagator, WGS72_RADIUS_KM};
    use proptest::prelude::*;

    const EPOCH: Utc = Utc(1_778_403_600_000_000_000);

    fn shell(altitude_km: f64, inclination_deg: f64) -> WalkerShell {
        WalkerShell {
            name: "S".to_owned(),
            raan_spread_deg: 360.0,
            altitude_km,
            inclination_deg,
            planes: 72,
            per_plane: 22,
            phasing: 1.0,
            first_raan_deg: 0.0,
            first_norad_id: 90_000,
        }
    }

    #[test]
    fn starlink_s1_flies_at_550_km_with_15_055_revolutions_a_day() {
        let elements = shell(550.0, 53.0).elements(EPOCH).unwrap();
        assert_eq!(elements.len(), 1584);
        assert!((elements[0].mean_motion_rev_day - 15.055).abs() < 5e-4, "{}", elements[0].mean_motion_rev_day);
        assert_eq!((elements[0].name.as_str(), elements[1583].name.as_str()), ("S-00-00", "S-71-21"));
        assert_eq!(elements[22].norad_id, 90_022);
    }

    #[test]
    fn the_orbit_has_the_given_altitude_and_is_circular() {
        for (altitude, inclination, mean_within, variation_within) in
            [(550.0, 53.0, 0.2, 1.5), (560.0, 97.6, 2.0, 3.0), (1200.0, 87.9, 2.0, 3.0), (630.0, 5.0, 3.5, 3.0)]
        {
            let satellite = Propagator::new(&shell(altitude, inclination).elements(EPOCH).unwrap()[30]).unwrap();
            let altitudes: Vec<f64> =
                (0..960).map(|i| norm(satellite.state_at_minutes(f64::from(i) * 0.1).unwrap().position_km) - WGS72_RADIUS_KM).collect();
            let mean = altitudes.iter().sum::<f64>() / 960.0;
            let variation = altitudes.iter().map(|a| (a - mean).abs()).fold(0.0, f64::max);
            assert!((mean - altitude).abs() < mean_within, "{altitude} km at {inclination}°: mean {mean}");
            assert!(variation < variation_within, "{altitude} km at {inclination}°: varies by {variation} km");
        }
    }

    #[test]
    fn a_geostationary_satellite_stays_above_its_longitude() {
        let satellite = Propagator::new(&geostationary("GEO", 1, -137.5, EPOCH).unwrap()).unwrap();
        for hours in [0, 5, 12, 24, 7 * 24] {
            let at = Utc(EPOCH.0 + hours * 3_600_000_000_000);
            let below = ecef_to_geodetic(teme_to_ecef(satellite.state(at).unwrap().position_km, gmst_rad(at)));
            assert!((below.lon_deg + 137.5).abs() < 0.1 && below.lat_deg.abs() < 0.1, "{below:?}");
            assert!((below.alt_m / 1000.0 - 35_786.0).abs() < 30.0, "{below:?}");
        }
    }

    #[test]
    fn a_constellation_keeps_the_order_and_links_of_its_shells() {
        let walker = |links| Shell::Walker { shell: WalkerShell { planes: 3, per_plane: 4, ..shell(550.0, 53.0) }, links };
        let geo = Shell::Geostationary { name: "GEO".to_owned(), norad_id: 7, longitude_deg: 10.0 };
        let (elements, grids) = constellation(&[walker(ShellLinks::None), geo, walker(ShellLinks::Grid)], EPOCH, Utc(EPOCH.0 + 1)).unwrap();
        assert_eq!((elements.len(), elements[12].name.as_str()), (25, "GEO"));
        assert_eq!((elements[11].epoch, elements[12].epoch, elements[13].epoch), (EPOCH, Utc(EPOCH.0 + 1), EPOCH));
        assert_eq!(grids, [PlusGrid::new(3, 4, 12).unwrap().starting_at(13).shifted(0, 1)]);
        let rings = constellation(&[walker(ShellLinks::Ring)], EPOCH, EPOCH).unwrap().1;
        assert_eq!(rings[0].links(), [(0, 1), (0, 3), (1, 2), (2, 3), (4, 5), (4, 7), (5, 6), (6, 7), (8, 9), (8, 11), (9, 10), (10, 11)]);
    }

    proptest! {
        /// No slot of a neighbouring plane is more than half a slot nearer along the orbit, on either side of the seam.
        #[test]
        fn links_between_planes_go_to_the_nearest_slot(planes in 3_u32..40, per_plane in 3_u32..30, phasing in 0_u32..40) {
            let phasing = f64::from(phasing % planes);
            let shell = WalkerShell { planes, per_plane, phasing, ..shell(550.0, 53.0) };
            let grid = shell.nearest_grid().unwrap();
            let along = |index: usize| {
                let (plane, slot) = (index / per_plane as usize, index % per_plane as usize);
                slot as f64 + phasing * plane as f64 / f64::from(planes)
            };
            for a in grid.satellites() {
                let ahead = along(grid.neighbours(a)[2]) - along(a);
                let wrapped = ahead - (ahead / f64::from(per_plane)).round() * f64::from(per_plane);
                prop_assert!(wrapped.abs() <= 0.5 + 1e-9, "{} {}", a, wrapped);
            }
        }

        #[test]
        fn neighbours_in_a_plane_are_equally_far_apart(planes in 1_u32..12, per_plane in 2_u32..30, phasing in 0.0..5.0_f64, plane in 0_u32..12) {
            let shell = WalkerShell { planes, per_plane, phasing, ..shell(550.0, 53.0) };
            let elements = shell.elements(EPOCH).unwrap();
            prop_assert_eq!(elements.len(), shell.len());
            let plane = plane % planes;
            let at = |slot: u32| {
                let e = &elements[(plane * per_plane + slot % per_plane) as usize];
                Propagator::new(e).unwrap().state_at_minutes(0.0).unwrap().position_km
            };
            let angle = |a: [f64; 3], b: [f64; 3]| (dot(a, b) / norm(a) / norm(b)).clamp(-1.0, 1.0).acos().to_degrees();
            let expected = 360.0 / f64::from(per_plane);
            for slot in 0..per_plane {
                let spacing = angle(at(slot), at(slot + 1));
                prop_assert!((spacing - expected.min(360.0 - expected)).abs() < 0.1, "{} {}", spacing, expected);
            }
        }
    }
}
