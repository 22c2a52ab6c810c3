//! Reasons why a simulation cannot be set up, or cannot go on.

use bentpipe_apps::misuse::{Misuse, name_of};
use bentpipe_cc::error::RegistryError;
use bentpipe_link::NetworkError;
use bentpipe_profile::ProfileError;
use bentpipe_profile::app::AppSpec;
use bentpipe_recovery::registry::SchemeError;

/// The error of a simulation that cannot be set up, or that an application stops.
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
    Controller(#[from] RegistryError),
    /// A recovery scheme or one of its options is unknown.
    #[error(transparent)]
    Recovery(#[from] SchemeError),
    /// The number of Profiles differs from the number that the Experiment names.
    #[error("profiles: {given} given; expected {expected}, one for each Profile that the Experiment names")]
    ProfileCount {
        /// Profiles that the Experiment names.
        expected: usize,
        /// Profiles passed to the simulation.
        given: usize,
    },
    /// An application is not in the registry, and no plugin builds it.
    #[error("flows[{flow}].app: {app}: no such application; expected one that the driver can build")]
    UnknownApp {
        /// Number of the flow.
        flow: usize,
        /// The application.
        app: String,
    },
    /// An application asked for something impossible.
    #[error(transparent)]
    App(#[from] Misuse),
    /// An application opened a connection with a controller that is unknown or has no such option.
    #[error("flows[{flow}].app: {app}: it opens a connection: {error}")]
    AppController {
        /// Number of the flow.
        flow: usize,
        /// The application.
        app: String,
        /// The error of the controller.
        error: Box<RegistryError>,
    },
    /// The run is longer than a Profile.
    #[error(
        "duration: the run lasts {run_s} s from {offset_s} s on, but Profile {profile:?} ends at {profile_s} s; try a shorter --duration or a longer Profile"
    )]
    TooLong {
        /// Run's duration [s].
        run_s: f64,
        /// Start of the run within the Profile [s].
        offset_s: f64,
        /// Name of the Profile that is too short.
        profile: String,
        /// Duration of that Profile [s].
        profile_s: f64,
    },
}

impl SimError {
    /// The error of a flow with an application that nothing can build.
    #[must_use]
    pub fn unknown_app(flow: usize, app: &AppSpec) -> Self {
        Self::UnknownApp { flow, app: name_of(app) }
    }

    /// The error of a flow whose application opened a connection with an invalid controller.
    #[must_use]
    pub fn app_controller(flow: usize, app: &AppSpec, error: RegistryError) -> Self {
        Self::AppController { flow, app: name_of(app), error: Box::new(error) }
    }
}
