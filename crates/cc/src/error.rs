//! Errors in the choice of a controller or of its options.

use bentpipe_profile::names::did_you_mean;
use bentpipe_profile::tunables::OptionError;

/// An unknown controller, an unknown option, or an option value that is not allowed.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum RegistryError {
    /// No controller has this name.
    #[error("unknown congestion controller `{name}`{}; known: {known}", did_you_mean(nearest.as_ref()))]
    UnknownController {
        /// The requested name.
        name: String,
        /// The nearest known name, if one is close enough.
        nearest: Option<&'static str>,
        /// All known names, separated by commas.
        known: String,
    },
    /// An option that the controller does not have, or a value that it does not allow.
    #[error(transparent)]
    Option(#[from] OptionError),
}
