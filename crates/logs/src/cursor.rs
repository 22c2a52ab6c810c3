//! A line, read from its beginning.

/// Powers of ten that a double holds exactly, as far as they are wanted here.
const TENS: [f64; 16] = [1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15];

/// Digits that a number of a double's exactness may have: 10^15 is below 2^53, so that one division rounds once.
const MOST_DIGITS: usize = 15;

/// A decimal number as it is written: `digits` without the point, and how many of them stand behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Decimal {
    pub whole: i64,
    pub fraction: i64,
    pub places: usize,
    count: usize,
}

impl Decimal {
    /// The double nearest to it, as any careful reader of decimals finds it; None: too many digits to be sure of that here.
    pub fn to_f64(self) -> Option<f64> {
        if self.count > MOST_DIGITS {
            return None;
        }
        let scale = 10_i64.pow(u32::try_from(self.places).ok()?);
        Some((self.whole * scale + self.fraction) as f64 / TENS[self.places])
    }

    /// The fraction alone, below 1.
    pub fn fraction_f64(self) -> Option<f64> {
        (self.places <= MOST_DIGITS).then(|| self.fraction as f64 / TENS[self.places])
    }
}

pub(crate) struct Cursor<'a>(pub &'a [u8]);

impl Cursor<'_> {
    /// Goes past `text`, if it comes next.
    pub fn take(&mut self, text: &[u8]) -> Option<()> {
        self.0 = self.0.strip_prefix(text)?;
        Some(())
    }

    /// A run of 1 to `most` digits (18 at most), its value and length.
    pub fn digits(&mut self, most: usize) -> Option<(i64, usize)> {
        let mut value = 0_i64;
        let mut count = 0;
        while let Some(digit) = self.0.get(count).map(|byte| byte.wrapping_sub(b'0')).filter(|&digit| digit < 10) {
            if count == most {
                return None;
            }
            value = value * 10 + i64::from(digit);
            count += 1;
        }
        self.0 = &self.0[count..];
        (count > 0).then_some((value, count))
    }

    /// Digits, and perhaps a point with digits behind it.
    pub fn decimal(&mut self, most_whole: usize, most_places: usize) -> Option<Decimal> {
        let (whole, before) = self.digits(most_whole)?;
        if self.take(b".").is_none() {
            return Some(Decimal { whole, fraction: 0, places: 0, count: before });
        }
        let (fraction, places) = self.digits(most_places)?;
        Some(Decimal { whole, fraction, places, count: before + places })
    }
}
