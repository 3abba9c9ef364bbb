/*
 Verification of Ed25519 signatures of one key again and again, from multiples of the key and of the base point that are
 computed once. It takes exactly what upstream takes. All is public here, so nothing takes the same time whatever it is given.

 A scalar below l has 51 digits of 5 bits from -16 to 16. Row i of a table holds n * 1024^i * P for n from 1 to 16: the
 odd digits of both scalars are looked up and added, the sum is taken 32 times, and the even digits are added, which is
 101 additions and 5 doublings where upstream has 252 doublings and some 85 additions.
*/

#include <string.h>

#include "crypto_hash_sha512.h"
#include "private/ed25519_ref10.h"

#define BITS 5
#define DIGITS 51
#define ROWS 26
#define COLUMNS 16

typedef ge25519_cached multiples[ROWS][COLUMNS];

/* what Rust gives as many words of 64 bits for */
typedef char multiples_have_their_size[sizeof(multiples) == ROWS * COLUMNS * 160 ? 1 : -1];

/* the encoding of -B: a table of the base point is made of it as one of a key is, whose negative is what is needed */
static const unsigned char negative_base[32] = {
    0x58, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66,
    0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0xe6
};

static void
add_to(ge25519_p3 *sum, const ge25519_cached *point)
{
    ge25519_p1p1 t;

    ge25519_add(&t, sum, point);
    ge25519_p1p1_to_p3(sum, &t);
}

static void
sub_from(ge25519_p3 *sum, const ge25519_cached *point)
{
    ge25519_p1p1 t;

    ge25519_sub(&t, sum, point);
    ge25519_p1p1_to_p3(sum, &t);
}

static void
double_times(ge25519_p3 *sum, int times)
{
    ge25519_cached itself;

    while (times-- > 0) {
        ge25519_p3_to_cached(&itself, sum);
        add_to(sum, &itself);
    }
}

static void
fill(multiples table, ge25519_p3 *point)
{
    int i, j;

    for (i = 0; i < ROWS; i++) {
        ge25519_p3_to_cached(&table[i][0], point);
        for (j = 1; j < COLUMNS; j++) {
            add_to(point, &table[i][0]);
            ge25519_p3_to_cached(&table[i][j], point);
        }
        /* 16 times the point by now */
        double_times(point, 2 * BITS - 4);
    }
}

/* digits[i] * 32^i summed up is the scalar, which is below 2^253 */
static void
recode(signed char digits[DIGITS], const unsigned char scalar[32])
{
    unsigned int bits, window;
    int          carry = 0;
    int          i;

    for (i = 0; i < DIGITS; i++) {
        bits = (unsigned int) i * BITS;
        window = scalar[bits / 8];
        if (bits / 8 + 1 < 32) {
            window |= (unsigned int) scalar[bits / 8 + 1] << 8;
        }
        digits[i] = (signed char) (((window >> (bits % 8)) & 31) + (unsigned int) carry);
        carry = digits[i] > COLUMNS;
        digits[i] = (signed char) (digits[i] - carry * 2 * COLUMNS);
    }
}

static void
add_multiple(ge25519_p3 *sum, const ge25519_cached row[COLUMNS], int digit)
{
    if (digit > 0) {
        add_to(sum, &row[digit - 1]);
    } else if (digit < 0) {
        sub_from(sum, &row[-digit - 1]);
    }
}

/* what both scalars' digits make of both tables */
static void
sum_up(ge25519_p3 *sum, const multiples of_key, const multiples of_base, const signed char of_h[DIGITS],
       const signed char of_s[DIGITS])
{
    int i;

    /* the neutral element */
    memset(sum, 0, sizeof *sum);
    sum->Y[0] = 1;
    sum->Z[0] = 1;
    for (i = 1; i < DIGITS; i += 2) {
        add_multiple(sum, of_key[i / 2], of_h[i]);
        add_multiple(sum, of_base[i / 2], of_s[i]);
    }
    double_times(sum, BITS);
    for (i = 0; i < DIGITS; i += 2) {
        add_multiple(sum, of_key[i / 2], of_h[i]);
        add_multiple(sum, of_base[i / 2], of_s[i]);
    }
}

/* the opposite of the key as a point, unless it is one that no signature is valid under */
static int
read_negative(ge25519_p3 *negative, const unsigned char *pk)
{
    if (ge25519_is_canonical(pk) == 0 || ge25519_has_small_order(pk) != 0) {
        return -1;
    }
    return ge25519_frombytes_negate_vartime(negative, pk);
}

/* what the message's hash multiplies the key with, unless no message has this signature */
static int
challenge(unsigned char h[64], const unsigned char *sig, const unsigned char *m, unsigned long long mlen,
          const unsigned char *pk)
{
    crypto_hash_sha512_state state;

    if (sc25519_is_canonical(sig + 32) == 0 || ge25519_has_small_order(sig) != 0) {
        return -1;
    }
    crypto_hash_sha512_init(&state);
    crypto_hash_sha512_update(&state, sig, 32);
    crypto_hash_sha512_update(&state, pk, 32);
    crypto_hash_sha512_update(&state, m, mlen);
    crypto_hash_sha512_final(&state, h);
    sc25519_reduce(h);
    return 0;
}

/* whether the sum is the point that the signature begins with */
static int
compare(const unsigned char *sig, const ge25519_p3 *sum)
{
    unsigned char r[32];

    ge25519_p3_tobytes(r, sum);
    return memcmp(r, sig, sizeof r) == 0 ? 0 : -1;
}

int
selfsame_ed25519_prepare(multiples table, const unsigned char *pk)
{
    ge25519_p3 negative;

    if (read_negative(&negative, pk) != 0) {
        return -1;
    }
    fill(table, &negative);
    return 0;
}

int
selfsame_ed25519_prepare_base(multiples table)
{
    return selfsame_ed25519_prepare(table, negative_base);
}

/* as crypto_sign_ed25519_verify_detached, for a key that was prepared */
int
selfsame_ed25519_verify_prepared(const unsigned char *sig, const unsigned char *m, unsigned long long mlen,
                                 const unsigned char *pk, const multiples of_key, const multiples of_base)
{
    ge25519_p3    sum;
    unsigned char h[64];
    signed char   of_h[DIGITS];
    signed char   of_s[DIGITS];

    if (challenge(h, sig, m, mlen, pk) != 0) {
        return -1;
    }
    recode(of_h, h);
    recode(of_s, sig + 32);
    sum_up(&sum, of_key, of_base, of_h, of_s);
    return compare(sig, &sum);
}
