//! Errors of Profiles and Experiments: where, the value, and what is expected.

use thiserror::Error;

/// Most characters of foreign text that an error message shows.
pub const SHOWN_CHARS: usize = 80;

/// Most characters of a parser's message that an error message shows: enough for the values it names and the expected ones.
pub const SHOWN_MESSAGE_CHARS: usize = 400;

/// Shorten foreign text for an error message: its first [`SHOWN_CHARS`] characters, with an ellipsis if there are more. Every crate uses this
/// function.
#[must_use]
pub fn shown(text: &str) -> String {
    shorten(text, SHOWN_CHARS)
}

/// Shorten a parser's message, which may quote foreign text: no word longer than [`SHOWN_CHARS`], and at most [`SHOWN_MESSAGE_CHARS`] in all.
#[must_use]
pub fn shown_message(text: &str) -> String {
    shorten(&text.split(' ').map(shown).collect::<Vec<_>>().join(" "), SHOWN_MESSAGE_CHARS)
}

fn shorten(text: &str, max_chars: usize) -> String {
    match text.char_indices().nth(max_chars) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// Why a Profile or an Experiment is invalid.
#[derive(Debug, Error, Clone, PartialEq)]
#[non_exhaustive]
pub enum ProfileError {
    /// A series' times do not increase.
    #[error("{series}: row {row} is at {at_s} s, after a row at {before_s} s; times must increase", series = shown(series))]
    TimesNotIncreasing {
        /// Which series: `hop/direction/kind`.
        series: String,
        /// Row in that series, from 0.
        row: usize,
        /// Its time [s].
        at_s: f64,
        /// Time of the row before [s].
        before_s: f64,
    },
    /// A value that is negative, NaN, infinite or beyond its range.
    #[error("{series}: value {value} at {at_s} s; expected {expected}", series = shown(series))]
    BadValue {
        /// Which series.
        series: String,
        /// Time of the value [s].
        at_s: f64,
        /// The value.
        value: f64,
        /// Accepted values.
        expected: &'static str,
    },
    /// A time that is negative, NaN or outside the span.
    #[error("{item}: {at_s} s is outside the Profile; expected 0 to {span_s} s")]
    OutsideSpan {
        /// What lies outside: an event, a route, a series.
        item: String,
        /// Its time [s].
        at_s: f64,
        /// The Profile's duration [s].
        span_s: f64,
    },
    /// Two closures of one jitter series end in the wrong order.
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
    /// A series without rows.
    #[error("{series}: no row; a {kind} series needs at least one", series = shown(series))]
    EmptySeries {
        /// Which series.
        series: String,
        /// Its kind.
        kind: &'static str,
    },
    /// No hops or no routes.
    #[error("the Profile has no {item}; expected at least one")]
    Empty {
        /// `hop` or `route`.
        item: &'static str,
    },
    /// An index of a hop that does not exist.
    #[error("{item}: hop {hop} does not exist; expected 0 to {last}", last = hops.saturating_sub(1))]
    NoSuchHop {
        /// The route or event that names it.
        item: String,
        /// The index.
        hop: usize,
        /// How many hops there are.
        hops: usize,
    },
    /// The same hop twice in one route, or two hops with one name.
    #[error("{list}: {name} occurs twice; expected once", name = shown(name))]
    Duplicate {
        /// The route, or the list of hops.
        list: String,
        /// Name of the hop.
        name: String,
    },
    /// A duration of zero.
    #[error("{duration} is {value_s} s; expected more than zero")]
    NotPositive {
        /// Which duration.
        duration: &'static str,
        /// Its value [s].
        value_s: f64,
    },
    /// Metadata that cannot be parsed.
    #[error("the Profile's metadata cannot be read: {}; write the file again with `bentpipe profile make`", shown_message(reason))]
    Metadata {
        /// The parser's message.
        reason: String,
    },
    /// Metadata in a format that this build does not know.
    #[error("the Profile has format {format}, this bentpipe reads up to {known}: install a newer bentpipe")]
    NewerFormat {
        /// Format of the file.
        format: u32,
        /// Newest format that this build reads.
        known: u32,
    },
    /// A table whose content does not match its hash.
    #[error("the Profile's content does not match its hash (stored {stored}, computed {computed}): the file is damaged, make it again")]
    HashMismatch {
        /// Hash in the file.
        stored: String,
        /// Hash of the content.
        computed: String,
    },
    /// A row of the table with an unknown code.
    #[error("row {row}: {column} {code} is unknown")]
    UnknownCode {
        /// Row of the table.
        row: usize,
        /// Name of the column.
        column: &'static str,
        /// The code.
        code: u64,
    },
    /// Columns of different length.
    #[error("column {column} has {rows} rows; expected {expected}, as in the others")]
    UnequalColumns {
        /// Name of the column.
        column: &'static str,
        /// Its length.
        rows: usize,
        /// Length of the other columns.
        expected: usize,
    },
    /// Nodes, links and paths that make no network.
    #[error("{item}: {problem}; expected {expected}", item = shown(item))]
    Network {
        /// The node, link, path or shared queue.
        item: String,
        /// What is wrong with it.
        problem: String,
        /// What would be right.
        expected: String,
    },
    /// An Experiment that cannot be run.
    #[error("experiment: {field}: {}; expected {expected}", shown_message(value))]
    Experiment {
        /// The field, dotted.
        field: String,
        /// Its value.
        value: String,
        /// Accepted values.
        expected: String,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_foreign_text_is_shortened() {
        assert_eq!(shown("sat:1"), "sat:1");
        let exact = "é".repeat(SHOWN_CHARS);
        assert_eq!(shown(&exact), exact);
        assert_eq!(shown(&format!("{exact}x")), format!("{exact}…"));
        let message = format!("unknown field `{}`, expected `a`", "y".repeat(5_000));
        assert_eq!(shown_message(&message), format!("unknown field `{}… expected `a`", "y".repeat(SHOWN_CHARS - 1)));
        assert!(shown_message(&"word ".repeat(5_000)).chars().count() == SHOWN_MESSAGE_CHARS + 1);
        let error = ProfileError::Duplicate { list: "the list of hops".to_owned(), name: "z".repeat(10_000) };
        assert!(error.to_string().chars().count() < 130);
    }
}
