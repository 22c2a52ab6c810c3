//! Sequence numbers of 16 bits on the wire and 64 bits in memory.
//!
//! A short number stands for the nearest long number to a reference, so numbers may be at most half the range apart.

/// First number of a sequence. Its low 16 bits are zero, and numbers just before it exist, so that a foreign short number never wraps the long one.
pub const FIRST: u64 = 1 << 16;

/// Half the range of short numbers: two numbers that are closer are told apart.
pub const HALF: u64 = 1 << 15;

/// Return the low 16 bits.
#[must_use]
#[allow(clippy::cast_possible_truncation)] // the purpose
pub const fn short(number: u64) -> u16 {
    number as u16
}

/// Return the number nearest to `reference` whose low 16 bits are `short`.
///
/// ```
/// use bentpipe_recovery::serial::expand;
/// assert_eq!(expand(2, 0x1_fffe), 0x2_0002);
/// assert_eq!(expand(0xfffe, 0x2_0002), 0x1_fffe);
/// ```
#[must_use]
#[allow(clippy::cast_possible_wrap)] // a difference modulo 2^16 as a signed number
pub const fn expand(number: u16, reference: u64) -> u64 {
    reference.saturating_add_signed(number.wrapping_sub(short(reference)) as i16 as i64)
}

/// As [`expand`], for a number of `bits` bits.
#[must_use]
#[allow(clippy::cast_possible_wrap)] // a difference modulo 2^bits as a signed number
pub const fn expand_bits(number: u32, reference: u64, bits: u32) -> u64 {
    let shift = 64 - bits;
    let distance = ((number as u64).wrapping_sub(reference) << shift) as i64 >> shift;
    reference.saturating_add_signed(distance)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_number_within_half_the_range_is_recovered(reference in FIRST..1 << 40, distance in -(1_i64 << 15)..1 << 15) {
            let number = reference.saturating_add_signed(distance);
            prop_assert_eq!(expand(short(number), reference), number);
            prop_assert_eq!(expand_bits(u32::from(short(number)), reference, 16), number);
            prop_assert_eq!(expand_bits((number & 0x1_ffff) as u32, reference, 17), number);
        }
    }
}
