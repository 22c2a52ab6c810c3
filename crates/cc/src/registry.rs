//! Registry of the controllers by name. To add one, write a file or folder in this crate with an `ENTRY`, and add its line to `every_controller!`.

use super::error::{RegistryError, nearest};
use super::hints::{self, Facts, Needs};
use super::leo::monitor::HINTS;
use super::{Controller, PathHint};
use bentpipe_profile::{Bytes, Streams};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// Passes the files of all controllers to a macro, in the order of their registered names. `lib.rs` declares them as modules, this file builds [`CONTROLLERS`].
/// (`cargo fmt` does not see modules that a macro declares; `make fmt` and `make check` name their files.)
macro_rules! every_controller {
    ($to:ident) => {
        $to! {
            bbr
            bbr2
            bbr3
            bbr3_leo
            cubic
            cubic_leo
            hybla
            leocc
            new_reno
            satcp
            satpipe
        }
    };
}

macro_rules! entries {
    ($($controller:ident)*) => {
        /// Every registered controller, in the order of their names.
        pub const CONTROLLERS: &[Entry] = &[$(super::$controller::ENTRY),*];
    };
}
every_controller!(entries);

/// Properties of a connection that its controller is built with.
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

/// A registered controller.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// Name in `--cc`.
    pub name: &'static str,
    /// Implementation or specification that it follows.
    pub status: &'static str,
    /// One-line description.
    pub description: &'static str,
    /// Paper, draft or code that it comes from.
    pub citation: &'static str,
    /// Path information that it needs beyond ACKs.
    pub needs: Needs,
    /// Tunables.
    pub options: &'static [OptionSpec],
    /// Builds a controller; the options are complete and within their ranges.
    pub build: fn(&Config, &Options) -> Box<dyn Controller>,
}

/// Builds a controller that is not in the registry, such as a Python controller. `None`: no such controller.
pub type Plugins<'a> = dyn Fn(&str, &Config, &BTreeMap<String, f64>) -> Option<Box<dyn Controller>> + 'a;

/// A tunable of a controller.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OptionSpec {
    /// Name, unit included.
    pub name: &'static str,
    /// Unit; empty: a count, a ratio or a choice.
    pub unit: &'static str,
    /// One-line description.
    pub description: &'static str,
    /// Default value.
    pub default: f64,
    /// Allowed values.
    pub allowed: Allowed,
    /// Source of the default.
    pub source: &'static str,
}

/// Allowed values of an option.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Allowed {
    /// 0 or 1.
    Switch,
    /// From the first to the second, both included.
    Range(f64, f64),
    /// A whole number from the first to the second, both included.
    Count(u32, u32),
    /// One of these names; the value is the index in the list.
    Choice(&'static [&'static str]),
}

impl Allowed {
    /// Returns whether a value is allowed; NaN never is.
    #[must_use]
    #[allow(clippy::float_cmp)] // whole numbers are exact
    pub fn allows(self, value: f64) -> bool {
        let is_whole = |max: f64| (0.0..=max).contains(&value) && libm::trunc(value) == value;
        match self {
            Self::Switch => is_whole(1.0),
            Self::Range(min, max) => (min..=max).contains(&value),
            Self::Count(min, max) => is_whole(f64::from(max)) && value >= f64::from(min),
            Self::Choice(names) => is_whole(names.len() as f64 - 1.0),
        }
    }

    /// Parses a number or the name of a choice. `None`: neither.
    #[must_use]
    pub fn parse(self, text: &str) -> Option<f64> {
        match self {
            Self::Choice(names) if names.contains(&text) => names.iter().position(|&name| name == text).map(|index| index as f64),
            _ => text.parse().ok(),
        }
    }

    /// Formats a value: a number, or the name of a choice.
    #[must_use]
    pub fn format(self, value: f64) -> String {
        match self {
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // an index
            Self::Choice(names) if self.allows(value) => names[value as usize].to_owned(),
            _ => value.to_string(),
        }
    }
}

impl fmt::Display for Allowed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Switch => f.write_str("0 or 1"),
            Self::Range(min, max) => write!(f, "a number from {min} to {max}"),
            Self::Count(min, max) => write!(f, "a whole number from {min} to {max}"),
            Self::Choice(names) => f.write_str(&names.join(", ")),
        }
    }
}

impl OptionSpec {
    /// Declares a switch that is on by default.
    #[must_use]
    pub const fn switch(name: &'static str, description: &'static str, source: &'static str) -> Self {
        Self { name, unit: "", description, default: 1.0, allowed: Allowed::Switch, source }
    }
}

/// Options of a controller, checked and completed with defaults.
#[derive(Clone, Debug)]
pub struct Options {
    values: BTreeMap<&'static str, f64>,
    /// Options that the user set.
    given: BTreeSet<&'static str>,
}

