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

#endif

#endif
