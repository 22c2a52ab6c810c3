//! Every controller by name. A new one is a file in this crate (or a folder) with an `ENTRY`, and its line in `every_controller!`.

use super::error::{TransportError, nearest};
use super::hints::{self, Facts, Needs};
use super::leo::watch::HINTS;
use super::{Controller, PathHint};
use bentpipe_profile::{Bytes, Streams};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// Gives a macro the files of all controllers, in the order of what users call them. `lib.rs` makes modules of them, this file [`CONTROLLERS`].
/// (Modules that a macro makes are hidden from `cargo fmt`; `make fmt` and `make check` name their files.)
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
        /// Every controller there is, in the order of their names.
        pub const CONTROLLERS: &[Entry] = &[$(super::$controller::ENTRY),*];
    };
}
every_controller!(entries);

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
    /// What it has to know of the path beyond what ACKs tell.
    pub needs: Needs,
    /// What can be set.
    pub options: &'static [OptionSpec],
    /// Makes one; the options are complete and within their ranges.
    pub build: fn(&Config, &Options) -> Box<dyn Controller>,
}

/// Makes a controller that is not in the registry: one that the driver's user brought. `None`: of that name there is none.
pub type Plugins<'a> = dyn Fn(&str, &Config, &BTreeMap<String, f64>) -> Option<Box<dyn Controller>> + 'a;

/// An option of a controller.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OptionSpec {
    /// Its name, unit included.
    pub name: &'static str,
    /// Its unit; empty: a count, a ratio, a choice.
    pub unit: &'static str,
    /// One line.
    pub description: &'static str,
    /// Its value unless given.
    pub default: f64,
    /// What it may be.
    pub allowed: Allowed,
    /// Where the default comes from.
    pub source: &'static str,
}

/// What an option may be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Allowed {
    /// 0 or 1.
    Switch,
    /// From the first to the second.
    Range(f64, f64),
    /// A whole number from the first to the second.
    Count(u32, u32),
    /// One of these; its value is the place in the list.
    Choice(&'static [&'static str]),
}

impl Allowed {
    /// Whether a value may be given; NaN never may.
    #[must_use]
    #[allow(clippy::float_cmp)] // exactly these are meant
    pub fn allows(self, value: f64) -> bool {
        let whole = |max: f64| (0.0..=max).contains(&value) && libm::trunc(value) == value;
        match self {
            Self::Switch => whole(1.0),
            Self::Range(min, max) => (min..=max).contains(&value),
            Self::Count(min, max) => whole(f64::from(max)) && value >= f64::from(min),
            Self::Choice(names) => whole(names.len() as f64 - 1.0),
        }
    }

    /// The value that `text` stands for: a number, or the name of a choice. `None`: neither.
    #[must_use]
    pub fn read(self, text: &str) -> Option<f64> {
        match self {
            Self::Choice(names) if names.contains(&text) => names.iter().position(|&name| name == text).map(|place| place as f64),
            _ => text.parse().ok(),
        }
    }

    /// A value as it is written: a number, or the name of a choice.
    #[must_use]
    pub fn shown(self, value: f64) -> String {
        match self {
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // a place in a list
            Self::Choice(names) if self.allows(value) => names[value as usize].to_owned(),
            _ => value.to_string(),
        }
    }
}

impl fmt::Display for Allowed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Switch => f.write_str("0 or 1"),
            Self::Range(min, max) => write!(f, "from {min} to {max}"),
            Self::Count(min, max) => write!(f, "a whole number from {min} to {max}"),
            Self::Choice(names) => f.write_str(&names.join(", ")),
        }
    }
}

impl OptionSpec {
    /// A switch that is on unless given as 0.
    #[must_use]
    pub const fn switch(name: &'static str, description: &'static str, source: &'static str) -> Self {
        Self { name, unit: "", description, default: 1.0, allowed: Allowed::Switch, source }
    }
}

/// A controller's options, checked and complete.
#[derive(Clone, Debug)]
pub struct Options {
    values: BTreeMap<&'static str, f64>,
    /// Those the user gave.
    given: BTreeSet<&'static str>,
}

