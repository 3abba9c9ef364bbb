/*
 See ed25519_multiply.h. A vector holds one limb of X, Y, Z and T each, and a field element is five limbs of 51 bits, as in
 upstream's code for one. Doublings and additions are those of Hisil, Wong, Carter, Dawson: Twisted Edwards curves revisited,
 sections 3.1 and 3.3 for a = -1, each of which multiplies four pairs at a time, twice.

 A limb that is multiplied has at most 52 bits. What a product leaves has up to 60, so sums and differences of products are
 formed before anything is carried.
*/

#include "ed25519_multiply.h"

#ifdef HAVE_LANES

#include <immintrin.h>
#include <string.h>

#define LIMBS 5
#define IN_LANES static inline __attribute__((target("avx512f,avx512vl,avx512ifma"), always_inline))

/* the products of two elements, with the bits above the 52nd of each one limb on, where they count twice: a limb has 51 */
#define PRODUCT_LIMBS (2 * LIMBS)

/* which lane is which coordinate, as masks */
#define X_LANE 1
#define Y_LANE 2
#define Z_LANE 4
#define T_LANE 8

/* from which lanes those of a permuted vector come, the first one's first */
#define ORDER(a, b, c, d) ((a) | (b) << 2 | (c) << 4 | (d) << 6)

/* the coordinates X, Y, Z, T of a point, or as many other elements */
typedef struct {
    __m256i limbs[LIMBS];
} four;

/* digits of an odd scalar's window, which stand for one of the multiples */
#define BITS 5
#define DIGITS 256

static const uint64_t MASK = ((uint64_t) 1 << 51) - 1;

/* twice the prime, and 1024 times: what is added so that nothing goes below zero, with elements and with products */
static const uint64_t TWICE[LIMBS] = { 0xfffffffffffdaULL, 0xffffffffffffeULL, 0xffffffffffffeULL, 0xffffffffffffeULL,
                                       0xffffffffffffeULL };
static const uint64_t MANY[LIMBS] = { 0x1fffffffffffb400ULL, 0x1ffffffffffffc00ULL, 0x1ffffffffffffc00ULL,
                                      0x1ffffffffffffc00ULL, 0x1ffffffffffffc00ULL };

/* 1, 1, 2 and twice the curve's d, limb by limb */
static const uint64_t TO_CACHED[LIMBS][4] = { { 1, 1, 2, 1859910466990425ULL },
                                              { 0, 0, 0, 932731440258426ULL },
                                              { 0, 0, 0, 1072319116312658ULL },
                                              { 0, 0, 0, 1815898335770999ULL },
                                              { 0, 0, 0, 633789495995903ULL } };

IN_LANES __m256i
everywhere(uint64_t value)
{
    return _mm256_set1_epi64x((long long) value);
}

/* limbs below 2^62 become ones below 2^51 + 2^16 */
IN_LANES four
carry(four f)
{
    __m256i carries[LIMBS];
    int     i;

    for (i = 0; i < LIMBS; i++) {
        carries[i] = _mm256_srli_epi64(f.limbs[i], 51);
        f.limbs[i] = _mm256_and_si256(f.limbs[i], everywhere(MASK));
    }
    f.limbs[0] = _mm256_madd52lo_epu64(f.limbs[0], carries[LIMBS - 1], everywhere(19));
    for (i = 1; i < LIMBS; i++) {
        f.limbs[i] = _mm256_add_epi64(f.limbs[i], carries[i - 1]);
    }
    return f;
}

/* of a product with low and high halves of its terms: what lies above the fifth limb counts 19 times; limbs below 2^60 */
IN_LANES four
reduce(const __m256i low[PRODUCT_LIMBS], const __m256i high[PRODUCT_LIMBS])
{
    __m256i both[PRODUCT_LIMBS], above;
    four    product;
    int     i;

    for (i = 0; i < PRODUCT_LIMBS; i++) {
        both[i] = _mm256_add_epi64(low[i], _mm256_add_epi64(high[i], high[i]));
    }
    for (i = 0; i < LIMBS; i++) {
        above = both[i + LIMBS];
        above = _mm256_add_epi64(_mm256_add_epi64(above, _mm256_slli_epi64(above, 1)), _mm256_slli_epi64(above, 4));
        product.limbs[i] = _mm256_add_epi64(both[i], above);
    }
    return product;
}

