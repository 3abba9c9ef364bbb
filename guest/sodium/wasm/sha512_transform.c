/* One round in a loop, where upstream writes out 16: signatures hash little. */
static void
SHA512_Transform(uint64_t *state, const uint8_t block[128], uint64_t W[80],
                 uint64_t S[8])
{
    uint64_t a = state[0], b = state[1], c = state[2], d = state[3];
    uint64_t e = state[4], f = state[5], g = state[6], h = state[7];
    uint64_t first;
    int      i;

    (void) S;
    be64dec_vect(W, block, 128);
    for (i = 0; i < 64; i++) {
        MSCH(W, 0, i);
    }
    for (i = 0; i < 80; i++) {
        RND(a, b, c, d, e, f, g, h, W[i] + Krnd[i]);
        first = h;
        h = g;
        g = f;
        f = e;
        e = d;
        d = c;
        c = b;
        b = a;
        a = first;
    }
    state[0] += a;
    state[1] += b;
    state[2] += c;
    state[3] += d;
    state[4] += e;
    state[5] += f;
    state[6] += g;
    state[7] += h;
}