impl Options {
    /// What `entry` gets from what was `given`.
    ///
    /// # Errors
    /// `UnknownOption`, `OptionNotAllowed`.
    pub fn check(entry: &Entry, given: &BTreeMap<String, f64>) -> Result<Self, TransportError> {
        let mut values: BTreeMap<_, _> = entry.options.iter().map(|o| (o.name, o.default)).collect();
        let mut names = BTreeSet::new();
        for (name, &value) in given {
            let spec = entry.option(name)?;
            if !spec.allowed.allows(value) {
                return Err(entry.refusal(spec, &spec.allowed.shown(value)));
            }
            values.insert(spec.name, value);
            names.insert(spec.name);
        }
        Ok(Self { values, given: names })
    }

    /// The value of an option the entry lists.
    ///
    /// # Panics
    /// If the entry does not list it: a slip in the controller's own file.
    #[must_use]
    pub fn get(&self, name: &str) -> f64 {
        self.values[name]
    }

    /// The same, if the user gave it.
    #[must_use]
    pub fn given(&self, name: &str) -> Option<f64> {
        self.given.contains(name).then(|| self.get(name))
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

impl Entry {
    /// The option called `name`.
    ///
    /// # Errors
    /// `UnknownOption`, with the nearest name.
    pub fn option(&self, name: &str) -> Result<&'static OptionSpec, TransportError> {
        self.options.iter().find(|o| o.name == name).ok_or_else(|| {
            let names = || self.options.iter().map(|o| o.name);
            TransportError::UnknownOption {
                controller: self.name,
                option: name.to_owned(),
                nearest: nearest(name, names()),
                known: if self.options.is_empty() { "none".to_owned() } else { names().collect::<Vec<_>>().join(", ") },
            }
        })
    }

    /// The value of the option called `name` that a user wrote as `text`.
    ///
    /// # Errors
    /// `UnknownOption`, `OptionNotAllowed`.
    pub fn read_option(&self, name: &str, text: &str) -> Result<f64, TransportError> {
        let spec = self.option(name)?;
        spec.allowed.read(text).filter(|&value| spec.allowed.allows(value)).ok_or_else(|| self.refusal(spec, text))
    }

    fn refusal(&self, spec: &'static OptionSpec, found: &str) -> TransportError {
        TransportError::OptionNotAllowed {
            controller: self.name,
            option: spec.name,
            value: found.to_owned(),
            allowed: spec.allowed,
            unit: spec.unit,
        }
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

/// What the controller called `name` is told, when its connection is made, of `facts`: nothing, unless it needs to know.
///
/// # Errors
/// As [`build`].
pub fn path_hints(
    name: &str,
    given: &BTreeMap<String, f64>,
    streams: Streams,
    facts: impl FnOnce() -> Facts,
) -> Result<Vec<PathHint>, TransportError> {
    let entry = find(name)?;
    let options = Options::check(entry, given)?;
    Ok(match entry.needs {
        Needs::Nothing => Vec::new(),
        Needs::Learned if HINTS.allowed.shown(options.get(HINTS.name)) != "schedule" => Vec::new(),
        Needs::Schedule | Needs::Learned => hints::announced(&facts().reconfigurations, &options, &mut streams.stream("hints")),
        Needs::Clock => vec![hints::clock(facts().start_unix_ns, &options)],
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
    fn errors_say_what_was_found_and_what_was_wanted() {
        let known: Vec<&str> = CONTROLLERS.iter().map(|entry| entry.name).collect();
        let known = known.join(", ");
        assert!(known.contains(", cubic, "), "{known}");
        let unknown = |name: &str, hint: &str| format!("unknown congestion controller `{name}`{hint}; known: {known}");
        assert_eq!(failure("cubik", &[]), unknown("cubik", " (did you mean `cubic`?)"));
        assert_eq!(failure("no such controller", &[]), unknown("no such controller", ""));
        assert_eq!(failure("reno", &[("hystart", 1.0)]), "controller `reno` has no option `hystart`; it takes: none");
        assert!(failure("cubic", &[("hystrat", 1.0)]).contains("did you mean `hystart`?"));
        assert!(failure("cubic", &[("hystart", 0.3)]).contains("is 0.3; it must be off, classic, pp"));
        assert!(failure("cubic", &[("tcp_friendliness", 0.3)]).contains("is 0.3; it must be 0 or 1"));
        assert!(failure("bbr", &[("min_rtt_win_s", -3.0)]).ends_with("is -3; it must be from 0.1 to 3600 s"));
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
        let lacks = |what: &str| format!("docs/reference/controllers.md lacks {what}\n{PRINTED_BY}");
        for entry in CONTROLLERS {
            let row = line_of(entry);
            assert!(reference.contains(&row), "{}", lacks(&row));
            let heading = format!("`{}`", entry.name);
            let section = reference.split("\n## ").find(|s| s.lines().next() == Some(&heading));
            let section = section.unwrap_or_else(|| panic!("{}", lacks(&format!("a section {heading}"))));
            for option in entry.options {
                let row = row_of(option);
                assert!(section.contains(&row), "{}", lacks(&row));
            }
        }
    }

    const PRINTED_BY: &str = "What to paste: cargo test -p bentpipe-cc -- --ignored --nocapture parts_of_the_reference";

    /// A controller's line in the reference, but for its source.
    fn line_of(entry: &Entry) -> String {
        format!("| `{}` | {} | {} |", entry.name, entry.description, entry.status)
    }

    /// An option's line in the reference.
    fn row_of(option: &OptionSpec) -> String {
        let OptionSpec { name, unit, description, default, allowed, source } = option;
        let (default, unit) = (allowed.shown(*default), if unit.is_empty() { "–" } else { unit });
        format!("| `{name}` | {unit} | {default} | {allowed} | {description} | {source} |")
    }

    /// What to paste into the reference: each controller's line of the list, its heading, and the table of its tunables.
    #[test]
    #[ignore = "prints"]
    fn parts_of_the_reference() {
        for entry in CONTROLLERS {
            println!("{} {} |\n\n## `{}`\n", line_of(entry), entry.citation, entry.name);
            if !entry.options.is_empty() {
                println!("| tunable | unit | default | may be | meaning | source |\n|---|---|---|---|---|---|");
            }
            entry.options.iter().for_each(|option| println!("{}", row_of(option)));
            println!();
        }
    }

    #[test]
    fn an_option_is_read_as_a_number_or_by_the_name_of_a_choice() {
        let cubic = find("cubic").expect("known");
        assert_eq!(cubic.read_option("hystart", "pp"), Ok(2.0));
        assert_eq!(cubic.read_option("hystart", "1"), Ok(1.0));
        assert_eq!(cubic.option("hystart").map(|o| o.allowed.shown(2.0)), Ok("pp".to_owned()));
        let refused = |controller: &str, option: &str, text: &str| {
            find(controller).expect("known").read_option(option, text).expect_err("refused").to_string()
        };
        assert_eq!(refused("cubic", "hystart", "p"), "controller `cubic`: option `hystart` is p; it must be off, classic, pp");
        assert_eq!(
            refused("bbr", "min_rtt_win_s", "1e9"),
            "controller `bbr`: option `min_rtt_win_s` is 1e9; it must be from 0.1 to 3600 s"
        );
        assert!(refused("bbr", "min_rtt_win", "1").contains("did you mean `min_rtt_win_s`?"));
        assert!(Allowed::Count(1, 7).allows(7.0) && !Allowed::Count(1, 7).allows(1.5) && !Allowed::Count(1, 7).allows(0.0));
    }

    #[test]
    fn what_was_given_is_told_from_a_default() {
        let options = Options::check(find("bbr").expect("known"), &BTreeMap::from([("probe_rtt_mode_ms".to_owned(), 200.0)]));
        let options = options.expect("in range");
        assert_eq!((options.given("probe_rtt_mode_ms"), options.given("min_rtt_win_s")), (Some(200.0), None));
    }

    #[test]
    fn names_are_in_order_and_unique() {
        assert!(CONTROLLERS.windows(2).all(|pair| pair[0].name < pair[1].name));
    }
}
