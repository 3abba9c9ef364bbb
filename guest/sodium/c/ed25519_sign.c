/*
 Ed25519's signature as upstream makes it (RFC 8032, section 5.1.6), with the multiplication of the base point in lanes where
 the processor has them. Secrets decide neither which way is taken nor which memory is read, and are wiped.
*/

#include "crypto_hash_sha512.h"
#include "crypto_sign_ed25519.h"
#include "private/ed25519_ref10.h"
#include "utils.h"

#include "ed25519_lanes.h"
#include "ed25519_multiply.h"

#ifdef HAVE_LANES

static void
sign_in_lanes(unsigned char sig[64], const unsigned char *m, unsigned long long mlen, const unsigned char sk[64])
{
    crypto_hash_sha512_state state;
    ge25519_p3               r;
    unsigned char            expanded[64];
    unsigned char            nonce[64];
    unsigned char            h[64];

    crypto_hash_sha512(expanded, sk, 32);
    crypto_hash_sha512_init(&state);
    crypto_hash_sha512_update(&state, expanded + 32, 32);
    crypto_hash_sha512_update(&state, m, mlen);
    crypto_hash_sha512_final(&state, nonce);
    sc25519_reduce(nonce);
    selfsame_ed25519_base_in_lanes(&r, nonce);
    ge25519_p3_tobytes(sig, &r);

    crypto_hash_sha512_init(&state);
    crypto_hash_sha512_update(&state, sig, 32);
    crypto_hash_sha512_update(&state, sk + 32, 32);
    crypto_hash_sha512_update(&state, m, mlen);
    crypto_hash_sha512_final(&state, h);
    sc25519_reduce(h);
    expanded[0] &= 248;
    expanded[31] &= 127;
    expanded[31] |= 64;
    sc25519_muladd(sig + 32, h, expanded, nonce);

    sodium_memzero(expanded, sizeof expanded);
    sodium_memzero(nonce, sizeof nonce);
    sodium_memzero(&r, sizeof r);
}

#endif

/* Makes what signatures and their verification need: before all of them, once libsodium knows the processor. */
void
selfsame_ed25519_prepare_tables(void)
{
#ifdef HAVE_LANES
    if (selfsame_ed25519_has_lanes()) {
        selfsame_ed25519_turn_base();
        selfsame_ed25519_split_base();
    }
#endif
}

/* as crypto_sign_ed25519_detached */
void
selfsame_ed25519_sign(unsigned char sig[64], const unsigned char *m, unsigned long long mlen, const unsigned char sk[64])
{
#ifdef HAVE_LANES
    if (selfsame_ed25519_has_lanes()) {
        sign_in_lanes(sig, m, mlen, sk);
        return;
    }
#endif
    crypto_sign_ed25519_detached(sig, NULL, m, mlen, sk);
}
