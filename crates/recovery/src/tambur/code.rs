//! The streaming code: coefficients and decoding.

use super::field::{add_multiple, invert, multiply};
use super::{Parity, Symbol};
use std::collections::{BTreeMap, BTreeSet};

/// Most packets, and most parities, of a frame.
pub const MOST_SYMBOLS: u16 = 16;

/// Shape of the code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Code {
    /// Frames after a lost one until it is recovered at the latest.
    pub tau: u64,
}

impl Code {
    /// Return the number of frames that the code spans: no symbol outside is recovered or needed.
    #[must_use]
    pub const fn span(self) -> u64 {
        2 * self.tau + 1
    }

    /// Return the coefficient of a symbol in a parity of `frame`; 0: it is not covered. Those of a Cauchy matrix, so that any square part of it that has no
    /// zeros is invertible.
    #[must_use]
    #[allow(clippy::cast_possible_truncation)] // 2 × 7 frames × 16 symbols are below 256
    pub const fn coefficient(self, frame: u64, number: u16, symbol: Symbol) -> u8 {
        let Some(age) = frame.checked_sub(symbol.frame) else { return 0 };
        let is_first_half = symbol.index.is_multiple_of(2);
        let is_covered = age <= self.tau && (is_first_half || age == 0 || age == self.tau);
        if !is_covered {
            return 0;
        }
        let (span, width) = (self.span(), MOST_SYMBOLS as u64);
        let row = (frame % span) * width + number as u64;
        let column = span * width + (symbol.frame % span) * width + symbol.index as u64;
        invert(row as u8 ^ column as u8)
    }

    /// Return a parity of the newest frame. `frames`: the content of the covered frames' packets, oldest first.
    #[must_use]
    pub fn parity(self, frame: u64, number: u16, frames: &[Vec<Vec<u8>>]) -> Parity {
        let mut value = Vec::new();
        let first = frame + 1 - frames.len() as u64;
        for (frame_of, packets) in (first..).zip(frames) {
            for (index, content) in (0..).zip(packets) {
                let factor = self.coefficient(frame, number, Symbol { frame: frame_of, index });
                if factor != 0 {
                    add_multiple(&mut value, content, factor);
                }
            }
        }
        let sizes = frames.iter().map(|packets| u16::try_from(packets.len()).unwrap_or(u16::MAX)).collect();
        Parity { frame, number, sizes, value }
    }
}

/// The symbols and parities of the newest frames.
#[derive(Debug)]
pub struct Decoder {
    code: Code,
    arrived: BTreeMap<Symbol, Vec<u8>>,
    parities: Vec<Parity>,
    newest: u64,
}

impl Decoder {
    /// Create a decoder without symbols.
    #[must_use]
    pub const fn new(code: Code) -> Self {
        Self { code, arrived: BTreeMap::new(), parities: Vec::new(), newest: 0 }
    }

    /// Return the oldest frame that still matters.
    #[must_use]
    pub const fn oldest(&self) -> u64 {
        (self.newest + 1).saturating_sub(self.code.span())
    }

    /// Take in a packet. Returns false if it came before, or so late that nothing depends on it.
    pub fn on_symbol(&mut self, symbol: Symbol, content: Vec<u8>) -> bool {
        self.advance(symbol.frame);
        symbol.frame >= self.oldest() && self.arrived.insert(symbol, content).is_none()
    }

    /// Take in a parity.
    pub fn on_parity(&mut self, parity: Parity) {
        self.advance(parity.frame);
        let is_new = !self.parities.iter().any(|each| (each.frame, each.number) == (parity.frame, parity.number));
        if is_new && self.oldest() <= parity.frame {
            self.parities.push(parity);
        }
    }

    fn advance(&mut self, frame: u64) {
        if frame > self.newest {
            self.newest = frame;
            let oldest = self.oldest();
            self.arrived = self.arrived.split_off(&Symbol { frame: oldest, index: 0 });
            self.parities.retain(|parity| parity.frame >= oldest);
        }
    }

    /// Recover what the parities determine. Returns the symbols with their content, in order; a content may be longer than the packet was, by zeros.
    pub fn recover(&mut self) -> Vec<(Symbol, Vec<u8>)> {
        let unknown: Vec<Symbol> = self.unknown().into_iter().collect();
        if unknown.is_empty() {
            return Vec::new();
        }
        let mut rows: Vec<(Vec<u8>, Vec<u8>)> = self.parities.iter().filter_map(|parity| self.row(parity, &unknown)).collect();
        let recovered = solve(&mut rows, unknown.len());
        let symbols: Vec<_> = recovered.into_iter().map(|(column, content)| (unknown[column], content)).collect();
        for (symbol, content) in &symbols {
            self.arrived.insert(*symbol, content.clone());
        }
        symbols
    }

    /// Return the symbols that a parity covers and that have not arrived.
    fn unknown(&self) -> BTreeSet<Symbol> {
        let mut unknown = BTreeSet::new();
        for parity in &self.parities {
            unknown.extend(covered(self.code, parity).filter(|(symbol, _)| !self.arrived.contains_key(symbol)).map(|(symbol, _)| symbol));
        }
        unknown
    }

    /// Return a parity's coefficients of the unknown symbols, and its value less the known ones; `None`: it has none, or covers a frame that is too old.
    fn row(&self, parity: &Parity, unknown: &[Symbol]) -> Option<(Vec<u8>, Vec<u8>)> {
        let mut coefficients = vec![0; unknown.len()];
        let mut value = parity.value.clone();
        for (symbol, factor) in covered(self.code, parity) {
            if let Some(content) = self.arrived.get(&symbol) {
                add_multiple(&mut value, content, factor);
            } else if symbol.frame < self.oldest() {
                return None;
            } else if let Ok(column) = unknown.binary_search(&symbol) {
                coefficients[column] = factor;
            }
        }
        coefficients.iter().any(|&factor| factor != 0).then_some((coefficients, value))
    }
}

