//! States of versions 2 and 3, and their transitions (draft §5.1.1).

use super::params::Params;
use crate::bbr_parts::params::UNIT;

/// A state; `Down`, `Cruise`, `Refill` and `Up` are those of `PROBE_BW`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    Startup,
    Drain,
    Down,
    Cruise,
    Refill,
    Up,
    ProbeRtt,
}

impl State {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Startup => "startup",
            Self::Drain => "drain",
            Self::Down => "probe_bw_down",
            Self::Cruise => "probe_bw_cruise",
            Self::Refill => "probe_bw_refill",
            Self::Up => "probe_bw_up",
            Self::ProbeRtt => "probe_rtt",
        }
    }

    pub const fn is_probe_bw(self) -> bool {
        matches!(self, Self::Down | Self::Cruise | Self::Refill | Self::Up)
    }

    /// Returns whether it probes for more bandwidth: losses then do not show the current capacity (`IsProbingBW`).
    pub const fn is_probing_bandwidth(self) -> bool {
        matches!(self, Self::Startup | Self::Refill | Self::Up)
    }

    pub const fn may_become(self, next: Self) -> bool {
        matches!(
            (self, next),
            (Self::Startup, Self::Drain)
                | (Self::Drain | Self::Up | Self::ProbeRtt, Self::Down)
                | (Self::Down, Self::Cruise)
                | (Self::Down | Self::Cruise, Self::Refill)
                | (Self::Refill, Self::Up)
                | (Self::ProbeRtt, Self::Startup)
        ) || (matches!(next, Self::ProbeRtt) && !matches!(self, Self::ProbeRtt))
            // The loss that ended STARTUP was spurious (§5.5.11.2).
            || (matches!(next, Self::Startup) && (matches!(self, Self::Drain) || self.is_probe_bw()))
    }

    /// Returns the pacing gain, in bandwidths [1/256].
    pub const fn pacing_gain(self, p: &Params) -> u64 {
        match self {
            Self::Startup => p.startup_pacing_gain,
            Self::Drain => p.drain_gain,
            Self::Down => p.down_gain,
            Self::Up => p.up_gain,
            Self::Cruise => p.cruise_gain,
            Self::Refill => p.refill_gain,
            Self::ProbeRtt => UNIT,
        }
    }

    /// Returns the window gain, in bandwidth-delay products [1/256].
    pub const fn cwnd_gain(self, p: &Params) -> u64 {
        match self {
            Self::Startup | Self::Drain => p.startup_cwnd_gain,
            Self::Up => p.up_cwnd_gain,
            Self::Down | Self::Cruise | Self::Refill => p.cwnd_gain,
            Self::ProbeRtt => p.probe_rtt_cwnd_gain,
        }
    }
}
