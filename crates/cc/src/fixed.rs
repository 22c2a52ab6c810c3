//! Logarithm and exponential function in fixed point: the same integers here and in a kernel (`bpf/core/logarithm.h`), where there are no floats.

/// Numbers are counted in 2^-32.
pub const SHIFT: u32 = 32;
/// The number 1.
pub const ONE: u64 = 1 << SHIFT;

/// ln 2 [2^-56] and [2^-32], and the square root of 2.
const LN_2_FINE: u64 = 49_946_518_145_322_874;
const FINE_SHIFT: u32 = 24;
const LN_2: u64 = 2_977_044_472;
const SQRT_2: u64 = 6_074_001_000;
/// Terms of the exponential series: the first one left out is below 2^-34.
const EXP_TERMS: u64 = 12;

/// Returns ln `value`; that of the smallest number for 0. The error is below 6 · 2^-32.
#[must_use]
pub fn ln(value: u64) -> i64 {
    let value = value.max(1);
    let top = value.ilog2();
    // value = mantissa · 2^exponent, the mantissa between √½ and √2 in units of `centre`.
    let mantissa = if top > SHIFT { value >> (top - SHIFT) } else { value << (SHIFT - top) };
    let (exponent, centre) = if mantissa > SQRT_2 { (i64::from(top) - 31, 2 * ONE) } else { (i64::from(top) - 32, ONE) };
    // ln m = 2 (z + z³/3 + z⁵/5 + …), z = (m − 1) / (m + 1), |z| < 0.172: the first term left out is below 2^-35.
    let z = (mantissa.abs_diff(centre) << SHIFT) / (mantissa + centre);
    let square = (z * z) >> SHIFT;
    let series = [9, 7, 5, 3, 1].iter().fold(ONE / 11, |series, odd| ONE / odd + ((square * series) >> SHIFT));
    let part = ((z * series) >> (SHIFT - 1)).cast_signed();
    let whole = ((exponent.unsigned_abs() * LN_2_FINE) >> FINE_SHIFT).cast_signed();
    (if exponent < 0 { -whole } else { whole }) + if mantissa < centre { -part } else { part }
}

/// Returns e^(−x). The error is below 6 · 2^-32.
#[must_use]
pub fn exp_of_minus(x: u64) -> u64 {
    let (halvings, rest) = (x / LN_2, x % LN_2);
    if halvings > u64::from(SHIFT) {
        return 0;
    }
    // e^(−r) = 1 − r (1 − r/2 (1 − r/3 (…)))
    (1..=EXP_TERMS).rev().fold(ONE, |series, n| ONE - ((rest * series) >> SHIFT) / n) >> halvings
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const UNIT: f64 = ONE as f64;
    const BOUND: f64 = 6.0;

    /// Returns values of every size.
    fn any_size() -> impl Strategy<Value = u64> {
        (0_u32..64, any::<u64>()).prop_map(|(shift, value)| value >> shift)
    }

    #[test]
    fn ends_and_special_values() {
        assert_eq!((ln(ONE), exp_of_minus(0), exp_of_minus(u64::MAX)), (0, ONE, 0));
        assert_eq!(ln(0), ln(1));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(50_000))]

        #[test]
        fn the_errors_are_below_the_stated_bounds(value in any_size(), x in 0_u64..40 << SHIFT) {
            let expected = libm::log(value.max(1) as f64 / UNIT) * UNIT;
            prop_assert!((ln(value) as f64 - expected).abs() < BOUND, "ln {value}: {} {expected}", ln(value));
            for x in [x, value] {
                let expected = libm::exp(-(x as f64) / UNIT) * UNIT;
                prop_assert!((exp_of_minus(x) as f64 - expected).abs() < BOUND, "exp -{x}: {} {expected}", exp_of_minus(x));
            }
        }
    }
}
