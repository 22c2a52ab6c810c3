//! How long a kernel retransmits before it gives up (`bpf/core/give_up.h`).

#![allow(unsafe_code)] // calls of pure functions

use bentpipe_transport::give_up;

unsafe extern "C" {
    safe fn bp_user_give_up_ms(retries: u64, most_ms: u64) -> u64;
    safe fn bp_user_rto_max_ms(wanted_ms: u64, silent_ms: u64, retries: u64) -> u64;
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

#[test]
fn the_simulator_has_the_same_largest_rto() {
    for retries in 0..=30 {
        for most_ms in (1000..130_000).step_by(997) {
            assert_eq!(give_up::give_up_ms(retries, most_ms), bp_user_give_up_ms(retries, most_ms), "{retries}, {most_ms} ms");
        }
        for wanted_ms in [0, 1000, 1311, 7000, 100_000] {
            for silent_ms in (0..1_000_000).step_by(1999) {
                let simulated_ms = give_up::rto_max_ms(wanted_ms, silent_ms, retries).unwrap_or(u64::MAX);
                assert_eq!(
                    simulated_ms,
                    bp_user_rto_max_ms(wanted_ms, silent_ms, retries),
                    "{retries}, {wanted_ms} ms, silent for {silent_ms} ms"
                );
            }
        }
    }
}

/// Times without an ACK at which time-outs come, with largest RTOs as `bpf/kernel/rto.h` sets them, and when the kernel gives up [ms]. Each time-out is late by an eighth, and by `late_ms`.
fn silences(wanted_ms: u64, hosts_ms: u64, retries: u64, late_ms: u64) -> (Vec<u64>, u64) {
    let (mut silent_ms, mut rto_ms, mut most_ms, mut times) = (0, 200, hosts_ms, Vec::new());
    loop {
        if silent_ms >= bp_user_give_up_ms(retries, most_ms) {
            return (times, silent_ms);
        }
        times.push(silent_ms);
        most_ms = bp_user_rto_max_ms(wanted_ms, silent_ms, retries).min(hosts_ms);
        rto_ms = most_ms.min(2 * rto_ms);
        silent_ms += rto_ms + rto_ms / 8 + late_ms;
    }
}

#[test]
fn a_connection_lives_as_long_as_with_the_hosts_largest_rto() {
    for retries in 1..=30 {
        for hosts_ms in [1000, 3000, 60_000, 120_000] {
            for wanted_ms in [0, 1000, 1999, 8000] {
                for late_ms in [0, 1000, 4000] {
                    let (times, end_ms) = silences(wanted_ms, hosts_ms, retries, late_ms);
                    assert!(
                        end_ms >= bp_user_give_up_ms(retries, hosts_ms),
                        "{retries}, {hosts_ms} ms, {wanted_ms} ms, {late_ms} ms late: {end_ms} ms, {times:?}"
                    );
                }
            }
        }
    }
}

#[test]
fn time_outs_are_a_second_apart_at_first_and_a_part_of_the_silence_later() {
    let (times, end_ms) = silences(1000, 120_000, 15, 0);
    assert!(end_ms > 924_600);
    for pair in times.windows(2).filter(|pair| (2_000..600_000).contains(&pair[0])) {
        assert!(pair[1] - pair[0] <= (1_130).max(pair[0] / 4), "{pair:?}");
    }
}
