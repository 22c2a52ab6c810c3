//! The clock that all sockets of a host share (`bpf/core/monitor.h`), which the model does not have.

#![allow(unsafe_code)] // calls of a pure function

unsafe extern "C" {
    safe fn bp_user_shared_clock(period: u64, at: u64, until: u64, now: u64) -> u64;
}

#[test]
fn it_says_when_while_it_is_valid_and_never_that_a_path_is_leo() {
    let ms = |n: u64| n * 1_000_000;
    // Without a detection of its own, a flow takes no path for a LEO one (bit 0).
    let (nothing, near) = (0, 2);
    for (period_ms, now_ms, expected) in [
        (15_000, 36_899, nothing),
        (15_000, 36_900, near),
        (15_000, 37_349, near),
        (15_000, 37_350, nothing),
        (15_000, 7_000, near),
        (15_000, 60_000, nothing),
        (999, 37_000, nothing),
        (0, 37_000, nothing),
    ] {
        assert_eq!(bp_user_shared_clock(ms(period_ms), ms(22_000), ms(60_000), ms(now_ms)), expected, "{period_ms} ms, at {now_ms} ms");
    }
}
