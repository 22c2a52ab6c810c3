//! The states of loss recovery.

use bentpipe_cc::RecoveryState;

/// State of loss recovery: Linux's `tcp_ca_state`, in its order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum State {
    Open,
    Disorder,
    /// The window is reduced without a loss, for ECN.
    Cwr,
    Recovery,
    Loss,
}

impl State {
    pub const fn public(self) -> RecoveryState {
        match self {
            Self::Open => RecoveryState::Open,
            Self::Disorder => RecoveryState::Disorder,
            Self::Cwr => RecoveryState::Cwr,
            Self::Recovery => RecoveryState::Recovery,
            Self::Loss => RecoveryState::Loss,
        }
    }
}
