/* The same products and reductions as upstream's, of four pairs at a time: a pair of coefficients fills a lane, and the
 instruction that adds the products of two neighbours takes one of them where the other is multiplied by zero. */
typedef int16_t  poly_halves __attribute__((vector_size(16)));
typedef int32_t  poly_lanes __attribute__((vector_size(16)));
typedef uint32_t poly_bits __attribute__((vector_size(16)));

#define POLY_DOT(X, Y) \
    ((poly_lanes) __builtin_wasm_dot_s_i32x4_i16x8((poly_halves) (X), (poly_halves) (Y)))

/* montgomery_reduce in each lane */
static poly_lanes
poly_lanes_reduce(const poly_lanes a)
{
    const poly_lanes  q       = { MLKEM768_Q, MLKEM768_Q, MLKEM768_Q, MLKEM768_Q };
    const poly_halves factors = { -3327, 0, -3327, 0, -3327, 0, -3327, 0 };

    return (a - POLY_DOT((poly_halves) a * factors, q)) >> 16;
}

static void
poly_basemul(poly *r, const poly *a, const poly *b)
{
    poly_bits    x, y, upper_x, upper_y, result;
    poly_lanes   zeta, even, odd;
    unsigned int i;

    for (i = 0; i < MLKEM768_N; i += 8) {
        memcpy(&x, &a->coeffs[i], sizeof x);
        memcpy(&y, &b->coeffs[i], sizeof y);
        upper_x = x >> 16;
        upper_y = y >> 16;
        zeta    = (poly_lanes) { zetas[64 + i / 4], -zetas[64 + i / 4], zetas[65 + i / 4], -zetas[65 + i / 4] };

        even = poly_lanes_reduce(POLY_DOT(upper_x, upper_y));
        even = poly_lanes_reduce(even * zeta) + poly_lanes_reduce(POLY_DOT(x & 0xffff, y));
        odd  = poly_lanes_reduce(POLY_DOT(x, upper_y)) + poly_lanes_reduce(POLY_DOT(upper_x, y));

        result = ((poly_bits) even & 0xffff) | ((poly_bits) odd << 16);
        memcpy(&r->coeffs[i], &result, sizeof result);
    }
}

