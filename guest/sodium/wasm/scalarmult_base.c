/*
 h = a * B, from 32 points of 64 bytes where upstream has 256 of 120: a third of what people would download.

 Preconditions, as upstream:
 a[31] <= 127

 The scalar is written with 256 digits that are 1 or -1: without a zero no digit is an exception. Four digits 16 apart
 are looked up together, four such rows are 64 apart, and 16 steps with a doubling between them go through all: 64
 additions, as upstream, and 15 doublings in place of 4. Bit i of t is 1 where digit i is 1, thus

   a = 2 * t - (2^256 - 1)   (mod l),   t = (a - 1 + (a odd ? 0 : l)) / 2 + 2^255

 In row j of the table, point n is 2^(64*j) * B times 2^48 and, for each i below 3, plus or minus 2^(16*i) as bit i of n
 is 1 or 0. Where the highest of four digits is -1, the sum is the negative of one in the table.
 */

typedef int32_t base_lanes __attribute__((vector_size(16)));

/* a point, and 8 bytes more so that vectors cover it */
typedef union base_point {
    ge25519_precomp point;
    base_lanes      lanes[8];
} base_point;

/* x and y of each point */
static const unsigned char base_bytes[4][8][2][32] = {
#include "base-table.h"
};

/* the same points, unpacked when the first is needed: there are no threads here */
static base_point base_table[4][8];
static int        base_unpacked;

__attribute__((minsize, noinline)) static void
base_unpack(void)
{
    ge25519_precomp *p;
    fe25519          x;
    fe25519          y;
    int              i, j;

    for (j = 0; j < 4; j++) {
        for (i = 0; i < 8; i++) {
            p = &base_table[j][i].point;
            fe25519_frombytes(x, base_bytes[j][i][0]);
            fe25519_frombytes(y, base_bytes[j][i][1]);
            fe25519_add(p->yplusx, y, x);
            fe25519_sub(p->yminusx, y, x);
            fe25519_mul(p->xy2d, x, y);
            fe25519_mul(p->xy2d, p->xy2d, d2);
        }
    }
    base_unpacked = 1;
}

/* t = row[n], or its negative if minus is all ones; the whole row is read whatever n is */
static void
base_select(base_point *t, const base_point row[8], const uint32_t n, const int32_t minus)
{
    base_lanes   masks[8];
    int32_t      swap;
    unsigned int i, j;

    for (i = 0; i < 8; i++) {
        masks[i] = (base_lanes) { 0 } - (int32_t) equal((signed char) n, (signed char) i);
    }
    for (j = 0; j < 8; j++) {
        t->lanes[j] = (base_lanes) { 0 };
#pragma clang loop unroll(full)
        for (i = 0; i < 8; i++) {
            t->lanes[j] |= row[i].lanes[j] & masks[i];
        }
    }
    for (i = 0; i < 10; i++) {
        swap = (t->point.yplusx[i] ^ t->point.yminusx[i]) & minus;
        t->point.yplusx[i] ^= swap;
        t->point.yminusx[i] ^= swap;
        t->point.xy2d[i] = (t->point.xy2d[i] ^ minus) - minus;
    }
}

void
ge25519_scalarmult_base(ge25519_p3 *h, const unsigned char *a)
{
    static const unsigned char L[32] = {
        0xed, 0xd3, 0xf5, 0x5c, 0x1a, 0x63, 0x12, 0x58, 0xd6, 0x9c, 0xf7, 0xa2, 0xde, 0xf9, 0xde, 0x14,
        0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x10
    };
    ge25519_p1p1   r;
    ge25519_p2     s;
    base_point     u;
    unsigned char  t[33];
    const uint32_t even = ((a[0] & 1) ^ optblocker_u8) - 1U; /* all ones: yes, 0: no */
    uint32_t       sum = 0;
    uint32_t       n;
    uint32_t       minus;
    int            i, j, k;

    if (base_unpacked == 0) {
        base_unpack();
    }
    for (i = 0; i < 32; ++i) {
        sum += a[i] + (L[i] & even);
        t[i] = (unsigned char) sum;
        sum >>= 8;
    }
    /* t is odd and below 2^256 */
    t[32] = 1;
    for (i = 0; i < 32; ++i) {
        t[i] = (unsigned char) ((t[i] >> 1) | (t[i + 1] << 7));
    }

    ge25519_p3_0(h);

    for (k = 15; k >= 0; k--) {
        for (j = 3; j >= 0; j--) {
            n = 0;
            for (i = 3; i >= 0; i--) {
                n = (n << 1) | ((t[8 * j + 2 * i + k / 8] >> (k % 8)) & 1U);
            }
            minus = ((n >> 3) ^ optblocker_u8) - 1U; /* all ones: yes, 0: no */
            base_select(&u, base_table[j], (n ^ minus) & 7, (int32_t) minus);
            ge25519_madd(&r, h, &u.point);
            if (j == 0 && k != 0) {
                ge25519_p1p1_to_p2(&s, &r);
                ge25519_p2_dbl(&r, &s);
            }
            ge25519_p1p1_to_p3(h, &r);
        }
    }
    sodium_memzero(t, sizeof t);
}

