//! Parser for the rows of a table of plain numbers.

use crate::cursor::Cursor;
use crate::{UnparsedLines, lines};

/// How a column of a table is parsed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Skipped: it may contain anything.
    Skipped,
    /// A time, in units of this many nanoseconds (a power of ten).
    Time(i64),
    /// A number, at least 0.
    Number,
    /// An RTT: a number, at least 0. `-1`, `-1.0` and an empty cell are NaN: a lost probe.
    Rtt,
}

/// The values of a parsed column, one per row.
#[derive(Clone, Debug, PartialEq)]
pub enum Column {
    /// Values of [`Kind::Time`] [ns].
    Time(Vec<i64>),
    /// Values of the other kinds.
    Number(Vec<f64>),
}

/// The rows of a block, in order of lines.
#[derive(Debug, PartialEq)]
pub struct Rows {
    /// Line numbers.
    pub line: Vec<u32>,
    /// The columns that are not skipped, from left to right.
    pub columns: Vec<Column>,
    /// All other lines.
    pub unparsed: UnparsedLines,
}

enum Value {
    Time(i64),
    Number(f64),
}

/// Parse a block of whole lines, numbered from `first`. The last line may lack a line feed.
///
/// One `separator` separates two columns. A row is parsed if it has one column for each kind and each value matches its kind. A value with blanks around
/// it does not match.
#[must_use]
pub fn rows(block: &[u8], first: u32, separator: u8, kinds: &[Kind]) -> Rows {
    let mut parsed = Rows {
        line: Vec::new(),
        columns: kinds
            .iter()
            .filter_map(|kind| match kind {
                Kind::Skipped => None,
                Kind::Time(_) => Some(Column::Time(Vec::new())),
                Kind::Number | Kind::Rtt => Some(Column::Number(Vec::new())),
            })
            .collect(),
        unparsed: UnparsedLines::default(),
    };
    let mut values = Vec::with_capacity(kinds.len());
    for (number, line) in lines(block, first) {
        values.clear();
        let plain = line.strip_suffix(b"\r").unwrap_or(line);
        if row(plain, separator, kinds, &mut values).is_none() {
            parsed.unparsed.push(number, line);
            continue;
        }
        parsed.line.push(number);
        for (column, value) in parsed.columns.iter_mut().zip(&values) {
            match (column, value) {
                (Column::Time(times), Value::Time(at)) => times.push(*at),
                (Column::Number(numbers), Value::Number(number)) => numbers.push(*number),
                _ => unreachable!("columns and values are made from the same kinds"),
            }
        }
    }
    parsed
}

/// Parse one line into `values`; `None`: it is not a plain row.
fn row(line: &[u8], separator: u8, kinds: &[Kind], values: &mut Vec<Value>) -> Option<()> {
    if line.is_empty() || line[0] == b'#' {
        return None;
    }
    let mut cells = line.split(|&byte| byte == separator);
    for kind in kinds {
        let cell = cells.next()?;
        match kind {
            Kind::Skipped => {}
            Kind::Time(scale) => values.push(Value::Time(time(cell, *scale)?)),
            Kind::Rtt if matches!(cell, b"" | b"-1" | b"-1.0") => values.push(Value::Number(f64::NAN)),
            Kind::Number | Kind::Rtt => values.push(Value::Number(number(cell)?)),
        }
    }
    cells.next().is_none().then_some(())
}

/// Parse a number, at least 0.
fn number(cell: &[u8]) -> Option<f64> {
    let mut text = Cursor(cell);
    let value = text.decimal(15, 15)?.to_f64()?;
    text.0.is_empty().then_some(value)
}

/// Parse a time in units of `scale` ns. Returns [ns].
fn time(cell: &[u8], scale: i64) -> Option<i64> {
    let mut text = Cursor(cell);
    // Unix times in nanoseconds have 19 digits today, but `Cursor` parses 18. The first digit is parsed here.
    let (high, cell) = if cell.iter().take_while(|byte| byte.is_ascii_digit()).count() == 19 {
        (text.0[0].checked_sub(b'0').filter(|&digit| digit < 5)?, &cell[1..])
    } else {
        (0, cell)
    };
    text.0 = cell;
    let decimal = text.decimal(18, 15)?;
    if !text.0.is_empty() {
        return None;
    }
    let whole = i64::from(high) * 10_i64.pow(18) + decimal.whole;
    let part = (decimal.fraction_f64()? * scale as f64).round_ties_even();
    #[allow(clippy::cast_possible_truncation)] // at most the scale, 10^9
    let part = part as i64;
    whole.checked_mul(scale).filter(|&ns| ns <= 1 << 62).map(|ns| ns + part)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const KINDS: [Kind; 3] = [Kind::Time(1_000_000_000), Kind::Skipped, Kind::Rtt];

    #[test]
    fn rows_are_parsed_and_other_lines_returned() {
        let text = b"when,what,rtt_ms\n1748560813.377794,a,47.1\r\n1748560814,,-1\n1748560815,b,\n1748560816, c,x\n1748560817,d\n";
        let parsed = rows(text, 1, b',', &KINDS);
        assert_eq!(parsed.line, [2, 3, 4]);
        assert_eq!(parsed.unparsed.lines, [1, 5, 6]);
        let seconds = 1_000_000_000;
        let times = vec![1_748_560_813_377_794_000, 1_748_560_814 * seconds, 1_748_560_815 * seconds];
        assert_eq!(parsed.columns[0], Column::Time(times));
        let Column::Number(rtt_ms) = &parsed.columns[1] else { panic!("a number") };
        assert_eq!(rtt_ms[..1], [47.1]);
        assert!(rtt_ms[1].is_nan() && rtt_ms[2].is_nan());
    }

    #[test]
    fn times_in_nanoseconds_may_have_nineteen_digits() {
        let kinds = [Kind::Time(1), Kind::Number];
        let parsed = rows(b"1734544800095465984 1\n5734544800095465984 1\n17345448000954659840 1\n", 1, b' ', &kinds);
        assert_eq!(parsed.columns[0], Column::Time(vec![1_734_544_800_095_465_984]));
        assert_eq!(parsed.unparsed.lines, [2, 3]);
    }

    proptest! {
        #[test]
        fn parsing_never_panics_and_returns_every_line_once(text in "[0-9.,\\-\n\r\"# x]{0,300}", separator in prop::sample::select(vec![b',', b' '])) {
            let parsed = rows(text.as_bytes(), 1, separator, &KINDS);
            let whole = text.strip_suffix('\n').unwrap_or(&text);
            prop_assert_eq!(parsed.line.len() + parsed.unparsed.lines.len(), whole.split('\n').count());
        }

        #[test]
        fn digits_beyond_nanoseconds_are_rounded(whole in 0_i64..4_000_000_000, part in 0_i64..1_000_000_000) {
            let text = format!("{whole}.{part:09},,1\n");
            let parsed = rows(text.as_bytes(), 1, b',', &KINDS);
            prop_assert_eq!(&parsed.columns[0], &Column::Time(vec![whole * 1_000_000_000 + part]));
        }
    }
}
