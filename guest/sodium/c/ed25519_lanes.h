/*
 Sums of points of which a vector of AVX-512 holds eight at a time, on processors that multiply 52 bits in it (IFMA).
*/

#ifndef ED25519_LANES_H
#define ED25519_LANES_H

#include <stddef.h>

#include "private/ed25519_ref10.h"

/* not on Windows, where GCC does not align the stack for vectors */
#if defined(HAVE_TI_MODE) && defined(__x86_64__) && defined(__GNUC__) && !defined(_WIN32)
#define HAVE_LANES 1

#define LANES 8
/* points that each lane adds up */
#define STEPS 13

/* what is added up: where each point is, and a bit for each lane whose point is to be subtracted */
typedef struct {
    const ge25519_cached *points[STEPS][LANES];
    unsigned char         negated[STEPS];
} ge25519_terms;

/* whether this processor has what it takes */
int selfsame_ed25519_has_lanes(void);

/*
 The sum of the points of lanes 0 to 3, doubled so many times, and of those of lanes 4 to 7. All is public here: what is fetched
 from memory depends on what is added. The limbs of the points' coordinates are below 2^52.
*/
void selfsame_ed25519_sum_in_lanes(ge25519_p3 *sum, const ge25519_terms *terms, int doublings);

/* Makes the table of the base point's multiples: before all else, and once. */
void selfsame_ed25519_turn_base(void);

/*
 The base point times a scalar below 2^255. The scalar may be secret: the same memory is read, in the same order, whatever it is.
*/
void selfsame_ed25519_base_in_lanes(ge25519_p3 *product, const unsigned char scalar[32]);

#endif

#endif
