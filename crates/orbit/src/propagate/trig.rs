//! Sine, cosine and arctangent without branches or calls, so that loops over them vectorise.
//!
//! They use only IEEE additions, multiplications, divisions and bit operations, never a fused multiply-add. The result is therefore the same bit for bit
//! at every vector width. Polynomials are those of fdlibm (Sun Microsystems, 1993; `k_sin.c`, `k_cos.c`, `s_atan.c`), accurate to about
//! one unit in the last place over their interval.

#![allow(clippy::excessive_precision, reason = "coefficients as fdlibm prints them")]

use std::f64::consts::{FRAC_2_PI, FRAC_PI_2, FRAC_PI_4, PI, TAU};

/// Largest argument of [`sin_cos`] [rad]: the number of quarter turns must fit in 20 bits for the reduction's products to be exact.
pub const MAX_ARGUMENT_RAD: f64 = 1.6e6;

/// 1.5 × 2^52: adding and then subtracting it rounds a float to the nearest integer, which is then in the low bits of the sum.
const ROUNDER: f64 = 6_755_399_441_055_744.0;

/// π/2 in three parts of 33 bits (fdlibm `e_rem_pio2.c`: `pio2_1`, `pio2_2`, `pio2_3`).
const HALF_PI_PARTS: [f64; 3] =
    [f64::from_bits(0x3ff9_21fb_5440_0000), f64::from_bits(0x3dd0_b461_1a60_0000), f64::from_bits(0x3ba3_198a_2e00_0000)];

/// (sin r − r) / r³ in powers of r² (`k_sin.c`: `S1` to `S6`).
const SIN: [f64; 6] = [
    -1.666_666_666_666_663_2e-1,
    8.333_333_333_322_489e-3,
    -1.984_126_982_985_795e-4,
    2.755_731_370_707_006_8e-6,
    -2.505_076_025_340_686_3e-8,
    1.589_690_995_211_55e-10,
];

/// (cos r − 1 + r²/2) / r⁴ in powers of r² (`k_cos.c`: `C1` to `C6`).
const COS: [f64; 6] = [
    4.166_666_666_666_66e-2,
    -1.388_888_888_887_411e-3,
    2.480_158_728_947_673e-5,
    -2.755_731_435_139_066_3e-7,
    2.087_572_321_298_175e-9,
    -1.135_964_755_778_819_5e-11,
];

/// (q − arctan q) / q³ in powers of q² (`s_atan.c`: `aT`).
const ATAN: [f64; 11] = [
    3.333_333_333_333_293e-1,
    -1.999_999_999_987_648_3e-1,
    1.428_571_427_250_346_6e-1,
    -1.111_111_040_546_235_6e-1,
    9.090_887_133_436_507e-2,
    -7.691_876_205_044_83e-2,
    6.661_073_137_387_531e-2,
    -5.833_570_133_790_573_5e-2,
    4.976_877_994_615_932_4e-2,
    -3.653_157_274_421_691_6e-2,
    1.628_582_011_536_578_2e-2,
];

/// Evaluate a polynomial of `z`, lowest coefficient first, by Horner's rule; `N` is known, so the loop unrolls.
#[inline(always)]
#[allow(clippy::inline_always, reason = "a call inside the loop would keep it from becoming vector code")]
fn horner<const N: usize>(z: f64, coefficients: [f64; N]) -> f64 {
    let mut sum = coefficients[N - 1];
    for i in (0..N - 1).rev() {
        sum = coefficients[i] + z * sum;
    }
    sum
}

/// Return sine and cosine of `x` [rad], |x| ≤ [`MAX_ARGUMENT_RAD`].
#[inline(always)]
#[allow(clippy::inline_always, reason = "a call inside the loop would keep it from becoming vector code")]
pub fn sin_cos(x: f64) -> (f64, f64) {
    let shifted = x * FRAC_2_PI + ROUNDER;
    let quarter_turns = shifted - ROUNDER;
    let quadrant = shifted.to_bits();
    let r = ((x - quarter_turns * HALF_PI_PARTS[0]) - quarter_turns * HALF_PI_PARTS[1]) - quarter_turns * HALF_PI_PARTS[2];
    let z = r * r;
    let sin_r = r + r * z * horner(z, SIN);
    let cos_r = (1.0 - 0.5 * z) + z * z * horner(z, COS);
    // Odd quadrants swap the two; the second bit carries the sign.
    let swap = 0_u64.wrapping_sub(quadrant & 1);
    let (s, c) = (sin_r.to_bits(), cos_r.to_bits());
    let sin_bits = ((c & swap) | (s & !swap)) ^ ((quadrant & 2) << 62);
    let cos_bits = ((s & swap) | (c & !swap)) ^ ((quadrant.wrapping_add(1) & 2) << 62);
    (f64::from_bits(sin_bits), f64::from_bits(cos_bits))
}

