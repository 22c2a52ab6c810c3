//! Every controller by name. A new one is a file, its `pub mod` line in `mod.rs` and its line in [`CONTROLLERS`].

use super::error::{TransportError, nearest};
use super::{Controller, bbr, cubic, new_reno};
use bentpipe_profile::{Bytes, Streams};
use std::collections::BTreeMap;
use std::fmt;

/// Every controller there is, in the order of their names.
pub const CONTROLLERS: &[Entry] = &[bbr::ENTRY, cubic::ENTRY, new_reno::ENTRY];

/// What a connection tells its controller when it is made.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// Maximum segment size [bytes].
    pub mss: u32,
    /// Initial window.
    pub initial_cwnd: Bytes,
    /// The connection's random streams.
    pub streams: Streams,
    /// Whether the host paces (an `fq` qdisc), so that a round's ACKs arrive spread out.
    pub paced: bool,
}

/// One controller.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// What users call it.
    pub name: &'static str,
    /// What it is held against.
    pub status: &'static str,
    /// One line.
    pub description: &'static str,
    /// Where it comes from.
    pub citation: &'static str,
    /// What can be set.
    pub options: &'static [OptionSpec],
    /// Makes one; the options are complete and within their ranges.
    pub build: fn(&Config, &Options) -> Box<dyn Controller>,
}

/// An option of a controller.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OptionSpec {
    /// Its name, unit included.
    pub name: &'static str,
    /// One line.
    pub description: &'static str,
    /// Its value unless given.
    pub default: f64,
    /// What it may be.
    pub allowed: Allowed,
}

/// What an option may be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Allowed {
    /// 0 or 1.
    Switch,
    /// From the first to the second.
    Range(f64, f64),
}

impl Allowed {
    /// Whether a value may be given; NaN never may.
    #[must_use]
    #[allow(clippy::float_cmp)] // exactly 0 or 1 is meant
    pub fn allows(self, value: f64) -> bool {
        match self {
            Self::Switch => value == 0.0 || value == 1.0,
            Self::Range(min, max) => (min..=max).contains(&value),
        }
    }
}

impl fmt::Display for Allowed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Switch => f.write_str("0 or 1"),
            Self::Range(min, max) => write!(f, "from {min} to {max}"),
        }
    }
}

impl OptionSpec {
    /// A switch that is on unless given as 0.
    #[must_use]
    pub const fn switch(name: &'static str, description: &'static str) -> Self {
        Self { name, description, default: 1.0, allowed: Allowed::Switch }
    }
}

/// A controller's options, checked and complete.
#[derive(Clone, Debug)]
pub struct Options(BTreeMap<&'static str, f64>);

impl Options {
    /// What `entry` gets from what was `given`.
    ///
    /// # Errors
    /// `UnknownOption`, `OptionNotAllowed`.
    pub fn check(entry: &Entry, given: &BTreeMap<String, f64>) -> Result<Self, TransportError> {
        let mut values: BTreeMap<_, _> = entry.options.iter().map(|o| (o.name, o.default)).collect();
        for (name, &value) in given {
            let Some(spec) = entry.options.iter().find(|o| o.name == name) else {
                let names = || entry.options.iter().map(|o| o.name);
                return Err(TransportError::UnknownOption {
                    controller: entry.name,
                    option: name.clone(),
                    nearest: nearest(name, names()),
                    known: if entry.options.is_empty() { "none".to_owned() } else { names().collect::<Vec<_>>().join(", ") },
                });
            };
            if !spec.allowed.allows(value) {
                return Err(TransportError::OptionNotAllowed { controller: entry.name, option: spec.name, value, allowed: spec.allowed });
            }
            values.insert(spec.name, value);
        }
        Ok(Self(values))
    }

    /// The value of an option the entry lists.
    ///
    /// # Panics
    /// If the entry does not list it: a slip in the controller's own file.
    #[must_use]
    pub fn get(&self, name: &str) -> f64 {
        self.0[name]
    }

    /// Whether a switch is on.
    ///
    /// # Panics
    /// As [`Self::get`].
    #[must_use]
    pub fn is_on(&self, name: &str) -> bool {
        self.get(name) != 0.0
    }
}

/// The controller called `name`.
///
/// # Errors
/// `UnknownController`, with the nearest name.
pub fn find(name: &str) -> Result<&'static Entry, TransportError> {
    CONTROLLERS.iter().find(|e| e.name == name).ok_or_else(|| TransportError::UnknownController {
        name: name.to_owned(),
        nearest: nearest(name, CONTROLLERS.iter().map(|e| e.name)),
        known: CONTROLLERS.iter().map(|e| e.name).collect::<Vec<_>>().join(", "),
    })
}

