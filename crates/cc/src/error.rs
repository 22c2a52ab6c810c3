//! Errors in the choice of a controller or of its options.

use super::options::Allowed;

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
    /// The controller has no such option.
    #[error("controller `{controller}` has no option `{option}`{}; it takes: {known}", did_you_mean(nearest.as_ref()))]
    UnknownOption {
        /// The controller.
        controller: &'static str,
        /// The requested option.
        option: String,
        /// The nearest known option, if one is close enough.
        nearest: Option<&'static str>,
        /// All options of the controller, or "none".
        known: String,
    },
    /// The value of the option is not allowed.
    #[error("controller `{controller}`: option `{option}` is {value}; expected {allowed}{}{unit}", if unit.is_empty() { "" } else { " " })]
    OptionNotAllowed {
        /// The controller.
        controller: &'static str,
        /// The option.
        option: &'static str,
        /// The requested value, as the user wrote it.
        value: String,
        /// Allowed values.
        allowed: Allowed,
        /// Unit; empty: none.
        unit: &'static str,
    },
}

fn did_you_mean(nearest: Option<&&'static str>) -> String {
    nearest.map_or_else(String::new, |name| format!(" (did you mean `{name}`?)"))
}

/// Returns the candidate with the fewest edits to `name`, if they are at most one in three characters, or one.
#[must_use]
pub fn nearest(name: &str, candidates: impl Iterator<Item = &'static str>) -> Option<&'static str> {
    candidates
        .map(|candidate| (edit_distance(&name.to_lowercase(), candidate), candidate))
        .filter(|(distance, candidate)| *distance <= (candidate.len() / 3).max(1))
        .min()
        .map(|(_, candidate)| candidate)
}

/// Returns the Levenshtein distance; computes one row at a time.
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
    fn edit_distance_is_the_levenshtein_distance() {
        for (a, b, d) in [("", "abc", 3), ("kitten", "sitting", 3), ("cubic", "cubic", 0), ("cubik", "cubic", 1), ("bbrr", "bbr", 1)] {
            assert_eq!((edit_distance(a, b), edit_distance(b, a)), (d, d), "{a} {b}");
        }
    }

    #[test]
    fn a_misspelt_name_is_recognised_and_an_unrelated_one_is_not() {
        let names = ["bbr", "cubic", "reno"];
        assert_eq!(nearest("CUBIK", names.into_iter()), Some("cubic"));
        assert_eq!(nearest("renos", names.into_iter()), Some("reno"));
        assert_eq!(nearest("vegas", names.into_iter()), None);
    }
}
