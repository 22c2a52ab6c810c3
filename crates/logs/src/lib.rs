//! Logs of measuring tools as columns: the lines that come by the million, and no others.
//!
//! What a log may hold is said once, in `bentpipe.measurements.readers` (Python). Here stand the two kinds of line of which a long log
//! has nine of ten: ping's reply and a table's row of plain numbers. A line that is not exactly one is handed back
//! unread, with its number, to whom it may concern; so nothing is refused or guessed here.

mod cursor;
pub mod ping;
pub mod table;

/// The lines that were not read, one after the other, each with its end.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Rest {
    /// The number of each, from that of the block's first line.
    pub lines: Vec<u32>,
    /// Their bytes; a last line without an end gets one.
    pub text: Vec<u8>,
}

impl Rest {
    fn push(&mut self, number: u32, line: &[u8]) {
        self.lines.push(number);
        self.text.extend_from_slice(line);
        self.text.push(b'\n');
    }
}

/// The lines of a block, numbered from `first`, without their ends; what follows the last end is a line if it is there.
fn lines(block: &[u8], first: u32) -> impl Iterator<Item = (u32, &[u8])> {
    let whole = block.strip_suffix(b"\n").unwrap_or(block);
    whole.split(|&byte| byte == b'\n').zip(first..).map(|(line, number)| (number, line))
}
