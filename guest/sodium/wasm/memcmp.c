/*
 The order of two pieces of memory, eight bytes at a time: the compiler's own goes byte by byte, and what is looked up by a
 peer id or an object id is ordered by it. Not for secrets: it takes the longer, the later they differ.
 */

#include <stddef.h>
#include <stdint.h>

__attribute__((no_builtin)) int
memcmp(const void *left, const void *right, size_t n)
{
    const unsigned char *a = left;
    const unsigned char *b = right;
    uint64_t             x;
    uint64_t             y;

    for (; n >= sizeof x; n -= sizeof x, a += sizeof x, b += sizeof y) {
        __builtin_memcpy(&x, a, sizeof x);
        __builtin_memcpy(&y, b, sizeof y);
        if (x != y) {
            /* the first byte that differs is among these */
            break;
        }
    }
    for (; n > 0; n--, a++, b++) {
        if (*a != *b) {
            return *a - *b;
        }
    }
    return 0;
}
