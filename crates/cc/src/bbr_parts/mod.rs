//! Parts that the versions of BBR share.
//!
//! | module | content |
//! |---|---|
//! | [`bw`] | a bandwidth in the kernel's fixed point |
//! | [`measured`] | the greatest delivery rate of the last rounds |
//! | [`rounds`] | RTTs counted by packets |
//! | [`full_pipe`] | detection of a full pipe |
//! | [`aggregation`] | ACK aggregation |
//! | [`min_rtt`], [`probe_rtt`] | the minimum RTT of a window, and `PROBE_RTT`, which refreshes it |
//! | [`params`] | shared constants |

pub mod aggregation;
pub mod bw;
pub mod full_pipe;
pub mod measured;
pub mod min_rtt;
pub mod params;
pub mod probe_rtt;
pub mod rounds;