IN_LANES four
multiply(const four *f, const four *g)
{
    __m256i low[PRODUCT_LIMBS], high[PRODUCT_LIMBS];
    int     i, j;

    for (i = 0; i < PRODUCT_LIMBS; i++) {
        low[i] = high[i] = _mm256_setzero_si256();
    }
    for (i = 0; i < LIMBS; i++) {
        for (j = 0; j < LIMBS; j++) {
            low[i + j] = _mm256_madd52lo_epu64(low[i + j], f->limbs[i], g->limbs[j]);
            high[i + j + 1] = _mm256_madd52hi_epu64(high[i + j + 1], f->limbs[i], g->limbs[j]);
        }
    }
    return reduce(low, high);
}

IN_LANES four
square(const four *f)
{
    __m256i low[PRODUCT_LIMBS], high[PRODUCT_LIMBS];
    int     i, j;

    for (i = 0; i < PRODUCT_LIMBS; i++) {
        low[i] = high[i] = _mm256_setzero_si256();
    }
    for (i = 0; i < LIMBS; i++) {
        for (j = i + 1; j < LIMBS; j++) {
            low[i + j] = _mm256_madd52lo_epu64(low[i + j], f->limbs[i], f->limbs[j]);
            high[i + j + 1] = _mm256_madd52hi_epu64(high[i + j + 1], f->limbs[i], f->limbs[j]);
        }
    }
    for (i = 0; i < PRODUCT_LIMBS; i++) {
        low[i] = _mm256_add_epi64(low[i], low[i]);
        high[i] = _mm256_add_epi64(high[i], high[i]);
    }
    for (i = 0; i < LIMBS; i++) {
        low[2 * i] = _mm256_madd52lo_epu64(low[2 * i], f->limbs[i], f->limbs[i]);
        high[2 * i + 1] = _mm256_madd52hi_epu64(high[2 * i + 1], f->limbs[i], f->limbs[i]);
    }
    return reduce(low, high);
}

/* from (E, F, G, H) to (E F, G H, F G, E H) as products */
IN_LANES four
complete(const four *efgh)
{
    four left, right;
    int  i;

    for (i = 0; i < LIMBS; i++) {
        left.limbs[i] = _mm256_permutex_epi64(efgh->limbs[i], ORDER(0, 2, 1, 0));
        right.limbs[i] = _mm256_permutex_epi64(efgh->limbs[i], ORDER(1, 3, 2, 3));
    }
    return multiply(&left, &right);
}

/* from the products (X, Y, Z, T) to the elements (X, Y, Z, X + Y), which are what a doubling needs */
IN_LANES four
to_double(const four *xyzt)
{
    __m256i x, y;
    four    sum;
    int     i;

    for (i = 0; i < LIMBS; i++) {
        x = _mm256_permutex_epi64(xyzt->limbs[i], ORDER(0, 1, 2, 0));
        y = _mm256_maskz_permutex_epi64(T_LANE, xyzt->limbs[i], ORDER(0, 0, 0, 1));
        sum.limbs[i] = _mm256_add_epi64(x, y);
    }
    return carry(sum);
}

/* the products (X, Y, Z, T) of twice the point whose (X, Y, Z, X + Y) these are */
IN_LANES four
twice(const four *point)
{
    const four squares = square(point);
    __m256i    first, xx, other;
    four       efgh;
    int        i;

    for (i = 0; i < LIMBS; i++) {
        /* E = (X + Y)^2 - XX - YY, F = YY - XX - 2 ZZ, G = YY - XX, H = -XX - YY */
        first = _mm256_maskz_permutex_epi64(X_LANE | Y_LANE | Z_LANE, squares.limbs[i], ORDER(3, 1, 1, 0));
        xx = _mm256_permutex_epi64(squares.limbs[i], ORDER(0, 0, 0, 0));
        other = _mm256_maskz_permutex_epi64(X_LANE | Y_LANE | T_LANE, squares.limbs[i], ORDER(1, 2, 0, 1));
        first = _mm256_sub_epi64(_mm256_add_epi64(first, everywhere(MANY[i])), _mm256_add_epi64(xx, other));
        efgh.limbs[i] = _mm256_mask_sub_epi64(first, Y_LANE, first, other);
    }
    efgh = carry(efgh);
    return complete(&efgh);
}

