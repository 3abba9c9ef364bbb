/* Both rates with one loop each way: a block is permuted when the next byte needs it, as upstream does in six places. */
#ifdef SHAKE128_RATE
#    define SHAKE(name) shake128_##name
#    define RATE SHAKE128_RATE
#    define ABSORBING SHAKE128_PHASE_ABSORBING
#    define SQUEEZING SHAKE128_PHASE_SQUEEZING
typedef shake128_state_internal shake_state;
#else
#    define SHAKE(name) shake256_##name
#    define RATE SHAKE256_RATE
#    define ABSORBING SHAKE256_PHASE_ABSORBING
#    define SQUEEZING SHAKE256_PHASE_SQUEEZING
typedef shake256_state_internal shake_state;
#endif

/* Permutes a full block away; gives how many of the bytes wanted there is room for. */
static size_t
shake_room(shake_state *state, size_t wanted)
{
    size_t room;

    if (state->offset == RATE) {
        crypto_core_keccak1600_permute_24(&state->state);
        state->offset = 0;
    }
    room = RATE - state->offset;
    return wanted < room ? wanted : room;
}

int
SHAKE(ref_update)(shake_state *state, const unsigned char *in, size_t inlen)
{
    size_t room;
    int    ret = 0;

    if (state->phase != ABSORBING) {
        state->phase  = ABSORBING;
        state->offset = RATE;
        ret = -1;
    }
    for (; inlen > 0U; in += room, inlen -= room) {
        room = shake_room(state, inlen);
        crypto_core_keccak1600_xor_bytes(&state->state, in, state->offset, room);
        state->offset += room;
    }
    return ret;
}

int
SHAKE(ref_squeeze)(shake_state *state, unsigned char *out, size_t outlen)
{
    static const unsigned char last = 0x80;
    size_t                     room;

    if (state->phase == ABSORBING) {
        (void) shake_room(state, 0U);
        crypto_core_keccak1600_xor_bytes(&state->state, &state->domain, state->offset, 1);
        crypto_core_keccak1600_xor_bytes(&state->state, &last, RATE - 1, 1);
        crypto_core_keccak1600_permute_24(&state->state);
        state->phase  = SQUEEZING;
        state->offset = 0;
    }
    for (; outlen > 0U; out += room, outlen -= room) {
        room = shake_room(state, outlen);
        crypto_core_keccak1600_extract_bytes(&state->state, out, state->offset, room);
        state->offset += room;
    }
    return 0;
}

