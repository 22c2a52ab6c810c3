//! Tests of SGP4 against the published vectors, and of the batch against SGP4.

use super::*;
use crate::elements::read_elements;
use crate::shared_data::shared_data;
use proptest::prelude::*;

/// A TLE, minutes from its epoch, TEME position [km].
type Vector = (&'static str, f64, [f64; 3]);

const TEME_EXAMPLE: &str = "1 00005U 58002B   00179.78495062  .00000023  00000-0  28098-4 0  4753
2 00005  34.2682 348.7242 1859667 331.7664  19.3264 10.82419157413667";
const NEAR_EARTH: &str = "1 06251U 62025E   06176.82412014  .00008885  00000-0  12808-3 0  3985
2 06251  58.0579  54.0425 0030035 139.1568 221.1854 15.56387291  6774";
const MOLNIYA: &str = "1 08195U 75081A   06176.33215444  .00000099  00000-0  11873-3 0   813
2 08195  64.1586 279.0717 6877146 264.7651  20.2257  2.00491383225656";
const GEOSYNCHRONOUS: &str = "1 24208U 96044A   06177.04061740 -.00000094  00000-0  10000-3 0  1600
2 24208   3.8536  80.0121 0026640 311.0977  48.3000  1.00778054 36119";

/// Some of the vectors of Vallado et al., "Revisiting Spacetrack Report #3" (AIAA 2006-6753), so that a checkout without the whole set still tests.
#[allow(clippy::unreadable_literal, reason = "as printed in the report")]
const EMBEDDED: [Vector; 7] = [
    (TEME_EXAMPLE, 0.0, [7022.46529266, -1400.08296755, 0.03995155]),
    (TEME_EXAMPLE, 360.0, [-7154.03120202, -3783.17682504, -3536.19412294]),
    (TEME_EXAMPLE, 1440.0, [-938.55923943, -6268.18748831, -4294.02924751]),
    (NEAR_EARTH, 0.0, [3988.31022699, 5498.96657235, 0.90055879]),
    (NEAR_EARTH, 2880.0, [1159.27802897, 5056.60175495, 4353.49418579]),
    (MOLNIYA, 1440.0, [2890.80638268, -15446.43952300, 948.77010176]),
    (GEOSYNCHRONOUS, 1440.0, [5501.08137100, 41590.27784345, 138.32522930]),
];

fn propagator(tle: &str) -> Propagator {
    let elements = read_elements(tle.as_bytes(), "vectors").expect("published elements");
    Propagator::new(&elements[0]).expect("published elements")
}

fn max_axis_difference_km(a: [f64; 3], b: [f64; 3]) -> f64 {
    (0..3).map(|i| (a[i] - b[i]).abs()).fold(0.0, f64::max)
}

#[test]
fn embedded_vectors_agree_within_a_millimetre() {
    for (tle, minutes, expected) in EMBEDDED {
        let position = propagator(tle).state_at_minutes(minutes).expect("a published vector").position_km;
        assert!(max_axis_difference_km(position, expected) < 1e-6, "{tle} at {minutes} min: {position:?}");
    }
}

/// The expected result of a published case at one time.
enum Expected {
    Position([f64; 3]),
    Error,
}

/// Parse the published cases, as in the `sgp4` crate's repository: `[[list]]` tables with `line1`, `line2` and states.
fn published_cases(text: &str) -> Vec<(String, Vec<(f64, Expected)>)> {
    let quoted = |line: &str| line.split('"').nth(1).expect("a quoted value").to_owned();
    let mut cases: Vec<(String, Vec<(f64, Expected)>)> = Vec::new();
    let mut time = f64::NAN;
    for line in text.lines().map(str::trim) {
        if line.starts_with("line1") {
            cases.push((quoted(line), Vec::new()));
        } else if line.starts_with("line2") {
            let tle = &mut cases.last_mut().expect("line1 comes first").0;
            *tle = format!("{tle}\n{}", quoted(line));
        } else if let Some(value) = line.strip_prefix("time = ") {
            time = value.parse().expect("a number");
        } else if let Some(value) = line.strip_prefix("position = ") {
            let axes: Vec<f64> = value.trim_matches(['[', ']']).split(", ").map(|v| v.parse().expect("a number")).collect();
            cases.last_mut().expect("inside a case").1.push((time, Expected::Position([axes[0], axes[1], axes[2]])));
        } else if line.starts_with("error = ") {
            cases.last_mut().expect("inside a case").1.push((time, Expected::Error));
        }
    }
    cases
}

#[test]
fn all_published_vectors_agree_within_a_millimetre_and_error_cases_fail() {
    let Some(path) = shared_data("sgp4_vectors/test_cases.toml") else { return };
    let text = std::fs::read_to_string(path).unwrap();
    let (mut vectors, mut errors, mut worst_km) = (0, 0, 0.0_f64);
    for (tle, states) in published_cases(&text) {
        let satellite = propagator(&tle);
        for (minutes, expected) in states {
            match (expected, satellite.state_at_minutes(minutes)) {
                (Expected::Position(expected), Ok(state)) => {
                    vectors += 1;
                    worst_km = worst_km.max(max_axis_difference_km(state.position_km, expected));
                }
                (Expected::Error, Err(OrbitError::Propagation { .. })) => errors += 1,
                (Expected::Position(_), Err(error)) => panic!("{tle} at {minutes} min: {error}"),
                (Expected::Error, other) => panic!("{tle} at {minutes} min: expected SGP4's error, not {other:?}"),
            }
        }
    }
    assert_eq!((vectors, errors), (666, 2));
    assert!(worst_km < 1e-6, "{worst_km} km");
}

#[test]
fn a_decayed_satellite_is_refused_with_its_age() {
    // Perigee 51 km below the surface: the published case 28872, lost about 50 minutes after its epoch.
    let satellite = propagator(
        "1 28872U 05037B   05333.02012661  .25992681  00000-0  24476-3 0  1534
2 28872  96.4736 157.9986 0303955 244.0492 110.6523 16.46015938 10708",
    );
    let error = satellite.state_at_minutes(60.0).expect_err("it has hit the ground");
    assert!(matches!(error, OrbitError::Decayed { norad_id: 28872, .. }), "{error}");
    assert!(error.to_string().contains("decayed"));
    let mut block = BlockKm::default();
    satellite.positions(&[60.0; BLOCK], &mut block);
    assert!(block.x[0].is_nan() && block.z[BLOCK - 1].is_nan());
}

#[test]
fn a_diverged_state_is_refused_with_its_age() {
    let satellite = propagator(NEAR_EARTH);
    // Backward in time the polynomials that stand for drag grow without bound: decades before the epoch the position is not on an orbit.
    let minutes = -40.0 * 365.25 * 1440.0;
    let error = satellite.state_at_minutes(minutes).expect_err("it was never out there");
    assert!(matches!(error, OrbitError::Diverged { norad_id: 6251, .. }), "{error}");
    assert!(error.to_string().contains("SGP4 diverges: -14610.0 days"), "{error}");
    let mut block = BlockKm::default();
    satellite.positions(&[minutes; BLOCK], &mut block);
    assert!(block.x[0].is_nan() && block.z[BLOCK - 1].is_nan());
    // The fast path refuses it too: a bound below the orbit makes every position NaN.
    let near_earth = NearEarth::new(&satellite.constants, 6400.0).expect("near the Earth");
    near_earth.positions(&[0.0; BLOCK], &mut block);
    assert!(block.x[0].is_nan());
    satellite.positions(&[0.0; BLOCK], &mut block);
    assert!((block.x[0] - 3_988.310_227).abs() < 1e-3);
}

#[test]
fn near_earth_satellites_take_the_fast_path_and_deep_space_does_not() {
    assert!(propagator(NEAR_EARTH).near_earth.is_some(), "the sgp4 crate's serialised constants changed");
    assert!(propagator(TEME_EXAMPLE).near_earth.is_some(), "the sgp4 crate's serialised constants changed");
    assert!(propagator(MOLNIYA).near_earth.is_none());
}

fn low_orbit() -> impl Strategy<Value = Elements> {
    let angles = (0.0..180.0_f64, 0.0..360.0_f64, 0.0..360.0_f64, 0.0..360.0_f64);
    let shape = (6.5..16.4_f64, prop_oneof![0.0..1e-4_f64, 1e-4..1e-2_f64, 1e-2..0.3_f64], -1e-3..1e-3_f64);
    (angles, shape).prop_map(
        |((inclination_deg, raan_deg, arg_perigee_deg, mean_anomaly_deg), (mean_motion_rev_day, eccentricity, bstar_per_er))| Elements {
            name: "random".to_owned(),
            norad_id: 1,
            designator: None,
            epoch: Utc(1_770_000_000_000_000_000),
            mean_motion_rev_day,
            eccentricity,
            inclination_deg,
            raan_deg,
            arg_perigee_deg,
            mean_anomaly_deg,
            bstar_per_er,
        },
    )
}

proptest! {
    #[test]
    fn batch_positions_equal_sgp4(elements in low_orbit(), start in -43_200.0..43_200.0_f64, step in 0.01..200.0_f64) {
        let satellite = Propagator::new(&elements).expect("within SGP4's domain");
        let minutes: [f64; BLOCK] = std::array::from_fn(|i| start + i as f64 * step);
        let mut block = BlockKm::default();
        satellite.positions(&minutes, &mut block);
        for (i, &t) in minutes.iter().enumerate() {
            let position = [block.x[i], block.y[i], block.z[i]];
            match satellite.state_at_minutes(t) {
                Ok(state) => prop_assert!(max_axis_difference_km(position, state.position_km) < 1e-7, "{t}: {position:?} {state:?}"),
                Err(_) => prop_assert!(position[0].is_nan(), "{t}: {position:?}"),
            }
        }
    }
}