/// Makes the controller called `name`.
///
/// # Errors
/// `UnknownController`, `UnknownOption`, `OptionNotAllowed`.
pub fn build(name: &str, config: &Config, given: &BTreeMap<String, f64>) -> Result<Box<dyn Controller>, TransportError> {
    let entry = find(name)?;
    Ok((entry.build)(config, &Options::check(entry, given)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONFIG: Config = Config { mss: 1448, initial_cwnd: Bytes(14_480), streams: Streams::new(1), paced: false };

    fn failure(name: &str, options: &[(&str, f64)]) -> String {
        let given = options.iter().map(|&(n, v)| (n.to_owned(), v)).collect();
        build(name, &CONFIG, &given).map(|_| ()).expect_err("must be refused").to_string()
    }

    #[test]
    fn errors_say_what_was_found_and_what_was_wanted() {
        assert_eq!(failure("cubik", &[]), "unknown congestion controller `cubik` (did you mean `cubic`?); known: bbr, cubic, reno");
        assert_eq!(failure("copa", &[]), "unknown congestion controller `copa`; known: bbr, cubic, reno");
        assert_eq!(failure("reno", &[("hystart", 1.0)]), "controller `reno` has no option `hystart`; it takes: none");
        assert!(failure("cubic", &[("hystrat", 1.0)]).contains("did you mean `hystart`?"));
        assert!(failure("cubic", &[("hystart", 0.3)]).contains("is 0.3; it must be 0 or 1"));
        assert!(failure("bbr", &[("min_rtt_win_s", -3.0)]).ends_with("is -3; it must be from 0.1 to 3600"));
        assert!(failure("bbr", &[("min_rtt_win_s", f64::NAN)]).contains("is NaN"));
    }

    #[test]
    fn every_entry_builds_with_its_defaults_and_starts_at_the_initial_window() {
        for entry in CONTROLLERS {
            let controller = build(entry.name, &CONFIG, &BTreeMap::new()).expect(entry.name);
            assert_eq!(controller.cwnd(), CONFIG.initial_cwnd, "{}", entry.name);
            assert!(!entry.status.is_empty() && !entry.description.is_empty() && !entry.citation.is_empty(), "{}", entry.name);
            assert!(entry.options.iter().all(|o| o.allowed.allows(o.default)), "{}", entry.name);
        }
    }

    #[test]
    fn every_controller_and_option_is_documented() {
        let reference = include_str!("../../../../docs/reference/controllers.md");
        for entry in CONTROLLERS {
            let row = format!("| `{}` | {} | {} |", entry.name, entry.description, entry.status);
            assert!(reference.contains(&row), "docs/reference/controllers.md lacks {row}");
            let section = reference.split("\n## ").find(|s| s.starts_with(&format!("`{}`", entry.name))).expect(entry.name);
            for option in entry.options {
                let allowed = option.allowed.to_string();
                let row =
                    format!("| `{}` | {} | {} | {}", option.name, option.default, allowed.trim_start_matches("from "), option.description);
                assert!(section.contains(&row), "docs/reference/controllers.md lacks {row}");
            }
        }
    }

    #[test]
    fn names_are_in_order_and_unique() {
        assert!(CONTROLLERS.windows(2).all(|pair| pair[0].name < pair[1].name));
    }
}
