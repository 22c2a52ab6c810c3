//! Fast parsers for the most frequent lines in logs of measurement tools.
//!
//! The readers in `bentpipe.measurements.readers` (Python) define the formats. This crate parses two kinds of line that make up most of a long log: a reply of
//! ping, and a table row of plain numbers. It returns every other line unparsed, with its number, to the Python reader. It neither refuses nor guesses
//! anything.

mod cursor;
pub mod ping;
pub mod table;

/// The lines that were not parsed, in order.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct UnparsedLines {
    /// Line numbers, counted from the number of the block's first line.
    pub lines: Vec<u32>,
    /// Their bytes, each line with a line feed. A last line without one gets one.
    pub text: Vec<u8>,
}

impl UnparsedLines {
    fn push(&mut self, number: u32, line: &[u8]) {
        self.lines.push(number);
        self.text.extend_from_slice(line);
        self.text.push(b'\n');
    }
}

/// Split a block into lines without their line feeds, numbered from `first`. The last line may lack a line feed.
fn lines(block: &[u8], first: u32) -> impl Iterator<Item = (u32, &[u8])> {
    let text = block.strip_suffix(b"\n").unwrap_or(block);
    text.split(|&byte| byte == b'\n').zip(first..).map(|(line, number)| (number, line))
}
