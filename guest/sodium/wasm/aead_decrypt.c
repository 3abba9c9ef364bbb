int
crypto_aead_chacha20poly1305_ietf_decrypt_detached(unsigned char *m,
                                                   unsigned char *nsec,
                                                   const unsigned char *c,
                                                   unsigned long long clen,
                                                   const unsigned char *mac,
                                                   const unsigned char *ad,
                                                   unsigned long long adlen,
                                                   const unsigned char *npub,
                                                   const unsigned char *k)
{
    unsigned char start[AEAD_BLOCK + AEAD_START];
    unsigned char computed_mac[crypto_aead_chacha20poly1305_ietf_ABYTES];
    const size_t  n = aead_start(start, c, clen, npub, k);
    int           ret;

    (void) nsec;
    aead_mac(computed_mac, start, ad, adlen, c, clen);
    ret = crypto_verify_16(computed_mac, mac);
    sodium_memzero(computed_mac, sizeof computed_mac);
    /* not before it is known to be authentic */
    if (m != NULL && ret == 0) {
        memcpy(m, start + AEAD_BLOCK, n);
        aead_rest(m, c, clen, npub, k);
    } else if (m != NULL) {
        memset(m, 0, clen);
    }
    sodium_memzero(start, sizeof start);

    return ret;
}