/* from the elements (X, Y, Z, T) to (Y - X, Y + X, Z, T) */
IN_LANES four
to_add(const four *point)
{
    __m256i y, x;
    four    sum;
    int     i;

    for (i = 0; i < LIMBS; i++) {
        y = _mm256_permutex_epi64(point->limbs[i], ORDER(1, 1, 2, 3));
        x = _mm256_maskz_permutex_epi64(X_LANE | Y_LANE, point->limbs[i], ORDER(0, 0, 0, 0));
        y = _mm256_mask_add_epi64(y, X_LANE, y, everywhere(TWICE[i]));
        y = _mm256_mask_sub_epi64(y, X_LANE, y, x);
        sum.limbs[i] = _mm256_mask_add_epi64(y, Y_LANE, y, x);
    }
    return carry(sum);
}

/* the products (X, Y, Z, T) of the sum of a point and of one that is (Y - X, Y + X, 2 Z, 2 d T) */
IN_LANES four
sum_of(const four *point, const four *cached)
{
    four    prepared = to_add(point);
    four    products = multiply(&prepared, cached);
    __m256i first, second;
    four    efgh;
    int     i;

    for (i = 0; i < LIMBS; i++) {
        /* of A, B, D, C: E = B - A, F = D - C, G = D + C, H = B + A */
        first = _mm256_permutex_epi64(products.limbs[i], ORDER(1, 2, 2, 1));
        second = _mm256_permutex_epi64(products.limbs[i], ORDER(0, 3, 3, 0));
        first = _mm256_mask_add_epi64(first, X_LANE | Y_LANE, first, everywhere(MANY[i]));
        first = _mm256_mask_sub_epi64(first, X_LANE | Y_LANE, first, second);
        efgh.limbs[i] = _mm256_mask_add_epi64(first, Z_LANE | T_LANE, first, second);
    }
    efgh = carry(efgh);
    return complete(&efgh);
}

IN_LANES four
to_cached(const four *point)
{
    const four prepared = to_add(point);
    four       factors;
    int        i;

    for (i = 0; i < LIMBS; i++) {
        factors.limbs[i] = _mm256_loadu_si256((const __m256i *) (const void *) TO_CACHED[i]);
    }
    return carry(multiply(&prepared, &factors));
}

/* the opposite of a cached point: two coordinates change places, and one its sign */
IN_LANES four
negate(const four *cached)
{
    __m256i changed;
    four    opposite;
    int     i;

    for (i = 0; i < LIMBS; i++) {
        changed = _mm256_permutex_epi64(cached->limbs[i], ORDER(1, 0, 2, 3));
        opposite.limbs[i] = _mm256_mask_sub_epi64(changed, T_LANE, everywhere(TWICE[i]), changed);
    }
    return opposite;
}

IN_LANES four
from_point(const ge25519_p3 *point)
{
    four f;
    int  i;

    for (i = 0; i < LIMBS; i++) {
        f.limbs[i] = _mm256_set_epi64x((long long) point->T[i], (long long) point->Z[i], (long long) point->Y[i],
                                       (long long) point->X[i]);
    }
    return carry(f);
}

IN_LANES void
to_point(ge25519_p3 *point, const four *f)
{
    uint64_t limbs[4];
    int      i;

    for (i = 0; i < LIMBS; i++) {
        _mm256_storeu_si256((__m256i *) (void *) limbs, f->limbs[i]);
        point->X[i] = limbs[0];
        point->Y[i] = limbs[1];
        point->Z[i] = limbs[2];
        point->T[i] = limbs[3];
    }
}

IN_LANES void
store(uint64_t limbs[LIMBS][4], const four *f)
{
    int i;

    for (i = 0; i < LIMBS; i++) {
        _mm256_storeu_si256((__m256i *) (void *) limbs[i], f->limbs[i]);
    }
}

