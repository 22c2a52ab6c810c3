//! Registry of the schemes by name. To add one, write a file or folder in this crate with an `ENTRY`, and add its line to `every_scheme!`.

use crate::mpep::plan::Plan;
use crate::overhead::Overhead;
use crate::tambur;
use bentpipe_link::{Network, NetworkError};
use bentpipe_profile::NetworkSpec;
use bentpipe_profile::names::{did_you_mean, nearest};
use bentpipe_profile::options::OptionValues;
use bentpipe_profile::tunables::{Declared, OptionError, OptionSpec, Values};
use std::sync::Arc;

/// Passes the files of all schemes to a macro, in the order of their names. `lib.rs` declares them as modules, this file builds [`SCHEMES`].
macro_rules! every_scheme {
    ($to:ident) => {
        $to! {
            linkguardian
            mpep
            none
            satguard
            tambur
        }
    };
}

macro_rules! entries {
    ($($scheme:ident)*) => {
        /// Every registered scheme, in the order of their names.
        pub const SCHEMES: &[Entry] = &[$(super::$scheme::ENTRY),*];
    };
}
every_scheme!(entries);

/// A scheme in a network.
#[derive(Clone, Debug, Default)]
pub struct Installed {
    /// Counters of its overhead; `None`: it costs nothing.
    pub overhead: Option<Arc<Overhead>>,
    /// What the hosts do; `None`: nothing.
    pub hosts: Option<AtHosts>,
}

impl Installed {
    /// A scheme that acts inside the network alone.
    #[must_use]
    pub const fn inside(overhead: Arc<Overhead>) -> Self {
        Self { overhead: Some(overhead), hosts: None }
    }
}

/// What a scheme does with transports, at the hosts or on the path. The driver runs it between them and the network.
#[derive(Clone, Debug)]
pub enum AtHosts {
    /// A streaming code for each direction of a flow's data.
    Tambur(tambur::Options),
    /// Proxies on the paths, which split connections.
    Mpep(Plan),
}

/// Puts a scheme's elements into a network that carries no packets yet.
pub type Install = fn(&mut Network, &NetworkSpec, &Values) -> Result<Installed, NetworkError>;

/// A registered scheme.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// Name in `--recovery`.
    pub name: &'static str,
    /// What of its source it follows.
    pub status: &'static str,
    /// One-line description.
    pub description: &'static str,
    /// Paper or code that it comes from.
    pub citation: &'static str,
    /// Whether it changes the transports, at the hosts or on the path, which the emulator does not do.
    pub at_hosts: bool,
    /// Options.
    pub options: &'static [OptionSpec],
    /// Puts it into a network.
    pub install: Install,
}

impl Entry {
    /// Return its options, with its name.
    #[must_use]
    pub const fn declared(&self) -> Declared {
        Declared { kind: "recovery scheme", name: self.name, options: self.options }
    }
}

/// Return the scheme called `name`.
///
/// # Errors
/// [`SchemeError::Unknown`], with the nearest name.
pub fn find(name: &str) -> Result<&'static Entry, SchemeError> {
    SCHEMES.iter().find(|entry| entry.name == name).ok_or_else(|| SchemeError::Unknown {
        name: name.to_owned(),
        nearest: nearest(name, SCHEMES.iter().map(|entry| entry.name)),
        known: SCHEMES.iter().map(|entry| entry.name).collect::<Vec<_>>().join(", "),
    })
}

/// Put the scheme called `name` into a network that carries no packets yet. `given`: the options that the user set.
///
/// # Errors
/// [`SchemeError`].
pub fn install(name: &str, given: &OptionValues, network: &mut Network, spec: &NetworkSpec) -> Result<Installed, SchemeError> {
    let entry = find(name)?;
    Ok((entry.install)(network, spec, &entry.declared().check(given)?)?)
}

/// An unknown scheme, an option that it does not have or allow, or a network that cannot have it.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum SchemeError {
    /// No scheme has this name.
    #[error("unknown recovery scheme `{name}`{}; known: {known}", did_you_mean(nearest.as_ref()))]
    Unknown {
        /// The requested name.
        name: String,
        /// The nearest known name, if one is close enough.
        nearest: Option<&'static str>,
        /// All known names, separated by commas.
        known: String,
    },
    /// An option that the scheme does not have, or a value that it does not allow.
    #[error(transparent)]
    Option(#[from] OptionError),
    /// The network cannot have its elements.
    #[error(transparent)]
    Network(#[from] NetworkError),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_name_the_value_and_the_allowed_values() {
        assert_eq!(
            find("satgard").unwrap_err().to_string(),
            "unknown recovery scheme `satgard` (did you mean `satguard`?); known: linkguardian, mpep, none, satguard, tambur"
        );
        let check = |option: &str, value: f64| {
            let given = [(option.to_owned(), value.into())].into();
            find("satguard").unwrap().declared().check(&given).unwrap_err().to_string()
        };
        assert_eq!(check("tries", 0.0), "recovery scheme `satguard`: option `tries` is 0; expected a whole number from 1 to 16");
        assert!(check("trie", 1.0).contains("(did you mean `tries`?)"));
    }

    #[test]
    fn every_scheme_and_option_has_a_description_and_its_default_is_allowed() {
        for entry in SCHEMES {
            assert!(!entry.status.is_empty() && !entry.description.is_empty(), "{}", entry.name);
            for spec in entry.options {
                assert!(!spec.description.is_empty() && !spec.source.is_empty(), "{}.{}", entry.name, spec.name);
                let value = spec.allowed.parse(&spec.default.to_string());
                assert_eq!(spec.allowed.check(&value), Some(spec.default), "{}.{}", entry.name, spec.name);
            }
        }
    }
}