impl Options {
    /// Checks the options that the user set and adds the defaults of `entry`.
    ///
    /// # Errors
    /// `UnknownOption`, `OptionNotAllowed`.
    pub fn check(entry: &Entry, given: &BTreeMap<String, f64>) -> Result<Self, RegistryError> {
        let mut values: BTreeMap<_, _> = entry.options.iter().map(|o| (o.name, o.default)).collect();
        let mut names = BTreeSet::new();
        for (name, &value) in given {
            let spec = entry.option(name)?;
            if !spec.allowed.allows(value) {
                return Err(entry.not_allowed(spec, &spec.allowed.format(value)));
            }
            values.insert(spec.name, value);
            names.insert(spec.name);
        }
        Ok(Self { values, given: names })
    }

    /// Returns the value of an option that the entry declares.
    ///
    /// # Panics
    /// If the entry does not declare it: a mistake in the controller's own file.
    #[must_use]
    pub fn get(&self, name: &str) -> f64 {
        self.values[name]
    }

    /// Returns the value of an option if the user set it.
    #[must_use]
    pub fn given(&self, name: &str) -> Option<f64> {
        self.given.contains(name).then(|| self.get(name))
    }

    /// Returns whether a switch is on.
    ///
    /// # Panics
    /// As [`Self::get`].
    #[must_use]
    pub fn is_on(&self, name: &str) -> bool {
        self.get(name) != 0.0
    }
}

impl Entry {
    /// Returns the option called `name`.
    ///
    /// # Errors
    /// `UnknownOption`, with the nearest name.
    pub fn option(&self, name: &str) -> Result<&'static OptionSpec, RegistryError> {
        self.options.iter().find(|o| o.name == name).ok_or_else(|| {
            let names = || self.options.iter().map(|o| o.name);
            RegistryError::UnknownOption {
                controller: self.name,
                option: name.to_owned(),
                nearest: nearest(name, names()),
                known: if self.options.is_empty() { "none".to_owned() } else { names().collect::<Vec<_>>().join(", ") },
            }
        })
    }

    /// Parses the user's `text` as the value of the option called `name`.
    ///
    /// # Errors
    /// `UnknownOption`, `OptionNotAllowed`.
    pub fn read_option(&self, name: &str, text: &str) -> Result<f64, RegistryError> {
        let spec = self.option(name)?;
        spec.allowed.parse(text).filter(|&value| spec.allowed.allows(value)).ok_or_else(|| self.not_allowed(spec, text))
    }

    fn not_allowed(&self, spec: &'static OptionSpec, value: &str) -> RegistryError {
        RegistryError::OptionNotAllowed {
            controller: self.name,
            option: spec.name,
            value: value.to_owned(),
            allowed: spec.allowed,
            unit: spec.unit,
        }
    }
}

/// Returns the controller called `name`.
///
/// # Errors
/// `UnknownController`, with the nearest name.
pub fn find(name: &str) -> Result<&'static Entry, RegistryError> {
    CONTROLLERS.iter().find(|e| e.name == name).ok_or_else(|| RegistryError::UnknownController {
        name: name.to_owned(),
        nearest: nearest(name, CONTROLLERS.iter().map(|e| e.name)),
        known: CONTROLLERS.iter().map(|e| e.name).collect::<Vec<_>>().join(", "),
    })
}

/// Builds the controller called `name`.
///
/// # Errors
/// `UnknownController`, `UnknownOption`, `OptionNotAllowed`.
pub fn build(name: &str, config: &Config, given: &BTreeMap<String, f64>) -> Result<Box<dyn Controller>, RegistryError> {
    let entry = find(name)?;
    Ok((entry.build)(config, &Options::check(entry, given)?))
}

