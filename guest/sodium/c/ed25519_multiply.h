/*
 Multiples of any point, whose four coordinates lie in the four lanes of one vector (AVX-512 with IFMA).
*/

#ifndef ED25519_MULTIPLY_H
#define ED25519_MULTIPLY_H

#include "ed25519_lanes.h"

#ifdef HAVE_LANES

/*
 The point times the scalar, which is below 2^253. All is public here: which way is taken depends on the scalar. It needs what
 selfsame_ed25519_has_lanes asks for.
*/
void selfsame_ed25519_multiply(ge25519_p3 *product, const ge25519_p3 *point, const unsigned char scalar[32]);

/* odd multiples of a point, from 1 to 15, of 2^64 times the point, of 2^128 times and of 2^192 times */
#define PARTS 4
#define PART_MULTIPLES 8
typedef uint64_t ge25519_parts[PARTS][PART_MULTIPLES][5][4];

/* Computes them. */
void selfsame_ed25519_split(ge25519_parts parts, const ge25519_p3 *point);

/* The point times the scalar, which is below 2^253, in about a third of the time. */
void selfsame_ed25519_multiply_split(ge25519_p3 *product, const ge25519_parts parts, const unsigned char scalar[32]);

#endif

#endif
