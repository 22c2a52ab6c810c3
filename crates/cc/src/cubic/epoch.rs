//! CUBIC's window as a function of the time since the epoch began, and Reno's window for comparison.

/// Scale of [`BETA`] (`BICTCP_BETA_SCALE`).
pub(super) const BETA_SCALE: u64 = 1024;
/// Multiplicative decrease, 717/1024 ≈ 0.7 (`beta`; RFC 9438 §4.6).
pub(super) const BETA: u64 = 717;
/// Time is counted in 2^-10 s (`BICTCP_HZ`).
pub(super) const TIME_SHIFT: u32 = 10;
/// C·2^10, C ≈ 0.4 (`bic_scale` 41, times 10; RFC 9438 §5).
const C_SCALED: u64 = 410;
/// 2^40 / C: factor from a number of packets to the cube of a time in 2^-10 s (`cube_factor`).
const CUBE_FACTOR: u64 = (1 << (10 + 3 * TIME_SHIFT)) / C_SCALED;
/// Eight times the packets acknowledged, in windows, per packet of Reno's estimate: `8·(1 + β) / (3·(1 − β))` (`beta_scale`; RFC 9438 §4.3).
const RENO_SCALE: u64 = 8 * (BETA_SCALE + BETA) / 3 / (BETA_SCALE - BETA);

/// Congestion avoidance since the last reduction.
#[derive(Clone, Copy, Debug)]
pub(super) struct Epoch {
    /// Jiffy at which it began (`epoch_start`).
    pub(super) start: u64,
    /// K [2^-10 s] (`bic_K`).
    pub(super) k: u64,
    /// The plateau [packets] (`bic_origin_point`).
    pub(super) origin: u64,
    /// Packets acknowledged that have not raised Reno's estimate yet (`ack_cnt`).
    pub(super) reno_acked: u64,
    /// `W_est`, the window Reno would have [packets] (`tcp_cwnd`).
    pub(super) reno_cwnd: u64,
}

impl Epoch {
    /// Begins an epoch. `steep`: K is a ninth.
    pub(super) fn begin(jiffy: u64, cwnd: u64, w_max: u64, acked: u64, steep: bool) -> Self {
        let (k, origin) = if w_max <= cwnd { (0, cwnd) } else { (cube_root(CUBE_FACTOR * (w_max - cwnd)), w_max) };
        let k = if steep { k - k * 8 / 9 } else { k };
        Self { start: jiffy, k, origin, reno_acked: acked, reno_cwnd: cwnd }
    }

    /// Returns W(t) [packets], t in 2^-10 s.
    pub(super) fn target(&self, t: u64) -> u64 {
        let offset = u128::from(t.abs_diff(self.k));
        let delta = (u128::from(C_SCALED) * offset * offset * offset) >> (10 + 3 * TIME_SHIFT);
        // No window is as large as 2^32 packets.
        let delta = u64::try_from(delta).unwrap_or(u64::MAX).min(u64::from(u32::MAX));
        if t < self.k { self.origin.saturating_sub(delta) } else { self.origin + delta }
    }

    /// Advances Reno's estimate. If it is above `cwnd`, returns the packets to acknowledge per packet of growth that keep up with it.
    pub(super) fn reno_acks_per_packet(&mut self, cwnd: u64) -> Option<u64> {
        // At least 1, as is the window. The kernel's loop does not count a remainder of exactly `per`.
        let per = (cwnd * RENO_SCALE) >> 3;
        let grown = self.reno_acked.saturating_sub(1) / per;
        self.reno_acked -= grown * per;
        self.reno_cwnd += grown;
        (self.reno_cwnd > cwnd).then(|| cwnd / (self.reno_cwnd - cwnd))
    }
}

/// Returns the integer cube root, rounded down: exact, where the kernel's table and Newton step err by 0.2 % on average.
fn cube_root(a: u64) -> u64 {
    let mut root = 0_u64;
    for bit in (0..=21).rev() {
        let candidate = root | 1 << bit;
        if u128::from(candidate).pow(3) <= u128::from(a) {
            root = candidate;
        }
    }
    root
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cube_root_is_exact() {
        for root in [0_u64, 1, 2, 9, 1000, 2_097_151] {
            let cube = root * root * root;
            assert_eq!(cube_root(cube), root);
            assert_eq!(cube_root(cube + 1), if cube == 0 { 1 } else { root });
            assert_eq!(cube_root(cube.saturating_sub(1)), root.saturating_sub(1));
        }
    }

    #[test]
    fn renos_estimate_grows_by_a_packet_for_each_fifteen_eighths_of_a_window() {
        let mut epoch = Epoch::begin(0, 80, 0, 150, false);
        assert_eq!((epoch.reno_acks_per_packet(80), epoch.reno_cwnd), (None, 80));
        epoch.reno_acked += 151;
        assert_eq!((epoch.reno_acks_per_packet(80), epoch.reno_cwnd, epoch.reno_acked), (Some(40), 82, 1));
    }

    #[test]
    fn k_and_the_curve_are_those_of_rfc_9438() {
        for (w_max, cwnd) in [(1000_u64, 700_u64), (100, 70), (333, 233), (40_000, 28_000)] {
            let epoch = Epoch::begin(0, cwnd, w_max, 0, false);
            let k_s = libm::cbrt((w_max - cwnd) as f64 / 0.4);
            // C is 410/1024, and K is whole 2^-10 s.
            assert!((epoch.k as f64 / 1024.0 - k_s).abs() < 0.001 * k_s + 1.0 / 1024.0, "K of {w_max}");
            for tenth in 0..=20 {
                let t = epoch.k * tenth / 10;
                let rfc = 0.4 * ((t as f64 / 1024.0 - k_s) * (t as f64 / 1024.0 - k_s) * (t as f64 / 1024.0 - k_s)) + w_max as f64;
                // C's rounding, then a packet of truncation.
                let tolerance = 0.004 * (rfc - w_max as f64).abs() + 1.0;
                assert!((epoch.target(t) as f64 - rfc).abs() <= tolerance, "W({t}/1024 s) of {w_max}: {} against {rfc}", epoch.target(t));
            }
        }
    }
}
