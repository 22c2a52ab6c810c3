/* Logarithm, exponential function and square root in fixed point: the twin of crates/cc/src/fixed.rs, where the errors are stated. */
#ifndef BENTPIPE_CORE_LOGARITHM_H
#define BENTPIPE_CORE_LOGARITHM_H

#include "fixed.h"

#define BP_ONE_SHIFT 32
#define BP_ONE (1ULL << BP_ONE_SHIFT) /* numbers are counted in 2^-32 */
#define BP_LN_2_FINE 49946518145322874ULL /* ln 2 [2^-56] */
#define BP_LN_2 2977044472ULL
#define BP_SQRT_2 6074001000ULL

/* One step of a series by Horner's rule. */
BP_INLINE u64 bp_series(u64 term, u64 x, u64 series) { return term + ((x * series) >> BP_ONE_SHIFT); }

/* Returns ln value; that of the smallest number for 0. */
BP_INLINE s64 bp_ln(u64 value)
{
    u32 top = bp_log2_floor(value);
    u64 mantissa, centre = BP_ONE, z, square, series, exponent;
    s64 part, whole;
    int negative;

    value = bp_max(value, 1);
    mantissa = top > BP_ONE_SHIFT ? value >> (top - BP_ONE_SHIFT) : value << (BP_ONE_SHIFT - top);
    if (mantissa > BP_SQRT_2) {
        centre = 2 * BP_ONE;
        top++;
    }
    negative = top < BP_ONE_SHIFT;
    exponent = negative ? BP_ONE_SHIFT - top : top - BP_ONE_SHIFT;
    z = ((mantissa < centre ? centre - mantissa : mantissa - centre) << BP_ONE_SHIFT) / (mantissa + centre);
    square = (z * z) >> BP_ONE_SHIFT;
    series = bp_series(BP_ONE / 9, square, BP_ONE / 11);
    series = bp_series(BP_ONE / 7, square, series);
    series = bp_series(BP_ONE / 5, square, series);
    series = bp_series(BP_ONE / 3, square, series);
    series = bp_series(BP_ONE, square, series);
    part = (s64)((z * series) >> (BP_ONE_SHIFT - 1));
    whole = (s64)((exponent * BP_LN_2_FINE) >> 24);
    return (negative ? -whole : whole) + (mantissa < centre ? -part : part);
}

/* Returns e^-x. */
BP_INLINE u64 bp_exp_of_minus(u64 x)
{
    u64 halvings = x / BP_LN_2, rest = x % BP_LN_2, series = BP_ONE, n;

    if (halvings > BP_ONE_SHIFT)
        return 0;
    for (n = 12; n; n--)
        series = BP_ONE - ((rest * series) >> BP_ONE_SHIFT) / n;
    return series >> halvings;
}

/* Returns the square root, rounded down, by Newton's method: from twice the root at most, seven steps are enough for 64 bits. */
BP_INLINE u64 bp_isqrt(u64 value)
{
    u64 root = 1ULL << (bp_log2_floor(value) / 2 + 1), n;

    if (!value)
        return 0;
    for (n = 0; n < 7; n++)
        root = bp_min(root, (root + value / root) / 2);
    return root;
}

#endif
