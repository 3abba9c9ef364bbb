/*
 Multiples of any point, whose four coordinates lie in the four lanes of one vector (AVX-512 with IFMA).
*/

#ifndef ED25519_MULTIPLY_H
#define ED25519_MULTIPLY_H

#include "ed25519_lanes.h"

#ifdef HAVE_LANES

/* odd multiples of a point, from 1 to 7, of 2^32 times the point, of 2^64 times, and so on to 2^224 times */
#define PARTS 8
#define PART_MULTIPLES 4
typedef uint64_t ge25519_parts[PARTS][PART_MULTIPLES][5][4];

/*
 All is public here: which way is taken depends on the scalars, which are below 2^253. It needs what selfsame_ed25519_has_lanes
 asks for.
*/

/* Splits the base point: before all sums, and once. */
void selfsame_ed25519_split_base(void);

/* The point times the scalar, and the base point times another one. */
void selfsame_ed25519_sum(ge25519_p3 *sum, const ge25519_p3 *point, const unsigned char scalar[32],
                          const unsigned char of_base[32]);

/* Computes what the same sum of this point takes less than half of the time with. */
void selfsame_ed25519_split(ge25519_parts parts, const ge25519_p3 *point);

/* That sum. */
void selfsame_ed25519_sum_split(ge25519_p3 *sum, const ge25519_parts parts, const unsigned char scalar[32],
                                const unsigned char of_base[32]);

#endif

#endif
