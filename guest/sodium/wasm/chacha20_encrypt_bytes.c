/*
 Three blocks at a time, each as four rows in vectors, where upstream has one block in sixteen words: three take little
 longer than one, because each step waits for the one before, and their rows still fit into registers.
*/
typedef uint32_t row __attribute__((vector_size(16)));
typedef uint64_t row64 __attribute__((vector_size(16)));

#define ROW_SHUFFLE(X, A, B, C, D) __builtin_shufflevector(X, X, A, B, C, D)
/* Not as a shuffle of bytes where it could be one: wasmtime's are slower than this. */
#define ROW_ROTATE(X, N) (((X) << (N)) | ((X) >> (32 - (N))))

/* The four quarter rounds of one block's columns. */
#define ROW_QUARTERROUNDS(X) \
    X[0] += X[1]; X[3] = ROW_ROTATE(X[3] ^ X[0], 16); \
    X[2] += X[3]; X[1] = ROW_ROTATE(X[1] ^ X[2], 12); \
    X[0] += X[1]; X[3] = ROW_ROTATE(X[3] ^ X[0], 8); \
    X[2] += X[3]; X[1] = ROW_ROTATE(X[1] ^ X[2], 7);

/* Turns the rows so that diagonals become columns, and back. */
#define ROW_TURN(X) \
    X[1] = ROW_SHUFFLE(X[1], 1, 2, 3, 0); \
    X[2] = ROW_SHUFFLE(X[2], 2, 3, 0, 1); \
    X[3] = ROW_SHUFFLE(X[3], 3, 0, 1, 2);
#define ROW_TURN_BACK(X) \
    X[1] = ROW_SHUFFLE(X[1], 3, 0, 1, 2); \
    X[2] = ROW_SHUFFLE(X[2], 2, 3, 0, 1); \
    X[3] = ROW_SHUFFLE(X[3], 1, 2, 3, 0);

/* What one block is mixed with, twice. */
#define ROW_DOUBLE_ROUND(X) \
    ROW_QUARTERROUNDS(X) \
    ROW_TURN(X) \
    ROW_QUARTERROUNDS(X) \
    ROW_TURN_BACK(X)

static void __attribute__((noinline))
chacha20_encrypt_bytes(chacha_ctx *ctx, const uint8_t *m, uint8_t *c,
                       unsigned long long bytes)
{
    const row64 one = { 1, 0 };
    row         j[4], x[4], y[4], z[4], k[12], t;
    size_t      n, i;

    memcpy(j, ctx->input, sizeof j);
    while (bytes > 0) {
        x[0] = y[0] = z[0] = j[0];
        x[1] = y[1] = z[1] = j[1];
        x[2] = y[2] = z[2] = j[2];
        /* the counter is in the last row */
        x[3] = j[3];
        y[3] = (row) ((row64) j[3] + one);
        z[3] = (row) ((row64) y[3] + one);
        k[3] = x[3];
        k[7] = y[3];
        k[11] = z[3];
        j[3] = (row) ((row64) z[3] + one);
#pragma clang loop unroll(disable)
        for (i = 0; i < 10; i++) {
            ROW_DOUBLE_ROUND(x)
            ROW_DOUBLE_ROUND(y)
            ROW_DOUBLE_ROUND(z)
        }
        k[0] = x[0] + j[0];
        k[1] = x[1] + j[1];
        k[2] = x[2] + j[2];
        k[3] += x[3];
        k[4] = y[0] + j[0];
        k[5] = y[1] + j[1];
        k[6] = y[2] + j[2];
        k[7] += y[3];
        k[8] = z[0] + j[0];
        k[9] = z[1] + j[1];
        k[10] = z[2] + j[2];
        k[11] += z[3];
        n = bytes < sizeof k ? (size_t) bytes : sizeof k;
#pragma clang loop unroll(disable)
        for (i = 0; i + 16 <= n; i += 16) {
            memcpy(&t, m + i, 16);
            t ^= k[i / 16];
            memcpy(c + i, &t, 16);
        }
#pragma clang loop unroll(disable) vectorize(disable)
        for (; i < n; i++) {
            c[i] = m[i] ^ ((const uint8_t *) k)[i];
        }
        m += n;
        c += n;
        bytes -= n;
    }
    memcpy(&ctx->input[12], &j[3], sizeof j[3]);
    sodium_memzero(k, sizeof k);
}