/// Return the symbols that a parity covers, with their coefficients.
fn covered(code: Code, parity: &Parity) -> impl Iterator<Item = (Symbol, u8)> {
    let first = (parity.frame + 1).saturating_sub(parity.sizes.len() as u64);
    let (frame, number) = (parity.frame, parity.number);
    let symbols = (first..).zip(&parity.sizes).flat_map(|(frame, &size)| (0..size.min(MOST_SYMBOLS)).map(move |index| Symbol { frame, index }));
    symbols.map(move |symbol| (symbol, code.coefficient(frame, number, symbol))).filter(|(_, factor)| *factor != 0)
}

/// Bring the rows to reduced echelon form (Gauss and Jordan). Returns the columns that are determined, with their values.
fn solve(rows: &mut [(Vec<u8>, Vec<u8>)], columns: usize) -> Vec<(usize, Vec<u8>)> {
    let mut done = 0;
    for column in 0..columns {
        let Some(pivot) = (done..rows.len()).find(|&row| rows[row].0[column] != 0) else { continue };
        rows.swap(done, pivot);
        let factor = invert(rows[done].0[column]);
        rows[done].0.iter_mut().chain(&mut rows[done].1).for_each(|value| *value = multiply(*value, factor));
        let (coefficients, value) = rows[done].clone();
        for (row, other) in rows.iter_mut().enumerate().filter(|(row, _)| *row != done) {
            let factor = other.0[column];
            if factor != 0 && row != done {
                add_multiple(&mut other.0, &coefficients, factor);
                add_multiple(&mut other.1, &value, factor);
            }
        }
        done += 1;
    }
    let single = |row: &(Vec<u8>, Vec<u8>)| {
        let mut set = row.0.iter().enumerate().filter(|(_, factor)| **factor != 0);
        let (column, _) = set.next()?;
        set.next().is_none().then(|| (column, row.1.clone()))
    };
    rows.iter().filter_map(single).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use bentpipe_profile::Streams;

    const CODE: Code = Code { tau: 3 };

    /// Frames of eight packets with random content, of which those in `lost` do not arrive, nor their parities. Returns how many of the lost packets were
    /// recovered after each frame.
    fn recovered(parities: u16, lost: &[u64]) -> Vec<usize> {
        let mut draws = Streams::new(3).stream("code");
        let mut frames: Vec<Vec<Vec<u8>>> = Vec::new();
        let mut decoder = Decoder::new(CODE);
        let mut counts = Vec::new();
        let mut sum = 0;
        for frame in 0..12_u64 {
            frames.push((0..8).map(|_| (0..20).map(|_| u8::try_from(draws.below(256)).unwrap()).collect()).collect());
            let first = usize::try_from(frame.saturating_sub(3)).unwrap();
            let sent: Vec<Parity> = (0..parities).map(|number| CODE.parity(frame, number, &frames[first..])).collect();
            if !lost.contains(&frame) {
                for (index, content) in (0..).zip(frames.last().unwrap()) {
                    decoder.on_symbol(Symbol { frame, index }, content.clone());
                }
                for parity in sent {
                    decoder.on_parity(parity);
                }
                for (symbol, content) in decoder.recover() {
                    assert_eq!(content, frames[usize::try_from(symbol.frame).unwrap()][usize::from(symbol.index)]);
                    sum += 1;
                }
            }
            counts.push(sum);
        }
        counts
    }

    #[test]
    fn half_as_many_parities_recover_a_lost_frame_iff_three_frames_follow() {
        // The first half with the parities of two frames, the rest with those of the third.
        assert_eq!(recovered(4, &[4])[4..9], [0, 4, 4, 8, 8]);
        assert!(recovered(4, &[4, 7])[11] < 16);
        assert_eq!(recovered(4, &[4, 8])[11], 16);
    }

    #[test]
    fn a_quarter_recovers_half_of_it_and_two_frames_need_as_many_parities_as_packets() {
        assert_eq!(recovered(2, &[4])[11], 4);
        assert!(recovered(4, &[4, 5])[11] < 16);
        assert_eq!(recovered(8, &[4, 5])[11], 16);
    }

    #[test]
    fn without_loss_nothing_is_recovered_and_memory_stays_small() {
        assert_eq!(recovered(4, &[])[11], 0);
        let mut decoder = Decoder::new(CODE);
        for frame in 0..1000 {
            (0..8).for_each(|index| assert!(decoder.on_symbol(Symbol { frame, index }, Vec::new())));
            decoder.on_parity(Parity { frame, number: 0, sizes: vec![8; 4], value: Vec::new() });
        }
        assert_eq!((decoder.arrived.len(), decoder.parities.len()), (56, 7));
        assert!(!decoder.on_symbol(Symbol { frame: 999, index: 0 }, Vec::new()), "it came before");
        assert!(!decoder.on_symbol(Symbol { frame: 5, index: 0 }, Vec::new()), "it is too old");
    }

    #[test]
    fn single_losses_are_recovered_within_their_frame() {
        let mut decoder = Decoder::new(CODE);
        (1..8).for_each(|index| assert!(decoder.on_symbol(Symbol { frame: 0, index }, vec![])));
        decoder.on_parity(Parity { frame: 0, number: 0, sizes: vec![8], value: vec![] });
        assert_eq!(decoder.recover(), [(Symbol { frame: 0, index: 0 }, vec![])]);
    }
}
