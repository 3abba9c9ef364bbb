/*
 See ed25519_lanes.h. A field element is five limbs of 51 bits in vectors of 64 bits a lane, as in upstream's code for one.
 A limb that is multiplied has at most 52 bits: every sum and difference carries before it goes into a product.
*/

#include "ed25519_lanes.h"

#ifdef HAVE_LANES

#include <cpuid.h>
#include <immintrin.h>

#include "runtime.h"
#include "utils.h"

#define LIMBS 5
#define IN_LANES static inline __attribute__((target("avx512f,avx512ifma"), always_inline))

/* the products of two elements, with the bits above the 52nd of each one limb on, where they count twice: a limb has 51 */
#define PRODUCT_LIMBS (2 * LIMBS)

typedef struct {
    __m512i limbs[LIMBS];
} fe_lanes;

typedef struct {
    fe_lanes X, Y, Z, T;
} p3_lanes;

typedef struct {
    fe_lanes YplusX, YminusX, Z, T2d;
} cached_lanes;

/* a point whose Z is 1 */
typedef struct {
    fe_lanes yplusx, yminusx, xy2d;
} affine_lanes;

/* digits of 4 bits of a scalar, from -8 to 8 */
#define NIBBLES 64

#define ROWS 32
#define COLUMNS 8

/* upstream's: column j of row i is (j + 1) * 256^i times the base point */
static const ge25519_precomp base[ROWS][COLUMNS] = {
# include "fe_51/base.h"
};

/* so many rows' points lie limb by limb beside one another, so that a vector takes them at once */
#define TURNED (LANES / 2)

/* the limbs of a column's points: of y + x, of y - x, of 2 d x y */
typedef uint64_t turned_limbs[3 * LIMBS][TURNED];

static turned_limbs turned_base[ROWS / TURNED][COLUMNS] __attribute__((aligned(32)));

static const uint64_t MASK = ((uint64_t) 1 << 51) - 1;

/* twice the prime: what is added so that nothing goes below zero */
static const uint64_t TWICE[LIMBS] = { 0xfffffffffffdaULL, 0xffffffffffffeULL, 0xffffffffffffeULL, 0xffffffffffffeULL,
                                       0xffffffffffffeULL };

/* twice the curve's d */
static const uint64_t D2[LIMBS] = { 1859910466990425ULL, 932731440258426ULL, 1072319116312658ULL, 1815898335770999ULL,
                                    633789495995903ULL };

/* of two vectors, each of four pairs of words, those pairs one after the other */
#define EVEN 0x88
#define ODD 0xdd

IN_LANES __m512i
everywhere(uint64_t value)
{
    return _mm512_set1_epi64((long long) value);
}

/* limbs below 2^62 become ones below 2^51 + 2^16 */
IN_LANES void
carry(fe_lanes *f)
{
    __m512i carries[LIMBS];
    int     i;

    for (i = 0; i < LIMBS; i++) {
        carries[i] = _mm512_srli_epi64(f->limbs[i], 51);
        f->limbs[i] = _mm512_and_si512(f->limbs[i], everywhere(MASK));
    }
    f->limbs[0] = _mm512_madd52lo_epu64(f->limbs[0], carries[LIMBS - 1], everywhere(19));
    for (i = 1; i < LIMBS; i++) {
        f->limbs[i] = _mm512_add_epi64(f->limbs[i], carries[i - 1]);
    }
}

IN_LANES fe_lanes
multiply(const fe_lanes *f, const fe_lanes *g)
{
    __m512i  low[PRODUCT_LIMBS], high[PRODUCT_LIMBS], above;
    fe_lanes product;
    int      i, j;

    for (i = 0; i < PRODUCT_LIMBS; i++) {
        low[i] = high[i] = _mm512_setzero_si512();
    }
    for (i = 0; i < LIMBS; i++) {
        for (j = 0; j < LIMBS; j++) {
            low[i + j] = _mm512_madd52lo_epu64(low[i + j], f->limbs[i], g->limbs[j]);
            high[i + j + 1] = _mm512_madd52hi_epu64(high[i + j + 1], f->limbs[i], g->limbs[j]);
        }
    }
    for (i = 0; i < PRODUCT_LIMBS; i++) {
        low[i] = _mm512_add_epi64(low[i], _mm512_add_epi64(high[i], high[i]));
    }
    /* 2^255 is 19 */
    for (i = 0; i < LIMBS; i++) {
        above = low[i + LIMBS];
        above = _mm512_add_epi64(_mm512_add_epi64(above, _mm512_slli_epi64(above, 1)), _mm512_slli_epi64(above, 4));
        product.limbs[i] = _mm512_add_epi64(low[i], above);
    }
    carry(&product);
    return product;
}

