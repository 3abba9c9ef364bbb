/* The same steps as upstream's in the same order, in loops over 24 limbs of 21 bits. */

/* limb i and all above are 2^252 times something: 2^252 = -27742317777372353535851937790883648493 (mod l) */
__attribute__((minsize, noinline)) static void
sc25519_fold(int64_t limbs[24], const int i)
{
    static const int32_t factors[6] = { 666643, 470296, 654183, -997805, 136657, -683901 };
    const int64_t        limb = limbs[i];
    int                  j;

    limbs[i] = 0;
    for (j = 0; j < 6; j++) {
        limbs[i - 12 + j] += limb * factors[j];
    }
}

__attribute__((minsize, noinline)) static void
sc25519_carry(int64_t limbs[24], const int first, const int last, const int step, const int64_t half)
{
    int64_t carry;
    int     i;

    for (i = first; i <= last; i += step) {
        carry = (limbs[i] + half) >> 21;
        limbs[i + 1] += carry;
        limbs[i] -= carry * ((int64_t) 1 << 21);
    }
}

__attribute__((minsize)) void
sc25519_reduce(unsigned char s[64])
{
    const int64_t half = (int64_t) 1 << 20;
    int64_t       limbs[24];
    int           i;

    for (i = 0; i < 24; i++) {
        limbs[i] = (int64_t) (load_4(s + 21 * i / 8) >> (21 * i % 8));
        if (i != 23) {
            limbs[i] &= 2097151;
        }
    }

    for (i = 23; i >= 18; i--) {
        sc25519_fold(limbs, i);
    }
    sc25519_carry(limbs, 6, 16, 2, half);
    sc25519_carry(limbs, 7, 15, 2, half);
    for (i = 17; i >= 12; i--) {
        sc25519_fold(limbs, i);
    }
    sc25519_carry(limbs, 0, 10, 2, half);
    sc25519_carry(limbs, 1, 11, 2, half);
    sc25519_fold(limbs, 12);
    sc25519_carry(limbs, 0, 11, 1, 0);
    sc25519_fold(limbs, 12);
    sc25519_carry(limbs, 0, 10, 1, 0);

    /* a byte is in one limb or in two neighbours */
    for (i = 0; i < 32; i++) {
        s[i] = (unsigned char) ((limbs[8 * i / 21] >> (8 * i % 21)) | (limbs[8 * i / 21 + 1] << (21 - 8 * i % 21)));
    }
    sodium_memzero(limbs, sizeof limbs);
}

