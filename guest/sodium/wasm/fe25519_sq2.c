/*
 2 * f * f as f times 2 * f: a product in place of a square, once in each doubling, and no third function of that size.
 Twice what products and squares are, which is all that comes here, is within what products take.
 */
static void
fe25519_sq2(fe25519 h, const fe25519 f)
{
    fe25519 twice;

    fe25519_add(twice, f, f);
    fe25519_mul(h, f, twice);
}