IN_LANES fe_lanes
add(const fe_lanes *f, const fe_lanes *g)
{
    fe_lanes sum;
    int      i;

    for (i = 0; i < LIMBS; i++) {
        sum.limbs[i] = _mm512_add_epi64(f->limbs[i], g->limbs[i]);
    }
    carry(&sum);
    return sum;
}

IN_LANES fe_lanes
subtract(const fe_lanes *f, const fe_lanes *g)
{
    fe_lanes difference;
    int      i;

    for (i = 0; i < LIMBS; i++) {
        difference.limbs[i] =
            _mm512_sub_epi64(_mm512_add_epi64(f->limbs[i], everywhere(TWICE[i])), g->limbs[i]);
    }
    carry(&difference);
    return difference;
}

/* Hisil, Wong, Carter, Dawson: Twisted Edwards curves revisited, section 3.1, for a = -1; z_twice is twice both Z */
IN_LANES void
add_all(p3_lanes *sum, const fe_lanes *yplusx, const fe_lanes *yminusx, const fe_lanes *t2d, const fe_lanes *z_twice)
{
    fe_lanes a, b, c, e, f, g, h;

    a = subtract(&sum->Y, &sum->X);
    a = multiply(&a, yminusx);
    b = add(&sum->Y, &sum->X);
    b = multiply(&b, yplusx);
    c = multiply(&sum->T, t2d);
    e = subtract(&b, &a);
    f = subtract(z_twice, &c);
    g = add(z_twice, &c);
    h = add(&b, &a);
    sum->X = multiply(&e, &f);
    sum->Y = multiply(&g, &h);
    sum->Z = multiply(&f, &g);
    sum->T = multiply(&e, &h);
}

IN_LANES void
add_to(p3_lanes *sum, const cached_lanes *point)
{
    fe_lanes z = multiply(&sum->Z, &point->Z);

    z = add(&z, &z);
    add_all(sum, &point->YplusX, &point->YminusX, &point->T2d, &z);
}

IN_LANES void
add_affine_to(p3_lanes *sum, const affine_lanes *point)
{
    fe_lanes z = add(&sum->Z, &sum->Z);

    add_all(sum, &point->yplusx, &point->yminusx, &point->xy2d, &z);
}

IN_LANES void
neutral(p3_lanes *sum)
{
    int i;

    for (i = 0; i < LIMBS; i++) {
        sum->X.limbs[i] = sum->T.limbs[i] = _mm512_setzero_si512();
        sum->Y.limbs[i] = sum->Z.limbs[i] = everywhere(i == 0);
    }
}

/* the opposite of some lanes' points: coordinates change places, and one its sign */
IN_LANES void
negate(fe_lanes *yplusx, fe_lanes *yminusx, fe_lanes *t2d, __mmask8 negated)
{
    __m512i plus;
    int     i;

    for (i = 0; i < LIMBS; i++) {
        plus = yplusx->limbs[i];
        yplusx->limbs[i] = _mm512_mask_blend_epi64(negated, plus, yminusx->limbs[i]);
        yminusx->limbs[i] = _mm512_mask_blend_epi64(negated, yminusx->limbs[i], plus);
        t2d->limbs[i] = _mm512_mask_sub_epi64(t2d->limbs[i], negated, everywhere(TWICE[i]), t2d->limbs[i]);
    }
}

/* the columns of eight rows of eight words */
IN_LANES void
turn(__m512i words[LANES])
{
    __m512i pairs[LANES], low[2], high[2];
    int     i;

    for (i = 0; i < LANES; i += 2) {
        pairs[i] = _mm512_unpacklo_epi64(words[i], words[i + 1]);
        pairs[i + 1] = _mm512_unpackhi_epi64(words[i], words[i + 1]);
    }
    for (i = 0; i < 2; i++) {
        low[0] = _mm512_shuffle_i64x2(pairs[i], pairs[i + 2], EVEN);
        low[1] = _mm512_shuffle_i64x2(pairs[i + 4], pairs[i + 6], EVEN);
        high[0] = _mm512_shuffle_i64x2(pairs[i], pairs[i + 2], ODD);
        high[1] = _mm512_shuffle_i64x2(pairs[i + 4], pairs[i + 6], ODD);
        words[i] = _mm512_shuffle_i64x2(low[0], low[1], EVEN);
        words[i + 2] = _mm512_shuffle_i64x2(high[0], high[1], EVEN);
        words[i + 4] = _mm512_shuffle_i64x2(low[0], low[1], ODD);
        words[i + 6] = _mm512_shuffle_i64x2(high[0], high[1], ODD);
    }
}

/* what is read of a point is its limbs one after the other, in this order */
typedef char cached_is_in_order[offsetof(ge25519_cached, YminusX) == LIMBS * sizeof(uint64_t) &&
                                        offsetof(ge25519_cached, Z) == 2 * LIMBS * sizeof(uint64_t) &&
                                        offsetof(ge25519_cached, T2d) == 3 * LIMBS * sizeof(uint64_t)
                                    ? 1
                                    : -1];

