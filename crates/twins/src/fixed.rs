//! The core's arithmetic (`bpf/core/fixed.h`, `bw.h`) against 128-bit integers.

#![allow(unsafe_code)] // calls of pure functions

use proptest::prelude::*;

unsafe extern "C" {
    safe fn bp_user_mul_div(a: u64, b: u64, divisor: u64) -> u64;
    safe fn bp_user_mul_shift(a: u64, b: u64, shift: u32) -> u64;
    safe fn bp_user_scale_right(a: u64, b: u64, c: u64, shift: u32) -> u64;
    safe fn bp_user_log2_floor(value: u64) -> u32;
    safe fn bp_user_ratio(option: u64) -> u64;
    safe fn bp_user_gain(option: u64) -> u64;
    safe fn bp_user_bw_of(delivered: u64, span: u64, mss: u64) -> u64;
    safe fn bp_user_bw_bdp(bw: u64, span: u64, gain: u64) -> u64;
    safe fn bp_user_bw_pacing_rate(bw: u64, gain: u64, mss: u64, margin_percent: u64) -> u64;
}

fn narrow(wide: u128) -> u64 {
    u64::try_from(wide).unwrap_or(u64::MAX)
}

/// Returns numbers of every size, ends included.
fn any_size() -> impl Strategy<Value = u64> {
    prop_oneof![
        (0_u32..64, any::<u64>()).prop_map(|(shift, value)| value >> shift),
        Just(0),
        Just(u64::MAX),
        (0_u32..64).prop_map(|n| 1 << n)
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20_000))]

    #[test]
    fn products_and_quotients_are_exact_and_saturate(a in any_size(), b in any_size(), divisor in any_size(), shift in 1_u32..64) {
        let product = u128::from(a) * u128::from(b);
        prop_assert_eq!(bp_user_mul_div(a, b, divisor), product.checked_div(u128::from(divisor)).map_or(u64::MAX, narrow));
        prop_assert_eq!(bp_user_mul_shift(a, b, shift), narrow(product >> shift));
        prop_assert_eq!(bp_user_log2_floor(a), a.max(1).ilog2());
    }

    #[test]
    fn a_product_of_three_is_exact_below_128_bits(a in any_size(), b in any_size(), c in 0_u64..1 << 20, shift in 1_u32..64) {
        if let Some(product) = (u128::from(a) * u128::from(b)).checked_mul(u128::from(c)) {
            prop_assert_eq!(bp_user_scale_right(a, b, c, shift), narrow(product >> shift));
        }
    }

    #[test]
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // small and positive
    fn ratios_are_rounded_down_and_gains_up(value in 0.0_f64..8.0, part in 0_u32..2048) {
        let word = |value: f64| (value * 4_294_967_296.0).round() as u64;
        prop_assert_eq!(bp_user_ratio(word(f64::from(part) / 256.0)), u64::from(part));
        prop_assert_eq!(bp_user_gain(word(f64::from(part) / 256.0)), u64::from(part));
        let distance = (value * 256.0 - (value * 256.0).round()).abs();
        if distance > 1e-6 {
            prop_assert_eq!(bp_user_ratio(word(value)), (value * 256.0).floor() as u64);
            prop_assert_eq!(bp_user_gain(word(value)), (value * 256.0).ceil() as u64);
        }
    }

    #[test]
    fn bandwidths_are_exact_for_any_delivery(delivered in any_size(), span in any_size(), mss in 1_u64..1 << 32, bw in 0_u64..=1 << 50, gain in 0_u64..=1024, margin in 0_u64..=50) {
        let (span_us, gain_wide) = (u128::from(span / 1000), u128::from(gain));
        let of = (u128::from(delivered) << 24).checked_div(span_us * u128::from(mss)).map_or(0, |bw| narrow(bw.clamp(1, 1 << 50)));
        prop_assert_eq!(bp_user_bw_of(delivered, span, mss), of);
        let bdp = ((u128::from(bw) * span_us * gain_wide) >> 8).div_ceil(1 << 24);
        prop_assert_eq!(bp_user_bw_bdp(bw, span, gain), narrow(bdp));
        let bytes = ((((u128::from(bw) * u128::from(mss)) * gain_wide) >> 8) * u128::from(10_000 * (100 - margin))) >> 24;
        prop_assert_eq!(bp_user_bw_pacing_rate(bw, gain, mss, margin), narrow(bytes * 8).max(8));
    }
}
