//! How long a host retransmits before it gives up, and the largest RTO with which it goes on.
//!
//! The simulated sender never gives up. But a controller that lowers the largest RTO must not make a kernel give up sooner, so its value grows with the silence,
//! as the loaded programs have it (`bpf/core/give_up.h`; `cargo test -p bentpipe-twins` holds both together). Source: Linux `tcp_model_timeout`, `retransmits_timed_out`.

/// Retransmissions before a kernel gives up, with its defaults (`net.ipv4.tcp_retries2`).
pub const RETRIES: u64 = 15;

/// RTO from which a kernel computes when it gives up (`TCP_RTO_MIN`) [ms].
const LEAST_RTO_MS: u64 = 200;
/// Smallest value to which the largest RTO may be set (`TCP_RTO_MAX_MS`; Linux 6.15) [ms].
const LEAST_RTO_MAX_MS: u64 = 1000;
/// Doublings from 200 ms to beyond the largest RTO of a host, 120 s.
const DOUBLINGS: u64 = 10;
/// Steps of a quarter each, from one second to beyond 120 s.
const STEPS: u32 = 24;
/// Left after the next time-out, beside its time again [ms]. Chosen here: a paused virtual machine is late by seconds.
const SPARE_MS: u64 = 5000;

/// Return how long a kernel waits for an ACK with this largest RTO: the sum of RTOs that double [ms].
#[must_use]
pub const fn give_up_ms(retries: u64, most_ms: u64) -> u64 {
    let (mut sum, mut rto, mut n) = (0, LEAST_RTO_MS, 0);
    while n < DOUBLINGS && n <= retries && rto <= most_ms {
        sum += rto;
        rto *= 2;
        n += 1;
    }
    if n > retries { sum } else { sum + (retries + 1 - n) * most_ms }
}

/// Return the least largest RTO, from `wanted_ms` on, with which the next time-out comes before a kernel gives up [ms]; `None`: none does.
///
/// ```
/// use bentpipe_transport::give_up::{RETRIES, rto_max_ms};
/// let after = |silent_s: u64| rto_max_ms(1000, silent_s * 1000, RETRIES);
/// assert_eq!([after(0), after(60), after(920)], [Some(1000), Some(7445), None]);
/// ```
#[must_use]
pub fn rto_max_ms(wanted_ms: u64, silent_ms: u64, retries: u64) -> Option<u64> {
    let mut ms = wanted_ms.max(LEAST_RTO_MAX_MS);
    for _ in 0..STEPS {
        if give_up_ms(retries, ms) > silent_ms + 2 * ms + SPARE_MS {
            return Some(ms);
        }
        ms += ms / 4;
    }
    None
}
