//! Where the controllers of a Run come from.

use super::error::RegistryError;
use super::hints::Facts;
use super::hook_trace::{Header, Trace, Traces};
use super::registry::{self, Config};
use super::{Controller, PathHint};
use bentpipe_profile::options::OptionValues;
use std::sync::Arc;

/// Builds a controller that is not in the registry, such as a Python controller. `None`: no such controller.
pub type Plugins = Arc<dyn Fn(&str, &Config, &OptionValues) -> Option<Box<dyn Controller>> + Send + Sync>;

/// Builds the controllers of a Run. Default: those of the registry, not recorded.
#[derive(Clone, Default)]
pub struct Controllers {
    /// Controllers that are not in the registry.
    pub plugins: Option<Plugins>,
    /// Where calls are recorded; `None`: nowhere.
    pub traces: Option<Arc<Traces>>,
}

impl Controllers {
    /// Builds the controller of a connection, with the path hints that it needs. Calls `facts` only if it needs them.
    ///
    /// # Errors
    /// `UnknownController`, `UnknownOption`, `OptionNotAllowed`.
    pub fn build(
        &self,
        name: &str,
        options: &OptionValues,
        config: &Config,
        facts: impl FnOnce() -> Facts,
    ) -> Result<Built, RegistryError> {
        let (controller, hints) = match self.plugins.as_ref().and_then(|plugins| plugins(name, config, options)) {
            Some(plugin) => (plugin, Vec::new()),
            None => (registry::build(name, config, options)?, registry::path_hints(name, options, config.streams, facts)?),
        };
        Ok(Built { controller, hints })
    }
}

/// A controller that was not called yet.
pub struct Built {
    controller: Box<dyn Controller>,
    hints: Vec<PathHint>,
}

impl Built {
    /// Gives the controller its path hints and returns it.
    #[must_use]
    pub fn start(self) -> Box<dyn Controller> {
        let mut controller = self.controller;
        self.hints.iter().for_each(|hint| controller.on_path_hint(hint));
        controller
    }

    /// As [`Self::start`], and records its calls in `trace`. `header`: what it was built with.
    #[must_use]
    pub fn start_recorded(self, trace: Trace, header: &Header) -> Box<dyn Controller> {
        Self { controller: trace.record(header, self.controller), ..self }.start()
    }
}
