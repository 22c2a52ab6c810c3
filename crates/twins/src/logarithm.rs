//! Logarithm, exponential function and root of the core (`bpf/core/logarithm.h`) against those of Rust.

#![allow(unsafe_code)] // calls of pure functions

use bentpipe_cc::fixed::{exp_of_minus, ln};
use proptest::prelude::*;

unsafe extern "C" {
    safe fn bp_user_ln(value: u64) -> i64;
    safe fn bp_user_exp_of_minus(x: u64) -> u64;
    safe fn bp_user_isqrt(value: u64) -> u64;
}

fn assert_equal(value: u64) {
    assert_eq!((bp_user_ln(value), bp_user_exp_of_minus(value)), (ln(value), exp_of_minus(value)), "{value}");
    assert_eq!(bp_user_isqrt(value), value.isqrt(), "{value}");
}

#[test]
fn small_values_and_ends_are_equal() {
    (0..1 << 20).chain([u64::MAX]).for_each(assert_equal);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20_000))]

    #[test]
    fn values_of_every_size_and_the_edges_of_roots_are_equal(shift in 0_u32..64, value: u64, root: u32) {
        assert_equal(value >> shift);
        let square = u64::from(root) * u64::from(root);
        assert_equal(square);
        assert_equal(square.saturating_sub(1));
    }
}
