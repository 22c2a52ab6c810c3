//! Random numbers from a seed, never from the environment.
//!
//! There are two kinds. A *stream* is a named sequence of draws: `streams.stream("loss/up/sat:44713")`. Adding a stream never changes another.
//! A *keyed draw* is a pure function of its subject (hop, direction, time). It does not depend on the order of packets, so the simulator, the emulator
//! and every controller see the same path.

use rand_chacha::ChaCha8Rng;
use rand_core::{Rng, SeedableRng};
use siphasher::sip::SipHasher13;
use std::hash::Hasher;

/// All random streams of one seed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Streams {
    seed: u64,
}

/// One named sequence of draws (`ChaCha8`: portable and published, so a seed means the same on every machine).
#[derive(Clone, Debug)]
pub struct Stream(ChaCha8Rng);

impl Streams {
    /// Create the streams of `seed`.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self { seed }
    }

    /// Return the seed.
    #[must_use]
    pub const fn seed(self) -> u64 {
        self.seed
    }

    /// Return the stream called `name`, at its beginning.
    #[must_use]
    pub fn stream(self, name: &str) -> Stream {
        Stream(ChaCha8Rng::seed_from_u64(self.key(name)))
    }

    /// Return a key for [`keyed_u64`], one per `name`.
    #[must_use]
    pub fn key(self, name: &str) -> u64 {
        let mut hasher = SipHasher13::new_with_keys(self.seed, 0x6265_6e74_7069_7065); // "bentpipe"
        hasher.write(name.as_bytes());
        hasher.finish()
    }

    /// Return a separate family of streams, for example one per flow.
    #[must_use]
    pub fn child(self, name: &str) -> Self {
        Self { seed: self.key(name) }
    }
}

impl Stream {
    /// Draw the next 64 random bits.
    pub fn next_u64(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// Draw uniformly from [0, 1).
    pub fn uniform(&mut self) -> f64 {
        unit_f64(self.next_u64())
    }

    /// Draw uniformly from [low, high).
    pub fn uniform_in(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.uniform()
    }

    /// Draw a uniform integer below `n`; 0 when `n` is 0. The bias of the multiply-shift is below n / 2^64.
    #[allow(clippy::cast_possible_truncation)] // the high half of a 128-bit product
    pub fn below(&mut self, n: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(n)) >> 64) as u64
    }

    /// Draw from the exponential distribution with the given mean.
    pub fn exponential(&mut self, mean: f64) -> f64 {
        -mean * libm::log(1.0 - self.uniform())
    }

    /// Draw from the standard normal distribution (Box–Muller, one value a call, so that the number of draws is fixed).
    pub fn normal(&mut self) -> f64 {
        let radius = libm::sqrt(-2.0 * libm::log(1.0 - self.uniform()));
        radius * libm::cos(std::f64::consts::TAU * self.uniform())
    }

    /// Draw from the log-normal distribution: the exponential of a normal with `mu` and `sigma`.
    pub fn log_normal(&mut self, mu: f64, sigma: f64) -> f64 {
        libm::exp(mu + sigma * self.normal())
    }
}

/// Return a uniform float in [0, 1) from 64 random bits (the upper 53 of them).
#[must_use]
pub fn unit_f64(bits: u64) -> f64 {
    (bits >> 11) as f64 / (1_u64 << 53) as f64
}

/// Return 64 random bits that depend on `key` and `at` alone (the `SplitMix64` finaliser over their mix, Steele et al., OOPSLA 2014).
#[must_use]
pub const fn keyed_u64(key: u64, at: u64) -> u64 {
    let mut z = key ^ at.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^= z >> 31;
    // A second round, since neighbouring `at` differ in few bits.
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_match_their_reference_values() {
        // Reference values: if they change, every Run of every published seed changes.
        let mut s = Streams::new(7).stream("loss/up");
        let first: Vec<u64> = (0..3).map(|_| s.next_u64()).collect();
        assert_eq!(first, PORTABLE, "the stream of seed 7 changed");
        assert_eq!(keyed_u64(1, 2), PORTABLE_KEYED);
    }

    const PORTABLE: [u64; 3] = [12_462_445_415_968_574_471, 4_632_148_116_439_037_291, 16_524_483_509_139_779_642];
    const PORTABLE_KEYED: u64 = 18_151_660_869_741_957_452;

    #[test]
    fn names_and_seeds_separate_streams() {
        let a = Streams::new(7).stream("a").next_u64();
        assert_ne!(a, Streams::new(7).stream("b").next_u64());
        assert_ne!(a, Streams::new(8).stream("a").next_u64());
        assert_ne!(a, Streams::new(7).child("x").stream("a").next_u64());
    }

    #[test]
    fn keyed_draws_are_uniform_over_neighbouring_times() {
        let n = 100_000_u64;
        let hits = (0..n).filter(|&t| unit_f64(keyed_u64(99, t * 120_000)) < 0.01).count() as f64;
        let sigma = (n as f64 * 0.01 * 0.99).sqrt();
        assert!((hits - 1000.0).abs() < 4.0 * sigma, "{hits}");
    }

    #[test]
    fn draws_have_their_moments() {
        let mut s = Streams::new(1).stream("moments");
        let n = 100_000;
        let mean_exp = (0..n).map(|_| s.exponential(2.0)).sum::<f64>() / f64::from(n);
        assert!((mean_exp - 2.0).abs() < 0.03, "{mean_exp}");
        let normals: Vec<f64> = (0..n).map(|_| s.normal()).collect();
        let mean = normals.iter().sum::<f64>() / f64::from(n);
        let var = normals.iter().map(|x| x * x).sum::<f64>() / f64::from(n);
        assert!(mean.abs() < 0.015 && (var - 1.0).abs() < 0.02, "{mean} {var}");
        assert!((0..1000).all(|_| s.below(7) < 7));
    }
}
