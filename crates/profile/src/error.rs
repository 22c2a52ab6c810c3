//! What can be wrong with a Profile or an Experiment: where, what was found, what was wanted.

use thiserror::Error;

/// Most characters of foreign text that an error shows: what is wrong with a longer one is seen in these.
pub const SHOWN_CHARS: usize = 80;

/// Most characters of a parser's message that an error shows: room for the values it names and for what it wanted instead.
pub const SHOWN_MESSAGE_CHARS: usize = 400;

/// Foreign text as an error shows it: its first [`SHOWN_CHARS`] characters, with an ellipsis if there are more. The one place where that is
/// decided, for every crate.
#[must_use]
pub fn shown(text: &str) -> String {
    clipped(text, SHOWN_CHARS)
}

/// A parser's message, which may quote foreign text: no word longer than [`SHOWN_CHARS`], and [`SHOWN_MESSAGE_CHARS`] in all.
#[must_use]
pub fn shown_message(text: &str) -> String {
    clipped(&text.split(' ').map(shown).collect::<Vec<_>>().join(" "), SHOWN_MESSAGE_CHARS)
}

fn clipped(text: &str, most_chars: usize) -> String {
    match text.char_indices().nth(most_chars) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// A Profile or Experiment that cannot be.
#[derive(Debug, Error, Clone, PartialEq)]
#[non_exhaustive]
pub enum ProfileError {
    /// A series' times do not increase.
    #[error("{series}: row {row} is at {found_s} s, after a row at {before_s} s; times must increase", series = shown(series))]
    TimesNotIncreasing {
        /// Which series: `hop/direction/kind`.
        series: String,
        /// Row in that series, from 0.
        row: usize,
        /// Its time [s].
        found_s: f64,
        /// The time of the row before [s].
        before_s: f64,
    },
    /// A value that is negative, NaN, infinite or beyond its range.
    #[error("{series}: {value} at {at_s} s is not usable; wanted {wanted}", series = shown(series))]
    BadValue {
        /// Which series.
        series: String,
        /// When [s].
        at_s: f64,
        /// What was found.
        value: f64,
        /// What is accepted.
        wanted: &'static str,
    },
    /// A time that is negative, NaN or outside the span.
    #[error("{what}: {found_s} s is outside the Profile's span of 0 to {span_s} s")]
    OutsideSpan {
        /// What lies outside.
        what: String,
        /// Its time [s].
        found_s: f64,
        /// The Profile's duration [s].
        span_s: f64,
    },
    /// Two grants of one jitter series in the wrong order.
    #[error("{series}: the closure at {at_s} s ends at {end_s} s, before an earlier one ends ({before_s} s); packets would overtake", series = shown(series))]
    GrantsCross {
        /// Which series.
        series: String,
        /// Start of the closure [s].
        at_s: f64,
        /// Its end [s].
        end_s: f64,
        /// The end of the closure before it [s].
        before_s: f64,
    },
    /// A series that needs a row at the beginning has none.
    #[error("{series}: no row; a {kind} series needs at least one", series = shown(series))]
    EmptySeries {
        /// Which series.
        series: String,
        /// What it holds.
        kind: &'static str,
    },
    /// Nothing to send packets over.
    #[error("the Profile has no {what}; it needs at least one")]
    Nothing {
        /// hops, routes.
        what: &'static str,
    },
    /// A hop number that does not exist.
    #[error("{what} names hop {found}, but there are {hops} (0 to {last})", last = hops.saturating_sub(1))]
    NoSuchHop {
        /// Who names it.
        what: String,
        /// The number.
        found: usize,
        /// How many hops there are.
        hops: usize,
    },
    /// The same hop twice in one route, or the same name twice.
    #[error("{what} holds {found} twice", found = shown(found))]
    Twice {
        /// Where.
        what: String,
        /// What.
        found: String,
    },
    /// A duration of zero.
    #[error("{what} is {found_s} s; it must be longer than zero")]
    NotPositive {
        /// Which duration.
        what: &'static str,
        /// Its value [s].
        found_s: f64,
    },
    /// Metadata that is not ours.
    #[error("the Profile's metadata cannot be read: {}; write the file again with `bentpipe profile make`", shown_message(reason))]
    Metadata {
        /// The parser's message.
        reason: String,
    },
    /// Metadata of a version that this build does not know.
    #[error("the Profile has format {found}, this bentpipe reads up to {known}: install a newer bentpipe")]
    NewerFormat {
        /// What the file says.
        found: u32,
        /// The newest format known here.
        known: u32,
    },
    /// A table whose content is not what its hash says.
    #[error("the Profile's content does not match its hash (stored {stored}, computed {computed}): the file is damaged, make it again")]
    HashMismatch {
        /// In the file.
        stored: String,
        /// From its content.
        computed: String,
    },
    /// A row of the table with an unknown code.
    #[error("row {row}: {what} {found} is unknown")]
    UnknownCode {
        /// Row of the table.
        row: usize,
        /// Which column.
        what: &'static str,
        /// What it holds.
        found: u64,
    },
    /// Columns of different length.
    #[error("column {column} has {found} rows, the others {wanted}")]
    Ragged {
        /// The odd column.
        column: &'static str,
        /// Its length.
        found: usize,
        /// The others'.
        wanted: usize,
    },
    /// An Experiment that cannot be run.
    #[error("experiment: {field}: {}; wanted {wanted}", shown_message(found))]
    Experiment {
        /// The field, dotted.
        field: String,
        /// What it holds.
        found: String,
        /// What is accepted.
        wanted: String,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_text_is_clipped_and_short_text_is_not() {
        assert_eq!(shown("sat:1"), "sat:1");
        let exact = "é".repeat(SHOWN_CHARS);
        assert_eq!(shown(&exact), exact);
        assert_eq!(shown(&format!("{exact}x")), format!("{exact}…"));
        let message = format!("unknown field `{}`, expected `a`", "y".repeat(5_000));
        assert_eq!(shown_message(&message), format!("unknown field `{}… expected `a`", "y".repeat(SHOWN_CHARS - 1)));
        assert!(shown_message(&"word ".repeat(5_000)).chars().count() == SHOWN_MESSAGE_CHARS + 1);
        let error = ProfileError::Twice { what: "the list of hops".to_owned(), found: "z".repeat(10_000) };
        assert!(error.to_string().chars().count() < 120);
    }
}
