//! GF(256) with the polynomial x⁸ + x⁴ + x³ + x² + 1, whose generator is x.

const POLYNOMIAL: u16 = 0x11d;

/// Powers of the generator, twice, so that sums of two logarithms need no reduction; and logarithms.
const TABLES: ([u8; 510], [u8; 256]) = tables();

#[allow(clippy::cast_possible_truncation)] // below 256
const fn tables() -> ([u8; 510], [u8; 256]) {
    let (mut powers, mut logarithms) = ([0; 510], [0; 256]);
    let (mut value, mut exponent) = (1_u16, 0);
    while exponent < 255 {
        powers[exponent] = value as u8;
        powers[exponent + 255] = value as u8;
        logarithms[value as usize] = exponent as u8;
        value <<= 1;
        if value > 255 {
            value ^= POLYNOMIAL;
        }
        exponent += 1;
    }
    (powers, logarithms)
}

/// Return the product.
#[must_use]
pub const fn multiply(a: u8, b: u8) -> u8 {
    if a == 0 || b == 0 {
        return 0;
    }
    TABLES.0[TABLES.1[a as usize] as usize + TABLES.1[b as usize] as usize]
}

/// Return the inverse of a value other than 0.
#[must_use]
pub const fn invert(a: u8) -> u8 {
    TABLES.0[255 - TABLES.1[a as usize] as usize]
}

/// Add `factor` times `from` to `to`, which is lengthened with zeros to the length of `from`.
pub fn add_multiple(to: &mut Vec<u8>, from: &[u8], factor: u8) {
    if to.len() < from.len() {
        to.resize(from.len(), 0);
    }
    to.iter_mut().zip(from).for_each(|(to, &from)| *to ^= multiply(from, factor));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_a_field() {
        for a in 1..=255 {
            assert_eq!(multiply(a, invert(a)), 1);
            assert_eq!(multiply(a, 1), a);
            for b in [1, 2, 3, 77, 255] {
                assert_eq!(multiply(a, b), multiply(b, a));
                assert_eq!(multiply(a, b ^ 9), multiply(a, b) ^ multiply(a, 9));
            }
        }
        assert_eq!(multiply(0x80, 2), 0x1d);
    }
}
