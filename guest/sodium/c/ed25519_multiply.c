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

/* bits of a scalar, which is below 2^253 */
#define SCALAR_BITS 256
/* bits of a digit's window: of a point that is multiplied once, of one in parts, and of the base point */
#define ONCE_WINDOW 5
#define PART_WINDOW 4
#define BASE_WINDOW 7
/* odd multiples that a digit of such a window stands for */
#define MULTIPLES(window) (1 << ((window) - 2))

typedef uint64_t point_limbs[LIMBS][4];

typedef char parts_have_their_multiples[PART_MULTIPLES == MULTIPLES(PART_WINDOW) ? 1 : -1];

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

/* of the base point, as many odd multiples as its digits stand for */
static point_limbs base_parts[PARTS][MULTIPLES(BASE_WINDOW)];

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

/* from the products (X, Y, Z, T) to the elements (Y - X, Y + X, Z, T) */
IN_LANES four
to_add(const four *point)
{
    __m256i y, x;
    four    sum;
    int     i;

    for (i = 0; i < LIMBS; i++) {
        y = _mm256_permutex_epi64(point->limbs[i], ORDER(1, 1, 2, 3));
        x = _mm256_maskz_permutex_epi64(X_LANE | Y_LANE, point->limbs[i], ORDER(0, 0, 0, 0));
        y = _mm256_mask_add_epi64(y, X_LANE, y, everywhere(MANY[i]));
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

/* the cached point, or its opposite: two coordinates change places, and one its sign */
IN_LANES four
with_sign(const four *cached, int is_negative)
{
    const __mmask8 xy = is_negative ? X_LANE | Y_LANE : 0;
    const __mmask8 t = is_negative ? T_LANE : 0;
    __m256i        limb;
    four           given;
    int            i;

    for (i = 0; i < LIMBS; i++) {
        limb = cached->limbs[i];
        limb = _mm256_mask_permutex_epi64(limb, xy, limb, ORDER(1, 0, 2, 3));
        given.limbs[i] = _mm256_mask_sub_epi64(limb, t, everywhere(TWICE[i]), limb);
    }
    return given;
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
    return f;
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

IN_LANES four
twice_times(four sum, int times)
{
    four doubling;

    while (times-- > 0) {
        doubling = to_double(&sum);
        sum = twice(&doubling);
    }
    return sum;
}

/* so many odd multiples of the point of these elements, from 1 on */
IN_LANES void
fill(point_limbs *multiples, int count, four sum)
{
    four cached = to_cached(&sum);
    four doubled;
    int  i;

    store(multiples[0], &cached);
    doubled = sum_of(&sum, &cached);
    doubled = to_cached(&doubled);
    for (i = 1; i < count; i++) {
        sum = sum_of(&sum, &doubled);
        cached = to_cached(&sum);
        store(multiples[i], &cached);
    }
}

/* as many multiples of the point, of 2^32 times it, and so on */
IN_LANES void
split(point_limbs *multiples, int count, const ge25519_p3 *point)
{
    four first = from_point(point);
    int  part;

    fill(multiples, count, first);
    for (part = 1; part < PARTS; part++) {
        first = twice_times(first, SCALAR_BITS / PARTS);
        fill(multiples + part * count, count, first);
    }
}

/* A scalar's digits that are not 0, and nothing at other places. Each is odd and between -2^(window - 1) and 2^(window - 1). */
typedef struct {
    signed char digits[SCALAR_BITS];
    /* of each part, at places of the same number in the parts: a bit for each part whose digit is not 0 */
    uint32_t    parts[SCALAR_BITS];
} scalar_digits;

/* 64 bits from a place on */
static inline uint64_t
bits_at(const uint64_t words[SCALAR_BITS / 64 + 1], int at)
{
    const int shift = at % 64;

    return (words[at / 64] >> shift) | ((words[at / 64 + 1] << 1) << (63 - shift));
}

/* digits[i] * 2^i summed up is the scalar; a part has so many of them */
static void
recode(scalar_digits *of, const unsigned char scalar[32], int window, int each)
{
    uint64_t words[SCALAR_BITS / 64 + 1] = { 0 };
    uint64_t bits;
    int      carried = 0, at = 0, digit;

    memcpy(words, scalar, 32);
    memset(of->parts, 0, (size_t) each * sizeof of->parts[0]);
    while (at < SCALAR_BITS) {
        /* what was carried makes zeros of ones */
        bits = bits_at(words, at) ^ -(uint64_t) carried;
        if (bits == 0) {
            at += 64;
            continue;
        }
        at += __builtin_ctzll(bits);
        if (at >= SCALAR_BITS) {
            break;
        }
        digit = (int) (bits_at(words, at) & (((uint64_t) 1 << window) - 1)) + carried;
        carried = digit >> (window - 1);
        of->digits[at] = (signed char) (digit - (carried << window));
        of->parts[at % each] |= (uint32_t) 1 << (at / each);
        at += window;
    }
}

/* adds what the digits say that are so far up in each of the parts */
IN_LANES four
add_digits(four sum, const scalar_digits *of, int at, int each, const point_limbs *multiples, int window)
{
    four     addend;
    uint32_t left;
    int      part, digit;

    for (left = of->parts[at]; left != 0; left &= left - 1) {
        part = __builtin_ctz(left);
        digit = of->digits[part * each + at];
        addend = load(multiples[part * MULTIPLES(window) + (digit < 0 ? -digit : digit) / 2]);
        addend = with_sign(&addend, digit < 0);
        sum = sum_of(&sum, &addend);
    }
    return sum;
}

/* the sum of a point in parts and of the base point, each times its scalar; the digits of all parts are doubled together */
IN_LANES void
sum_up(ge25519_p3 *total, const point_limbs *multiples, int parts, int window, const unsigned char scalar[32],
       const unsigned char of_base[32])
{
    const int     each = SCALAR_BITS / parts;
    scalar_digits of_point, of_b;
    four          sum, doubling;
    int           at, limb;

    recode(&of_point, scalar, window, each);
    recode(&of_b, of_base, BASE_WINDOW, each);
    for (limb = 0; limb < LIMBS; limb++) {
        /* the neutral element is (0, 1, 1, 0) */
        sum.limbs[limb] = limb == 0 ? _mm256_set_epi64x(0, 1, 1, 0) : _mm256_setzero_si256();
    }
    at = each;
    while (at > 0 && (of_point.parts[at - 1] | of_b.parts[at - 1]) == 0) {
        at--;
    }
    while (at-- > 0) {
        doubling = to_double(&sum);
        sum = twice(&doubling);
        sum = add_digits(sum, &of_point, at, each, multiples, window);
        sum = add_digits(sum, &of_b, at, each, base_parts[0], BASE_WINDOW);
    }
    sum = carry(sum);
    to_point(total, &sum);
}

__attribute__((target("avx512f,avx512vl,avx512ifma"))) void
selfsame_ed25519_split_base(void)
{
    const unsigned char one[32] = { 1 };
    ge25519_p3          base;

    ge25519_scalarmult_base(&base, one);
    split(base_parts[0], MULTIPLES(BASE_WINDOW), &base);
}

__attribute__((target("avx512f,avx512vl,avx512ifma"))) void
selfsame_ed25519_sum(ge25519_p3 *sum, const ge25519_p3 *point, const unsigned char scalar[32],
                     const unsigned char of_base[32])
{
    point_limbs multiples[MULTIPLES(ONCE_WINDOW)];

    fill(multiples, MULTIPLES(ONCE_WINDOW), from_point(point));
    sum_up(sum, multiples, 1, ONCE_WINDOW, scalar, of_base);
}

__attribute__((target("avx512f,avx512vl,avx512ifma"))) void
selfsame_ed25519_split(ge25519_parts parts, const ge25519_p3 *point)
{
    split(parts[0], PART_MULTIPLES, point);
}

__attribute__((target("avx512f,avx512vl,avx512ifma"))) void
selfsame_ed25519_sum_split(ge25519_p3 *sum, const ge25519_parts parts, const unsigned char scalar[32],
                           const unsigned char of_base[32])
{
    sum_up(sum, parts[0], PARTS, PART_WINDOW, scalar, of_base);
}

#endif
