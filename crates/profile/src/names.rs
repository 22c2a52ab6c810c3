//! Names that users misspell.

/// Returns the end of an error that suggests the nearest known name.
#[must_use]
pub fn did_you_mean(nearest: Option<&&'static str>) -> String {
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
