/* Nothing here signs what was hashed before, so that the prefix for that is not carried along. */
void
_crypto_sign_ed25519_ref10_hinit(crypto_hash_sha512_state *hs, int prehashed)
{
    if (prehashed) {
        __builtin_trap();
    }
    crypto_hash_sha512_init(hs);
}

