/* Two rounds in a loop, where upstream writes out 24: they take an eighth of the bytes and no more time. */
static void
keccakf_24_rounds(uint64_t st[25])
{
    uint64_t    *state = st;
    unsigned int i;

    KECCAK_DECLARE_STATE;

    KECCAK_COPY_FROM_STATE(A, state);
    KECCAK_PREPARE_THETA;

    for (i = 0U; i < 24U; i += 2U) {
        KECCAK_THETA_RHO_PI_CHI_IOTA_PRE(i, A, E);
        KECCAK_THETA_RHO_PI_CHI_IOTA_PRE(i + 1U, E, A);
    }

    KECCAK_COPY_TO_STATE(state, A);
}

