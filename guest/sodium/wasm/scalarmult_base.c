/*
 h = a * B, with 32 precomputed points where upstream has 256: they are most of what people download.

 Preconditions, as upstream:
 a[31] <= 127

 The scalar is written with 256 digits that are all 1 or -1, which has no zero and therefore no exception. Digits 16
 apart form a row of 4, 4 rows make a column, and the 16 columns are worked through from the top with a doubling
 between them: 64 additions, as upstream, and 15 doublings. Bit i of t is 1 where digit i is 1, so

   a = 2 * t - (2^256 - 1)   (mod l),   t = (a + l * (1 - a mod 2) - 1) / 2 + 2^255

 The table's row j holds, in place n, the sum of 2^(64*j) * B times 2^48 and, for each i below 3, plus or minus 2^(16*i)
 as bit i of n is 1 or 0. A row whose top digit is -1 is the negative of one in the table.
 */

void
ge25519_scalarmult_base(ge25519_p3 *h, const unsigned char *a)
{
    static const unsigned char L[32] = {
        0xed, 0xd3, 0xf5, 0x5c, 0x1a, 0x63, 0x12, 0x58, 0xd6, 0x9c, 0xf7, 0xa2, 0xde, 0xf9, 0xde, 0x14,
        0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x10
    };
    ge25519_p1p1    r;
    ge25519_p2      s;
    ge25519_precomp u;
    unsigned char   t[33];
    unsigned int    even = ((a[0] & 1) ^ optblocker_u8) - 1U; /* all ones: yes, 0: no */
    unsigned int    sum = 0;
    unsigned int    row;
    unsigned int    minus;
    int             i, j, k;

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
            row = 0;
            for (i = 3; i >= 0; i--) {
                row = (row << 1) | ((t[8 * j + 2 * i + k / 8] >> (k % 8)) & 1U);
            }
            minus = ((row >> 3) ^ optblocker_u8) - 1U; /* all ones: yes, 0: no */
            row = ((row ^ minus) & 7) + 1;
            ge25519_cmov8_base(&u, j, (signed char) ((row ^ minus) - minus));
            ge25519_madd(&r, h, &u);
            if (j == 0 && k != 0) {
                ge25519_p1p1_to_p2(&s, &r);
                ge25519_p2_dbl(&r, &s);
            }
            ge25519_p1p1_to_p3(h, &r);
        }
    }
    sodium_memzero(t, sizeof t);
}

