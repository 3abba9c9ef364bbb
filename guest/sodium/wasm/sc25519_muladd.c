/* The product by the rule of school in limbs of 32 bits, then the reduction that hashes need anyway, in place of both at
 once written out: only signing does this, and only once. */
__attribute__((minsize)) void
sc25519_muladd(unsigned char s[32], const unsigned char a[32],
               const unsigned char b[32], const unsigned char c[32])
{
    unsigned char t[64];
    uint32_t      limbs[16];
    uint64_t      carry;
    int           i, j;

    for (i = 0; i < 8; i++) {
        limbs[i] = LOAD32_LE(c + 4 * i);
    }
    for (i = 0; i < 8; i++) {
        carry = 0;
        for (j = 0; j < 8; j++) {
            carry += (uint64_t) LOAD32_LE(a + 4 * i) * LOAD32_LE(b + 4 * j) + limbs[i + j];
            limbs[i + j] = (uint32_t) carry;
            carry >>= 32;
        }
        limbs[i + 8] = (uint32_t) carry;
    }
    for (i = 0; i < 16; i++) {
        STORE32_LE(t + 4 * i, limbs[i]);
    }
    sc25519_reduce(t);
    memcpy(s, t, 32);
    sodium_memzero(limbs, sizeof limbs);
    sodium_memzero(t, sizeof t);
}