/// Return `x` modulo 2π, with 2π as the nearest double, as SGP4's reference code reduces angles; between −π and π. |x| ≤ [`MAX_ARGUMENT_RAD`].
#[inline(always)]
#[allow(clippy::inline_always, reason = "a call inside the loop would keep it from becoming vector code")]
pub fn wrap_two_pi(x: f64) -> f64 {
    // The upper 33 bits of the double nearest to 2π; the rest is exact as a double.
    const HIGH: f64 = 4.0 * HALF_PI_PARTS[0];
    const LOW: f64 = TAU - HIGH;
    let turns = (x * (1.0 / TAU) + ROUNDER) - ROUNDER;
    (x - turns * HIGH) - turns * LOW
}

/// Return the angle of the point (`x`, `y`) from the x axis [rad], −π to π; 0 for the origin. Accurate to 4e-16 rad.
#[inline(always)]
#[allow(clippy::inline_always, reason = "a call inside the loop would keep it from becoming vector code")]
pub fn atan2(y: f64, x: f64) -> f64 {
    /// tan(π/8): below it the polynomial is used as it is, above it for the angle from the diagonal.
    const TAN_PI_8: f64 = 0.414_213_562_373_095_03;
    let (ax, ay) = (x.abs(), y.abs());
    let steep = ay > ax;
    let larger = if steep { ay } else { ax };
    let smaller = if steep { ax } else { ay };
    let diagonal = smaller > TAN_PI_8 * larger;
    let numerator = if diagonal { smaller - larger } else { smaller };
    let denominator = if diagonal { smaller + larger } else { larger };
    // At the origin: 0 over the smallest number instead of 0 over 0.
    let q = numerator / if denominator > 0.0 { denominator } else { f64::MIN_POSITIVE };
    let z = q * q;
    let series = z * horner(z, ATAN);
    let base = if diagonal { FRAC_PI_4 } else { 0.0 } + (q - q * series);
    let first_quadrant = if steep { FRAC_PI_2 - base } else { base };
    let half = if x < 0.0 { PI - first_quadrant } else { first_quadrant };
    half.copysign(y)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn sine_and_cosine_equal_the_hosts_within_rounding(x in -MAX_ARGUMENT_RAD..MAX_ARGUMENT_RAD) {
            let (s, c) = sin_cos(x);
            prop_assert!((s - x.sin()).abs() < 4e-16, "{x}: {s} {}", x.sin());
            prop_assert!((c - x.cos()).abs() < 4e-16, "{x}: {c} {}", x.cos());
        }

        #[test]
        fn arctangent_equals_the_hosts_within_rounding(y in -1e4_f64..1e4, x in -1e4_f64..1e4) {
            prop_assert!((atan2(y, x) - y.atan2(x)).abs() < 9e-16, "{y} {x}");
        }

        #[test]
        fn wrapping_equals_the_remainder(x in -MAX_ARGUMENT_RAD..MAX_ARGUMENT_RAD) {
            let wrapped = wrap_two_pi(x);
            prop_assert!(wrapped.abs() < PI + 1e-9);
            let host = x % TAU;
            let difference = (wrapped - host).abs();
            prop_assert!(difference < 1e-15 || (difference - TAU).abs() < 1e-15, "{x}: {wrapped} {host}");
        }
    }

    #[test]
    fn axes_and_origin_are_exact() {
        for (y, x) in [(0.0, 0.0), (0.0, 1.0), (1.0, 0.0), (-1.0, 0.0), (0.0, -1.0)] {
            assert_eq!(atan2(y, x).to_bits(), f64::atan2(y, x).to_bits(), "{y} {x}");
        }
        let (s, c) = sin_cos(0.0);
        assert_eq!((s.to_bits(), c.to_bits()), (0.0_f64.to_bits(), 1.0_f64.to_bits()));
    }
}
