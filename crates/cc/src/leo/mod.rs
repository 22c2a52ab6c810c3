//! Parts of LEO-aware controllers: detection and prediction of reconfigurations, and a model of the path since the last one.
//!
//! | module | content |
//! |---|---|
//! | [`detector`] | detection of one reconfiguration from RTTs |
//! | [`clock`] | learned clock: period and phase of the reconfigurations |
//! | `search` | the clock's search of them |
//! | [`host`] | a host's clock, from the statistics of all its sockets |
//! | [`monitor`] | both, with announcements if requested: the interface for controllers |
//! | [`path`] | bandwidth and base RTT since the last reconfiguration |

pub mod clock;
pub mod detector;
pub mod host;
pub mod monitor;
pub mod path;
mod search;
