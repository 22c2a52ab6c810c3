//! Loss recovery on the emulated path: the same elements as in the simulator, at the ends of the path's links.

use crate::error::EmuError;
use bentpipe_link::Network;
use bentpipe_profile::experiment::RecoverySpec;
use bentpipe_profile::run::RecoverySummary;
use bentpipe_profile::{NetworkSpec, Profile, Streams};
use bentpipe_recovery::overhead::Overhead;
use bentpipe_recovery::registry::install;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The recovery of a path, over all repetitions of its Profile.
#[derive(Debug)]
pub struct PathRecovery {
    spec: Option<RecoverySpec>,
    overheads: Vec<Arc<Overhead>>,
}

impl PathRecovery {
    /// Creates it; `None`: the path has none.
    #[must_use]
    pub fn new(spec: Option<&RecoverySpec>) -> Self {
        Self { spec: spec.cloned(), overheads: Vec::new() }
    }

    /// Builds the network of a Profile, with the elements of the scheme.
    ///
    /// # Errors
    /// A Profile that is no network; an unknown scheme or option, or a scheme that changes the transports.
    pub fn network(&mut self, profile: &Profile, streams: Streams) -> Result<Network, EmuError> {
        let spec = NetworkSpec::from_profiles(&[profile])?;
        let mut network = Network::new(&spec, streams)?;
        if let Some(RecoverySpec { scheme, options }) = &self.spec {
            let installed = install(scheme, options, &mut network, &spec)?;
            if installed.hosts.is_some() {
                return Err(EmuError::Spec(format!("recovery scheme {scheme} changes the transports; only the simulator has it")));
            }
            self.overheads.extend(installed.overhead);
        }
        Ok(network)
    }

    /// Returns the scheme and its counters: sums over the repetitions, or the largest value of peaks.
    #[must_use]
    pub fn summary(&self) -> Option<RecoverySummary> {
        let mut overhead: BTreeMap<String, u64> = BTreeMap::new();
        for (name, value) in self.overheads.iter().flat_map(|overhead| overhead.named()) {
            let total = overhead.entry(name.to_owned()).or_default();
            *total = if name.starts_with("peak_") { value.max(*total) } else { *total + value };
        }
        self.spec.as_ref().map(|spec| RecoverySummary { scheme: spec.scheme.clone(), overhead })
    }
}
