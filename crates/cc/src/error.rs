//! What can be wrong with what a user asks of this crate.

use super::registry::Allowed;

/// An error of this crate: where, what was found, what was wanted.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum TransportError {
    /// No controller has this name.
    #[error("unknown congestion controller `{name}`{}; known: {known}", did_you_mean(nearest.as_ref()))]
    UnknownController {
        /// What was asked for.
        name: String,
        /// The nearest name there is, if any is near.
        nearest: Option<&'static str>,
        /// Every name there is.
        known: String,
    },
    /// The controller has no such option.
    #[error("controller `{controller}` has no option `{option}`{}; it takes: {known}", did_you_mean(nearest.as_ref()))]
    UnknownOption {
        /// The controller.
        controller: &'static str,
        /// What was asked for.
        option: String,
        /// The nearest option there is, if any is near.
        nearest: Option<&'static str>,
        /// Every option there is, or "none".
        known: String,
    },
    /// The option may not be that.
    #[error("controller `{controller}`: option `{option}` is {value}; it must be {allowed}{}{unit}", if unit.is_empty() { "" } else { " " })]
    OptionNotAllowed {
        /// The controller.
        controller: &'static str,
        /// The option.
        option: &'static str,
        /// What was asked for.
        value: String,
        /// What it may be.
        allowed: Allowed,
        /// Its unit; empty: none.
        unit: &'static str,
    },
}

fn did_you_mean(nearest: Option<&&'static str>) -> String {
    nearest.map_or_else(String::new, |name| format!(" (did you mean `{name}`?)"))
}

/// The candidate with the fewest edits to `name`, if they are few enough to be a slip: one in three characters, one at least.
#[must_use]
pub fn nearest(name: &str, candidates: impl Iterator<Item = &'static str>) -> Option<&'static str> {
    candidates
        .map(|candidate| (edit_distance(&name.to_lowercase(), candidate), candidate))
        .filter(|(distance, candidate)| *distance <= (candidate.len() / 3).max(1))
        .min()
        .map(|(_, candidate)| candidate)
}

/// Levenshtein's distance, one row at a time.
fn edit_distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let substituted = diagonal + usize::from(x != *y);
            diagonal = row[j + 1];
            row[j + 1] = substituted.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edit_distance_is_levenshteins() {
        for (a, b, d) in [("", "abc", 3), ("kitten", "sitting", 3), ("cubic", "cubic", 0), ("cubik", "cubic", 1), ("bbrr", "bbr", 1)] {
            assert_eq!((edit_distance(a, b), edit_distance(b, a)), (d, d), "{a} {b}");
        }
    }

    #[test]
    fn a_slip_is_recognised_and_nonsense_is_not() {
        let names = ["bbr", "cubic", "reno"];
        assert_eq!(nearest("CUBIK", names.into_iter()), Some("cubic"));
        assert_eq!(nearest("renos", names.into_iter()), Some("reno"));
        assert_eq!(nearest("vegas", names.into_iter()), None);
    }
}