/// Returns the path hints for the controller called `name` when its connection is made. Calls `facts` only if the controller needs them.
///
/// # Errors
/// As [`build`].
pub fn path_hints(
    name: &str,
    given: &BTreeMap<String, f64>,
    streams: Streams,
    facts: impl FnOnce() -> Facts,
) -> Result<Vec<PathHint>, RegistryError> {
    let entry = find(name)?;
    let options = Options::check(entry, given)?;
    Ok(match entry.needs {
        Needs::Nothing => Vec::new(),
        Needs::Learned if HINTS.allowed.format(options.get(HINTS.name)) != "schedule" => Vec::new(),
        Needs::Schedule | Needs::Learned => hints::announce(&facts().reconfigurations, &options, &mut streams.stream("hints")),
        Needs::Clock => vec![hints::wall_clock(facts().start_unix_ns, &options)],
    })
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
    fn errors_name_the_value_and_the_allowed_values() {
        let known: Vec<&str> = CONTROLLERS.iter().map(|entry| entry.name).collect();
        let known = known.join(", ");
        assert!(known.contains(", cubic, "), "{known}");
        let unknown = |name: &str, hint: &str| format!("unknown congestion controller `{name}`{hint}; known: {known}");
        assert_eq!(failure("cubik", &[]), unknown("cubik", " (did you mean `cubic`?)"));
        assert_eq!(failure("no such controller", &[]), unknown("no such controller", ""));
        assert_eq!(failure("reno", &[("hystart", 1.0)]), "controller `reno` has no option `hystart`; it takes: none");
        assert!(failure("cubic", &[("hystrat", 1.0)]).contains("did you mean `hystart`?"));
        assert!(failure("cubic", &[("hystart", 0.3)]).contains("is 0.3; expected off, classic, pp"));
        assert!(failure("cubic", &[("tcp_friendliness", 0.3)]).contains("is 0.3; expected 0 or 1"));
        assert!(failure("bbr", &[("min_rtt_win_s", -3.0)]).ends_with("is -3; expected a number from 0.1 to 3600 s"));
        assert!(failure("bbr", &[("min_rtt_win_s", f64::NAN)]).contains("is NaN"));
    }

    #[test]
    fn every_entry_builds_with_its_defaults_and_starts_at_the_initial_window() {
        for entry in CONTROLLERS {
            let controller = build(entry.name, &CONFIG, &BTreeMap::new()).expect(entry.name);
            assert_eq!(controller.cwnd(), CONFIG.initial_cwnd, "{}", entry.name);
            assert!(!entry.status.is_empty() && !entry.description.is_empty() && !entry.citation.is_empty(), "{}", entry.name);
            assert!(entry.options.iter().all(|o| o.allowed.allows(o.default) && !o.source.is_empty()), "{}", entry.name);
        }
    }

    #[test]
    fn every_controller_and_option_is_documented() {
        let reference = include_str!("../../../docs/reference/controllers.md");
        let lacks = |missing: &str| format!("docs/reference/controllers.md lacks {missing}\n{HOW_TO_PRINT}");
        for entry in CONTROLLERS {
            let row = controller_row(entry);
            assert!(reference.contains(&row), "{}", lacks(&row));
            let heading = format!("`{}`", entry.name);
            let section = reference.split("\n## ").find(|s| s.lines().next() == Some(&heading));
            let section = section.unwrap_or_else(|| panic!("{}", lacks(&format!("a section {heading}"))));
            for option in entry.options {
                let row = option_row(option);
                assert!(section.contains(&row), "{}", lacks(&row));
            }
        }
    }

    const HOW_TO_PRINT: &str = "To print it: cargo test -p bentpipe-cc -- --ignored --nocapture parts_of_the_reference";

    /// A controller's row in the reference, without its source.
    fn controller_row(entry: &Entry) -> String {
        format!("| `{}` | {} | {} |", entry.name, entry.description, entry.status)
    }

    /// An option's row in the reference.
    fn option_row(option: &OptionSpec) -> String {
        let OptionSpec { name, unit, description, default, allowed, source } = option;
        let (default, unit) = (allowed.format(*default), if unit.is_empty() { "–" } else { unit });
        format!("| `{name}` | {unit} | {default} | {allowed} | {description} | {source} |")
    }

    /// Prints the parts of the reference that come from the registry: each controller's row, its heading and the table of its tunables.
    #[test]
    #[ignore = "prints"]
    fn parts_of_the_reference() {
        for entry in CONTROLLERS {
            println!("{} {} |\n\n## `{}`\n", controller_row(entry), entry.citation, entry.name);
            if !entry.options.is_empty() {
                println!("| tunable | unit | default | allowed | meaning | source |\n|---|---|---|---|---|---|");
            }
            entry.options.iter().for_each(|option| println!("{}", option_row(option)));
            println!();
        }
    }

    #[test]
    fn an_option_is_parsed_from_a_number_or_the_name_of_a_choice() {
        let cubic = find("cubic").expect("known");
        assert_eq!(cubic.read_option("hystart", "pp"), Ok(2.0));
        assert_eq!(cubic.read_option("hystart", "1"), Ok(1.0));
        assert_eq!(cubic.option("hystart").map(|o| o.allowed.format(2.0)), Ok("pp".to_owned()));
        let refused = |controller: &str, option: &str, text: &str| {
            find(controller).expect("known").read_option(option, text).expect_err("refused").to_string()
        };
        assert_eq!(refused("cubic", "hystart", "p"), "controller `cubic`: option `hystart` is p; expected off, classic, pp");
        assert_eq!(
            refused("bbr", "min_rtt_win_s", "1e9"),
            "controller `bbr`: option `min_rtt_win_s` is 1e9; expected a number from 0.1 to 3600 s"
        );
        assert!(refused("bbr", "min_rtt_win", "1").contains("did you mean `min_rtt_win_s`?"));
        assert!(Allowed::Count(1, 7).allows(7.0) && !Allowed::Count(1, 7).allows(1.5) && !Allowed::Count(1, 7).allows(0.0));
    }

    #[test]
    fn options_that_the_user_set_are_distinguished_from_defaults() {
        let options = Options::check(find("bbr").expect("known"), &BTreeMap::from([("probe_rtt_mode_ms".to_owned(), 200.0)]));
        let options = options.expect("in range");
        assert_eq!((options.given("probe_rtt_mode_ms"), options.given("min_rtt_win_s")), (Some(200.0), None));
    }

    #[test]
    fn names_are_in_order_and_unique() {
        assert!(CONTROLLERS.windows(2).all(|pair| pair[0].name < pair[1].name));
    }
}
