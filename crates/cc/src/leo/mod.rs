//! What LEO-aware controllers are made of: how they notice that their path was changed, when they expect it again, and what they believe of it since.
//!
//! | module | holds |
//! |---|---|
//! | [`edges`] | one reconfiguration, seen in RTTs |
//! | [`clock`] | period and phase of many: the learned clock |
//! | [`watch`] | both, with announcements where there are any, as a controller asks them |
//! | [`path`] | what the path can carry and how long it is, since it last changed |

pub mod clock;
pub mod edges;
pub mod path;
pub mod watch;
