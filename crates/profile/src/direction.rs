//! Direction of a packet on a path.

use serde::{Deserialize, Serialize};

/// Direction of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// Terminal to Internet.
    Up,
    /// Internet to terminal.
    Down,
}

impl Direction {
    /// Both directions, in the order of their codes.
    pub const BOTH: [Self; 2] = [Self::Up, Self::Down];

    /// Return the other direction.
    #[must_use]
    pub const fn reverse(self) -> Self {
        match self {
            Self::Up => Self::Down,
            Self::Down => Self::Up,
        }
    }

    /// `up` or `down`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Up => "up",
            Self::Down => "down",
        }
    }
}
