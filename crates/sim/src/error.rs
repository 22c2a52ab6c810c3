//! Why a simulation cannot be set up.

use bentpipe_cc::error::TransportError;
use bentpipe_link::NetworkError;
use bentpipe_profile::ProfileError;

/// An Experiment that cannot be simulated.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SimError {
    /// The Experiment contradicts itself.
    #[error(transparent)]
    Experiment(#[from] ProfileError),
    /// Its Profiles do not fit together.
    #[error(transparent)]
    Network(#[from] NetworkError),
    /// A controller or one of its options is unknown.
    #[error(transparent)]
    Controller(#[from] TransportError),
    /// Another number of Profiles than the Experiment names.
    #[error("the Experiment names {wanted} Profiles, {found} were given")]
    ProfileCount {
        /// In the Experiment.
        wanted: usize,
        /// Given.
        found: usize,
    },
    /// The run is longer than a Profile.
    #[error(
        "the run lasts {run_s} s from {offset_s} s on, but Profile {profile:?} ends at {profile_s} s: shorten --duration or make a longer Profile"
    )]
    TooLong {
        /// Run's duration [s].
        run_s: f64,
        /// Where it begins [s].
        offset_s: f64,
        /// The Profile.
        profile: String,
        /// Its duration [s].
        profile_s: f64,
    },
}