/* the points of one step, with the opposite of those that are to be subtracted */
IN_LANES cached_lanes
fetch_points(const ge25519_cached *const points[LANES], __mmask8 negated)
{
    __m512i      words[3 * LANES];
    cached_lanes point;
    int          i;

    for (i = 0; i < LANES; i++) {
        const char *const from = (const char *) points[i];

        words[i] = _mm512_loadu_si512(from);
        words[LANES + i] = _mm512_loadu_si512(from + sizeof(__m512i));
        words[2 * LANES + i] =
            _mm512_castsi256_si512(_mm256_loadu_si256((const __m256i *) (const void *) (from + 2 * sizeof(__m512i))));
    }
    turn(words);
    turn(words + LANES);
    turn(words + 2 * LANES);
    for (i = 0; i < LIMBS; i++) {
        point.YplusX.limbs[i] = words[i];
        point.YminusX.limbs[i] = words[LIMBS + i];
        point.Z.limbs[i] = words[2 * LIMBS + i];
        point.T2d.limbs[i] = words[3 * LIMBS + i];
    }
    negate(&point.YplusX, &point.YminusX, &point.T2d, negated);
    return point;
}

IN_LANES cached_lanes
to_cached(const p3_lanes *p)
{
    cached_lanes cached;
    fe_lanes     d2;
    int          i;

    for (i = 0; i < LIMBS; i++) {
        d2.limbs[i] = everywhere(D2[i]);
    }
    cached.YplusX = add(&p->Y, &p->X);
    cached.YminusX = subtract(&p->Y, &p->X);
    cached.Z = p->Z;
    cached.T2d = multiply(&p->T, &d2);
    return cached;
}

/* adds to the point of each lane that of another one, of the same four */
#define ADD_OTHERS(sum, order)                                                               \
    do {                                                                                     \
        cached_lanes others = to_cached(sum);                                                \
        int          limb;                                                                   \
                                                                                             \
        for (limb = 0; limb < LIMBS; limb++) {                                               \
            others.YplusX.limbs[limb] = _mm512_permutex_epi64(others.YplusX.limbs[limb], order);   \
            others.YminusX.limbs[limb] = _mm512_permutex_epi64(others.YminusX.limbs[limb], order); \
            others.Z.limbs[limb] = _mm512_permutex_epi64(others.Z.limbs[limb], order);       \
            others.T2d.limbs[limb] = _mm512_permutex_epi64(others.T2d.limbs[limb], order);   \
        }                                                                                    \
        add_to(sum, &others);                                                                \
    } while (0)

/* lanes 1, 0, 3, 2 of four, and 2, 3, 0, 1 */
#define NEIGHBOURS 0xb1
#define PAIRS 0x4e

IN_LANES void
take(fe25519 f, const fe_lanes *lanes, int lane)
{
    uint64_t limbs[LANES];
    int      i;

    for (i = 0; i < LIMBS; i++) {
        _mm512_storeu_si512(limbs, lanes->limbs[i]);
        f[i] = limbs[lane];
    }
}

IN_LANES void
take_point(ge25519_p3 *point, const p3_lanes *lanes, int lane)
{
    take(point->X, &lanes->X, lane);
    take(point->Y, &lanes->Y, lane);
    take(point->Z, &lanes->Z, lane);
    take(point->T, &lanes->T, lane);
}

static void
add_one_to(ge25519_p3 *sum, const ge25519_p3 *point)
{
    ge25519_cached cached;
    ge25519_p1p1   t;

    ge25519_p3_to_cached(&cached, point);
    ge25519_add(&t, sum, &cached);
    ge25519_p1p1_to_p3(sum, &t);
}

/* adds up each four lanes, and to the first sum, doubled so many times, the second one */
IN_LANES void
finish(ge25519_p3 *sum, p3_lanes *lanes, int doublings)
{
    ge25519_p3 second;

    ADD_OTHERS(lanes, NEIGHBOURS);
    ADD_OTHERS(lanes, PAIRS);
    take_point(sum, lanes, 0);
    take_point(&second, lanes, LANES / 2);
    while (doublings-- > 0) {
        add_one_to(sum, sum);
    }
    add_one_to(sum, &second);
    sodium_memzero(&second, sizeof second);
}

/* one limb of four rows' points in the same column, for odd digits and for even ones */
IN_LANES __m512i
limb_of(const uint64_t rows[TURNED])
{
    return _mm512_broadcast_i64x4(_mm256_load_si256((const __m256i *) (const void *) rows));
}

