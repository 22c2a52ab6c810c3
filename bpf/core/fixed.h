/* Products and quotients of 128 bits in steps of 64, saturating; BPF has no wider integers. */
#ifndef BENTPIPE_CORE_FIXED_H
#define BENTPIPE_CORE_FIXED_H

#include "types.h"

#define BP_MAX UINT64_MAX

BP_INLINE u64 bp_min(u64 a, u64 b) { return a < b ? a : b; }
BP_INLINE u64 bp_max(u64 a, u64 b) { return a > b ? a : b; }
BP_INLINE u64 bp_clamp(u64 value, u64 least, u64 most) { return bp_min(bp_max(value, least), most); }
BP_INLINE u64 bp_add_sat(u64 a, u64 b) { return a + b < a ? BP_MAX : a + b; }
BP_INLINE u64 bp_sub_sat(u64 a, u64 b) { return a < b ? 0 : a - b; }

/* An unsigned number of 128 bits. */
struct bp_wide {
    u64 high, low;
};

BP_INLINE struct bp_wide bp_wide_mul(u64 a, u64 b)
{
    u64 a0 = (u32)a, a1 = a >> 32, b0 = (u32)b, b1 = b >> 32;
    u64 low = a0 * b0, cross = a0 * b1, other = a1 * b0;
    u64 middle = (low >> 32) + (u32)cross + (u32)other;
    struct bp_wide product = {
        .high = a1 * b1 + (cross >> 32) + (other >> 32) + (middle >> 32),
        .low = middle << 32 | (u32)low,
    };
    return product;
}

/* Returns wide · factor; the caller knows that it fits in 128 bits. */
BP_INLINE struct bp_wide bp_wide_scale(struct bp_wide wide, u64 factor)
{
    struct bp_wide product = bp_wide_mul(wide.low, factor);

    product.high += wide.high * factor;
    return product;
}

BP_INLINE struct bp_wide bp_wide_add(struct bp_wide a, struct bp_wide b)
{
    struct bp_wide sum = {.high = a.high + b.high, .low = a.low + b.low};

    sum.high += sum.low < a.low;
    return sum;
}

/* Returns whether a < b. */
BP_INLINE int bp_wide_less(struct bp_wide a, struct bp_wide b)
{
    return a.high < b.high || (a.high == b.high && a.low < b.low);
}

/* Returns wide / 2^shift, 0 < shift < 64. */
BP_INLINE struct bp_wide bp_wide_right(struct bp_wide wide, u32 shift)
{
    struct bp_wide result = {.high = wide.high >> shift, .low = wide.low >> shift | wide.high << (64 - shift)};
    return result;
}

/* Returns wide · 2^shift, 0 < shift < 64; the caller knows that it fits. */
BP_INLINE struct bp_wide bp_wide_left(struct bp_wide wide, u32 shift)
{
    struct bp_wide result = {.high = wide.high << shift | wide.low >> (64 - shift), .low = wide.low << shift};
    return result;
}

/* Returns the number, or the greatest of 64 bits. */
BP_INLINE u64 bp_narrow(struct bp_wide wide) { return wide.high ? BP_MAX : wide.low; }

/* Returns a · b, or the greatest of 64 bits. */
BP_INLINE u64 bp_mul_sat(u64 a, u64 b) { return bp_narrow(bp_wide_mul(a, b)); }

/* Returns a · b / 2^shift, rounded down, saturating; 0 < shift < 64. */
BP_INLINE u64 bp_mul_shift(u64 a, u64 b, u32 shift) { return bp_narrow(bp_wide_right(bp_wide_mul(a, b), shift)); }

/* Returns the index of the highest bit that is set; 0 for 0. */
BP_INLINE u32 bp_log2_floor(u64 value)
{
    u32 bits = 0;

    if (value >> 32) {
        bits += 32;
        value >>= 32;
    }
    if (value >> 16) {
        bits += 16;
        value >>= 16;
    }
    if (value >> 8) {
        bits += 8;
        value >>= 8;
    }
    if (value >> 4) {
        bits += 4;
        value >>= 4;
    }
    if (value >> 2) {
        bits += 2;
        value >>= 2;
    }
    return bits + (u32)(value >> 1);
}

/* One digit of base 2^32 of (rest · 2^32 + next) / divisor; rest < divisor, whose highest bit is set. Leaves the new rest. */
BP_INLINE u64 bp_digit(u64 *rest, u64 next, u64 divisor)
{
    u64 high = divisor >> 32, low = (u32)divisor;
    u64 digit = *rest / high, left = *rest % high;
    int k;

    /* The estimate is too large by two at most (Knuth, The Art of Computer Programming 2, §4.3.1, theorem B). */
    for (k = 0; k < 2; k++)
        if (digit >> 32 || digit * low > (left << 32 | next)) {
            digit--;
            left += high;
            if (left >> 32)
                break;
        }
    *rest = (*rest << 32 | next) - digit * divisor;
    return digit;
}

/* Returns wide / divisor, rounded down, saturating, also for a divisor of 0. */
BP_FUNC u64 bp_div_words(u64 high, u64 low, u64 divisor)
{
    u64 rest, quotient;
    u32 shift;

    if (high >= divisor)
        return BP_MAX;
    if (!high)
        return low / divisor;
    shift = 63 - bp_log2_floor(divisor);
    rest = high;
    if (shift) {
        divisor <<= shift;
        rest = high << shift | low >> (64 - shift);
        low <<= shift;
    }
    quotient = bp_digit(&rest, low >> 32, divisor) << 32;
    return quotient | bp_digit(&rest, (u32)low, divisor);
}

BP_INLINE u64 bp_wide_div(struct bp_wide wide, u64 divisor) { return bp_div_words(wide.high, wide.low, divisor); }

/* Returns a · b / divisor, rounded down, saturating. */
BP_INLINE u64 bp_mul_div(u64 a, u64 b, u64 divisor) { return bp_wide_div(bp_wide_mul(a, b), divisor); }

/* Ratios and gains are in 1/256, as in the kernel's BBR: an option (2^-32) rounded down, and rounded up; a difference below 2^-24 is none. */
#define BP_UNIT_SHIFT 8
#define BP_UNIT (1ULL << BP_UNIT_SHIFT)
#define BP_ROUNDING 256ULL

BP_INLINE u64 bp_ratio(u64 option) { return ((option << BP_UNIT_SHIFT) + BP_ROUNDING) >> 32; }
BP_INLINE u64 bp_gain(u64 option) { return ((option << BP_UNIT_SHIFT) + 0xffffffffULL - BP_ROUNDING) >> 32; }

#endif
