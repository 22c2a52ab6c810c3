//! How long a kernel retransmits before it gives up (`bpf/core/give_up.h`).

#![allow(unsafe_code)] // calls of a pure function

unsafe extern "C" {
    safe fn bp_user_give_up_ms(retries: u64, most_ms: u64) -> u64;
}

#[test]
fn a_kernel_gives_up_after_the_sum_of_its_rtos() {
    // 924.6 s: ip-sysctl.rst. With 1 and 2 s Linux 6.18 gave up at the first time-out after this (docs/guides/kernel.md).
    for (retries, most_ms, give_up_ms) in [
        (15, 120_000, 924_600),
        (15, 1000, 14_400),
        (15, 2000, 27_000),
        (8, 120_000, 102_200),
        (8, 1000, 7_400),
        (3, 120_000, 3_000),
        (3, 1000, 2_400),
        (0, 120_000, 200),
        (255, 1000, 254_400),
    ] {
        assert_eq!(bp_user_give_up_ms(retries, most_ms), give_up_ms, "{retries} retransmissions, at most {most_ms} ms apart");
    }
}
