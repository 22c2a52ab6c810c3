//! A cursor that parses a line from its beginning.

/// Powers of ten, exact as doubles.
const TENS: [f64; 16] = [1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15];

/// Most digits of a number that converts to a double with one rounding: 10^15 is below 2^53.
const MAX_DIGITS: usize = 15;

/// A decimal number as it is written: digits before the point, digits behind it, and how many are behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Decimal {
    pub whole: i64,
    pub fraction: i64,
    pub places: usize,
    count: usize,
}

impl Decimal {
    /// Return the nearest double; `None`: it has too many digits for an exact conversion here.
    pub fn to_f64(self) -> Option<f64> {
        if self.count > MAX_DIGITS {
            return None;
        }
        let scale = 10_i64.pow(u32::try_from(self.places).ok()?);
        Some((self.whole * scale + self.fraction) as f64 / TENS[self.places])
    }

    /// Return the fraction alone, below 1; `None`: it has too many digits.
    pub fn fraction_f64(self) -> Option<f64> {
        (self.places <= MAX_DIGITS).then(|| self.fraction as f64 / TENS[self.places])
    }
}

/// The rest of a line that is not parsed yet.
pub(crate) struct Cursor<'a>(pub &'a [u8]);

impl Cursor<'_> {
    /// Skip `text`; `None`: the rest does not begin with it.
    pub fn take(&mut self, text: &[u8]) -> Option<()> {
        self.0 = self.0.strip_prefix(text)?;
        Some(())
    }

    /// Parse 1 to `max` digits (`max`: at most 18). Returns value and number of digits.
    pub fn digits(&mut self, max: usize) -> Option<(i64, usize)> {
        let mut value = 0_i64;
        let mut count = 0;
        while let Some(digit) = self.0.get(count).map(|byte| byte.wrapping_sub(b'0')).filter(|&digit| digit < 10) {
            if count == max {
                return None;
            }
            value = value * 10 + i64::from(digit);
            count += 1;
        }
        self.0 = &self.0[count..];
        (count > 0).then_some((value, count))
    }

    /// Parse a decimal number: digits, optionally a point with digits behind it.
    pub fn decimal(&mut self, max_whole: usize, max_places: usize) -> Option<Decimal> {
        let (whole, before) = self.digits(max_whole)?;
        if self.take(b".").is_none() {
            return Some(Decimal { whole, fraction: 0, places: 0, count: before });
        }
        let (fraction, places) = self.digits(max_places)?;
        Some(Decimal { whole, fraction, places, count: before + places })
    }
}
