//! What the versions of BBR are made of.
//!
//! | module | holds |
//! |---|---|
//! | [`bw`] | a bandwidth in the kernel's fixed point |
//! | [`rounds`] | RTTs counted by packets |
//! | [`full_pipe`] | whether the bandwidth still grows |
//! | [`aggregation`] | how much more than the bandwidth explains is acknowledged at once |
//! | [`min_rtt`], [`probe_rtt`] | the least RTT of a window, and the visits that refresh it |
//! | [`params`] | the constants they share |

pub mod aggregation;
pub mod bw;
pub mod full_pipe;
pub mod min_rtt;
pub mod params;
pub mod probe_rtt;
pub mod rounds;