IN_LANES four
load(const uint64_t limbs[LIMBS][4])
{
    four f;
    int  i;

    for (i = 0; i < LIMBS; i++) {
        f.limbs[i] = _mm256_loadu_si256((const __m256i *) (const void *) limbs[i]);
    }
    return f;
}

/* 1, 3, 5 to 15 times the point of these elements */
IN_LANES void
fill(uint64_t multiples[PART_MULTIPLES][LIMBS][4], four sum)
{
    four cached = to_cached(&sum);
    four doubled;
    int  i;

    store(multiples[0], &cached);
    doubled = carry(sum_of(&sum, &cached));
    doubled = to_cached(&doubled);
    for (i = 1; i < PART_MULTIPLES; i++) {
        sum = carry(sum_of(&sum, &doubled));
        cached = to_cached(&sum);
        store(multiples[i], &cached);
    }
}

/* digits[i] * 2^i summed up is the scalar; a digit is 0 or odd, from -15 to 15. Returns after how many only 0 comes. */
static int
recode(signed char digits[DIGITS], const unsigned char scalar[32])
{
    unsigned int window;
    int          carried = 0, count = 0;
    int          i = 0, digit;

    memset(digits, 0, DIGITS);
    while (i < DIGITS) {
        window = scalar[i / 8];
        if (i / 8 + 1 < 32) {
            window |= (unsigned int) scalar[i / 8 + 1] << 8;
        }
        digit = (int) ((window >> (i % 8)) & 31) + carried;
        if (digit % 2 == 0) {
            i++;
            continue;
        }
        carried = digit >= 1 << (BITS - 1);
        digits[i] = (signed char) (digit - (carried << BITS));
        count = i + 1;
        i += BITS;
    }
    return count;
}

IN_LANES four
twice_times(four sum, int times)
{
    four doubling;

    while (times-- > 0) {
        doubling = to_double(&sum);
        sum = twice(&doubling);
    }
    return carry(sum);
}

/* the sum of what the scalar's digits say of each part, of which each has as many; the digits of all parts are doubled together */
IN_LANES void
sum_up(ge25519_p3 *product, const uint64_t (*parts)[PART_MULTIPLES][LIMBS][4], int count, const unsigned char scalar[32])
{
    const int   each = DIGITS / count;
    signed char digits[DIGITS];
    four        addend, sum, doubling;
    int         i, limb, part, digit, at;

    for (limb = 0; limb < LIMBS; limb++) {
        /* the neutral element is (0, 1, 1, 0) */
        sum.limbs[limb] = limb == 0 ? _mm256_set_epi64x(0, 1, 1, 0) : _mm256_setzero_si256();
    }
    at = recode(digits, scalar);
    for (i = (at < each ? at : each) - 1; i >= 0; i--) {
        doubling = to_double(&sum);
        sum = twice(&doubling);
        for (part = 0; part < count; part++) {
            digit = digits[part * each + i];
            if (digit != 0) {
                addend = load(parts[part][(digit < 0 ? -digit : digit) / 2]);
                if (digit < 0) {
                    addend = negate(&addend);
                }
                sum = carry(sum);
                sum = sum_of(&sum, &addend);
            }
        }
    }
    sum = carry(sum);
    to_point(product, &sum);
}

__attribute__((target("avx512f,avx512vl,avx512ifma"))) void
selfsame_ed25519_multiply(ge25519_p3 *product, const ge25519_p3 *point, const unsigned char scalar[32])
{
    uint64_t only[1][PART_MULTIPLES][LIMBS][4];

    fill(only[0], from_point(point));
    sum_up(product, only, 1, scalar);
}

__attribute__((target("avx512f,avx512vl,avx512ifma"))) void
selfsame_ed25519_split(ge25519_parts parts, const ge25519_p3 *point)
{
    four first = from_point(point);
    int  part;

    fill(parts[0], first);
    for (part = 1; part < PARTS; part++) {
        first = twice_times(first, DIGITS / PARTS);
        fill(parts[part], first);
    }
}

__attribute__((target("avx512f,avx512vl,avx512ifma"))) void
selfsame_ed25519_multiply_split(ge25519_p3 *product, const ge25519_parts parts, const unsigned char scalar[32])
{
    sum_up(product, parts, PARTS, scalar);
}

#endif