/* the digits' multiples of four rows, from the first on, each read and the wanted ones kept */
IN_LANES affine_lanes
select_points(const turned_limbs points[COLUMNS], __m512i digits)
{
    const __mmask8 negative = _mm512_cmplt_epi64_mask(digits, _mm512_setzero_si512());
    const __m512i  sizes = _mm512_abs_epi64(digits);
    affine_lanes   point;
    __mmask8       is_it;
    int            column, i;

    for (i = 0; i < LIMBS; i++) {
        point.yplusx.limbs[i] = point.yminusx.limbs[i] = everywhere(i == 0);
        point.xy2d.limbs[i] = _mm512_setzero_si512();
    }
    for (column = 0; column < COLUMNS; column++) {
        is_it = _mm512_cmpeq_epi64_mask(sizes, everywhere((uint64_t) column + 1));
        for (i = 0; i < LIMBS; i++) {
            point.yplusx.limbs[i] =
                _mm512_mask_mov_epi64(point.yplusx.limbs[i], is_it, limb_of(points[column][i]));
            point.yminusx.limbs[i] =
                _mm512_mask_mov_epi64(point.yminusx.limbs[i], is_it, limb_of(points[column][LIMBS + i]));
            point.xy2d.limbs[i] =
                _mm512_mask_mov_epi64(point.xy2d.limbs[i], is_it, limb_of(points[column][2 * LIMBS + i]));
        }
    }
    negate(&point.yplusx, &point.yminusx, &point.xy2d, negative);
    return point;
}

/* IFMA, and AVX-512 on shorter vectors, too */
static int
has_ifma(void)
{
    unsigned int a, b, c, d;

    return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (b >> 21 & 1) && (b >> 31 & 1);
}

int
selfsame_ed25519_has_lanes(void)
{
    enum { UNKNOWN, NO, YES };
    static int known = UNKNOWN;
    int        answer = __atomic_load_n(&known, __ATOMIC_RELAXED);

    if (answer == UNKNOWN) {
        /* upstream has found out whether the system keeps the vectors, too */
        answer = sodium_runtime_has_avx512f() && has_ifma() ? YES : NO;
        __atomic_store_n(&known, answer, __ATOMIC_RELAXED);
    }
    return answer == YES;
}

void
selfsame_ed25519_turn_base(void)
{
    int row, column, i;

    for (row = 0; row < ROWS; row++) {
        for (column = 0; column < COLUMNS; column++) {
            uint64_t(*limbs)[TURNED] = turned_base[row / TURNED][column];

            for (i = 0; i < LIMBS; i++) {
                limbs[i][row % TURNED] = base[row][column].yplusx[i];
                limbs[LIMBS + i][row % TURNED] = base[row][column].yminusx[i];
                limbs[2 * LIMBS + i][row % TURNED] = base[row][column].xy2d[i];
            }
        }
    }
}

__attribute__((target("avx512f,avx512ifma"))) void
selfsame_ed25519_sum_in_lanes(ge25519_p3 *sum, const ge25519_terms *terms, int doublings)
{
    p3_lanes     lanes;
    cached_lanes point;
    int          i;

    neutral(&lanes);
    for (i = 0; i < STEPS; i++) {
        point = fetch_points(terms->points[i], terms->negated[i]);
        add_to(&lanes, &point);
    }
    finish(sum, &lanes, doublings);
}

/* digits[i] * 16^i summed up is the scalar, which is below 2^255 */
static void
recode(signed char digits[NIBBLES], const unsigned char scalar[32])
{
    int carried = 0;
    int i, digit;

    for (i = 0; i < NIBBLES; i++) {
        digit = ((scalar[i / 2] >> (i % 2 * 4)) & 15) + carried;
        carried = i + 1 < NIBBLES ? (digit + 8) >> 4 : 0;
        digits[i] = (signed char) (digit - carried * 16);
    }
}

__attribute__((target("avx512f,avx512ifma"))) void
selfsame_ed25519_base_in_lanes(ge25519_p3 *product, const unsigned char scalar[32])
{
    p3_lanes     sum;
    affine_lanes point;
    signed char  digits[NIBBLES];
    long long    of_rows[LANES];
    int          i, lane;

    recode(digits, scalar);
    neutral(&sum);
    for (i = 0; i < ROWS; i += LANES / 2) {
        for (lane = 0; lane < LANES; lane++) {
            of_rows[lane] = digits[2 * (i + lane % (LANES / 2)) + (lane < LANES / 2)];
        }
        point = select_points(turned_base[i / TURNED], _mm512_loadu_si512(of_rows));
        add_affine_to(&sum, &point);
    }
    /* odd digits count 16 times */
    finish(product, &sum, 4);
    sodium_memzero(digits, sizeof digits);
    sodium_memzero(of_rows, sizeof of_rows);
    sodium_memzero(&sum, sizeof sum);
    sodium_memzero(&point, sizeof point);
}

#endif
