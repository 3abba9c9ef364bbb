/*
 The key of the authenticator comes out of the same call as the first two blocks of the message: three blocks take little
 longer than one. What is authenticated is handed on in whole blocks, none of which has to be put together first.
*/
#define AEAD_BLOCK 64U
#define AEAD_START (2U * AEAD_BLOCK)

/* bytes, then zeros up to a multiple of 16 */
static void
aead_authenticate(crypto_onetimeauth_poly1305_state *state, const unsigned char *bytes, unsigned long long length)
{
    unsigned char last[16] = { 0 };
    const size_t  rest = (size_t) length & 15U;

    crypto_onetimeauth_poly1305_update(state, bytes, length - rest);
    if (rest > 0) {
        memcpy(last, bytes + (length - rest), rest);
        crypto_onetimeauth_poly1305_update(state, last, sizeof last);
    }
}

static void
aead_mac(unsigned char *mac, const unsigned char *key, const unsigned char *ad, unsigned long long adlen,
         const unsigned char *c, unsigned long long clen)
{
    crypto_onetimeauth_poly1305_state state;
    unsigned char                     lengths[16];

    crypto_onetimeauth_poly1305_init(&state, key);
    aead_authenticate(&state, ad, adlen);
    aead_authenticate(&state, c, clen);
    STORE64_LE(lengths, (uint64_t) adlen);
    STORE64_LE(lengths + 8, (uint64_t) clen);
    crypto_onetimeauth_poly1305_update(&state, lengths, sizeof lengths);
    crypto_onetimeauth_poly1305_final(&state, mac);
    sodium_memzero(&state, sizeof state);
}

/* start = the block with the key of the authenticator and up to two blocks of in under the stream; returns how much of in */
static size_t
aead_start(unsigned char start[AEAD_BLOCK + AEAD_START], const unsigned char *in, unsigned long long length,
           const unsigned char *npub, const unsigned char *k)
{
    const size_t n = length < AEAD_START ? (size_t) length : AEAD_START;

    memset(start, 0, AEAD_BLOCK);
    memcpy(start + AEAD_BLOCK, in, n);
    crypto_stream_chacha20_ietf_xor_ic(start, start, AEAD_BLOCK + n, npub, 0U, k);

    return n;
}

/* out = all of in behind its first two blocks under the stream */
static void
aead_rest(unsigned char *out, const unsigned char *in, unsigned long long length, const unsigned char *npub,
          const unsigned char *k)
{
    if (length > AEAD_START) {
        crypto_stream_chacha20_ietf_xor_ic(out + AEAD_START, in + AEAD_START, length - AEAD_START, npub, 3U, k);
    }
}

int
crypto_aead_chacha20poly1305_ietf_encrypt_detached(unsigned char *c,
                                                   unsigned char *mac,
                                                   unsigned long long *maclen_p,
                                                   const unsigned char *m,
                                                   unsigned long long mlen,
                                                   const unsigned char *ad,
                                                   unsigned long long adlen,
                                                   const unsigned char *nsec,
                                                   const unsigned char *npub,
                                                   const unsigned char *k)
{
    unsigned char start[AEAD_BLOCK + AEAD_START];
    const size_t  n = aead_start(start, m, mlen, npub, k);

    (void) nsec;
    memcpy(c, start + AEAD_BLOCK, n);
    aead_rest(c, m, mlen, npub, k);
    aead_mac(mac, start, ad, adlen, c, mlen);
    sodium_memzero(start, sizeof start);
    if (maclen_p != NULL) {
        *maclen_p = crypto_aead_chacha20poly1305_ietf_ABYTES;
    }
    return 0;
}

