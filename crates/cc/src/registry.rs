//! Registry of the controllers by name. To add one, write a file or folder in this crate with an `ENTRY`, and add its line to `every_controller!`.

use super::error::RegistryError;
use super::hints::{self, Facts, Needs};
use super::leo::monitor::{self, HINTS};
use super::{Controller, PathHint};
use bentpipe_profile::names::nearest;
use bentpipe_profile::options::OptionValues;
use bentpipe_profile::tunables::{Declared, OptionSet, OptionSpec, Values};
use bentpipe_profile::{Bytes, Streams};

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
            informed
            leocc
            oracle
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
    /// Options.
    pub options: &'static [OptionSpec],
    /// Builds a controller from its options.
    pub build: fn(&Config, &Values) -> Box<dyn Controller>,
}

impl Entry {
    /// Returns its options, with its name.
    #[must_use]
    pub const fn declared(&self) -> Declared {
        Declared { kind: "controller", name: self.name, options: self.options }
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
/// `UnknownController`, `Option`.
pub fn build(name: &str, config: &Config, given: &OptionValues) -> Result<Box<dyn Controller>, RegistryError> {
    let entry = find(name)?;
    Ok((entry.build)(config, &entry.declared().check(given)?))
}

/// Returns the path hints for the controller called `name` when its connection is made. Calls `facts` only if the controller needs them.
///
/// # Errors
/// As [`build`].
pub fn path_hints(
    name: &str,
    given: &OptionValues,
    streams: Streams,
    facts: impl FnOnce() -> Facts,
) -> Result<Vec<PathHint>, RegistryError> {
    let entry = find(name)?;
    let values = entry.declared().check(given)?;
    Ok(match entry.needs {
        Needs::Nothing => Vec::new(),
        Needs::Learned if values.get(&HINTS) != monitor::Hints::Schedule => Vec::new(),
        Needs::Schedule | Needs::Learned => {
            hints::announce(&facts().reconfigurations, &hints::Errors::read(&values), &mut streams.stream("hints"))
        }
        Needs::Future => {
            let is_scheduled = values.value_of(HINTS.spec.name).is_some() && values.get(&HINTS) == monitor::Hints::Schedule;
            let times = if is_scheduled { facts().reconfigurations } else { Vec::new() };
            hints::announce(&times, &hints::Errors::NONE, &mut streams.stream("hints"))
        }
        Needs::Clock => vec![hints::wall_clock(facts().start_unix_ns, values.get(&hints::OFFSET))],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONFIG: Config = Config { mss: 1448, initial_cwnd: Bytes(14_480), streams: Streams::new(1), paced: false };

    fn failure(name: &str, options: &[(&str, f64)]) -> String {
        let given = options.iter().map(|&(n, v)| (n.to_owned(), v.into())).collect();
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
            let controller = build(entry.name, &CONFIG, &OptionValues::new()).expect(entry.name);
            assert_eq!(controller.cwnd(), CONFIG.initial_cwnd, "{}", entry.name);
            assert!(!entry.status.is_empty() && !entry.description.is_empty() && !entry.citation.is_empty(), "{}", entry.name);
            for spec in entry.options {
                assert_eq!(
                    spec.allowed.check(&spec.allowed.parse(&spec.default.to_string())),
                    Some(spec.default),
                    "{}: {spec:?}",
                    entry.name
                );
                assert!(!spec.source.is_empty(), "{}: {spec:?}", entry.name);
            }
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
        let unit = if unit.is_empty() { "–" } else { unit };
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
        assert_eq!(cubic.declared().read("hystart", "pp"), Ok("pp".into()));
        assert_eq!(cubic.declared().read("fast_convergence", "0"), Ok(0.0.into()));
        let refused = |controller: &str, option: &str, text: &str| {
            find(controller).expect("known").declared().read(option, text).expect_err("refused").to_string()
        };
        assert_eq!(refused("cubic", "hystart", "p"), "controller `cubic`: option `hystart` is p; expected off, classic, pp");
        assert_eq!(
            refused("bbr", "min_rtt_win_s", "1e9"),
            "controller `bbr`: option `min_rtt_win_s` is 1e9; expected a number from 0.1 to 3600 s"
        );
        assert!(refused("bbr", "min_rtt_win", "1").contains("did you mean `min_rtt_win_s`?"));
        for (text, is_allowed) in [("7", true), ("1.5", false), ("0", false), ("seven", false)] {
            assert_eq!(find("bbr3").expect("known").declared().read("full_bw_cnt", text).is_ok(), is_allowed, "{text}");
        }
        assert!(refused("cubic", "hystart", "1").ends_with("is 1; expected off, classic, pp"));
    }

    #[test]
    fn names_are_in_order_and_unique() {
        assert!(CONTROLLERS.windows(2).all(|pair| pair[0].name < pair[1].name));
    }
}
