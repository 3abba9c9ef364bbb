#!/usr/bin/env node
/**
 * Builds libsodium for WebAssembly into `.cache/sodium/wasm32/libsodium.a`, where `guest/sodium/build.rs` links it.
 * The result is kept by the hash of the sources, the flags and the compiler.
 */

import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFile } from "node:fs/promises";
import path from "node:path";
import process from "node:process";
import { fileURLToPath } from "node:url";

import { baseTable } from "../sodium/wasm/base-table.mjs";
import { findCompiler } from "./lib/clang.mjs";
import { cache, readIfPresent, root, sha256, writeWhole } from "./lib/files.mjs";
import { replace } from "./lib/replace.mjs";
import { during, note, run } from "./lib/report.mjs";
import { sodiumSource, TARBALL_SHA256 } from "./lib/source.mjs";

/** @typedef {{ archive: string, key: string, compiler: string, official: boolean }} SodiumBuild */

const DEFINES = [
  "_GNU_SOURCE",
  "CONFIGURED",
  "DEV_MODE",
  "HAVE_ATOMIC_OPS",
  "HAVE_C11_MEMORY_FENCES",
  "HAVE_GCC_MEMORY_FENCES",
  "HAVE_INLINE_ASM",
  "HAVE_INTTYPES_H",
  "HAVE_STDINT_H",
  "NATIVE_LITTLE_ENDIAN",
  // Lets sodium_memzero use memset behind a compiler barrier, as upstream does on Linux, in place of a volatile store for
  // each byte: sealing 64 bytes takes half the time.
  "HAVE_WEAK_SYMBOLS",
];

/**
 * Two flags that look right are left out on purpose: `-ffreestanding` makes the AEAD 3.3 times slower, because memcpy is
 * then a call, and `HAVE_TI_MODE` makes the curves 2.5 times slower, because WebAssembly has no 128-bit product.
 */
const FLAGS = [
  "--target=wasm32-unknown-unknown",
  "-fvisibility=hidden",
  "-fno-strict-aliasing",
  "-fno-strict-overflow",
  "-fwrapv",
  "-flax-vector-conversions",
  "-fno-builtin-malloc",
  "-isystem",
  "builds/wasm32-freestanding/include",
  "-Isrc/libsodium",
  "-Isrc/libsodium/include/sodium",
  ...DEFINES.map((name) => `-D${name}=1`),
];

/** How to compile what takes time; the last that fits counts. All else is compiled for size and gains nothing from more. */
const OPTIMISATION = /** @type {const} */ ([
  [/./, ["-Oz"]],
  [/poly1305_donna|crypto_aead/, ["-O3"]],
  // Vector instructions pay in these only. Of the curves `-O2` would add 3 kB to the core and a tenth to its handshakes.
  [/chacha20_ref/, ["-O2", "-msimd128"]],
  [/ed25519|curve25519|crypto_sign/, ["-Oz", "-msimd128"]],
  // `-Oz` has no loop made into vectors, and `-O2` unrolls them all, which is no faster.
  [/mlkem768_ref/, ["-Os", "-msimd128"]],
]);

/**
 * @param {string} file
 * @returns {readonly string[]}
 */
function flagsFor(file) {
  return [...FLAGS, ...(OPTIMISATION.findLast(([pattern]) => pattern.test(file))?.[1] ?? [])];
}

const HEADERS = "src/libsodium/include/sodium";
const VERSION_HEADER = "builds/msvc/version.h";
const RUNTIME = "builds/wasm32-freestanding";
/** Where our own files are. */
const OURS = "guest/sodium/wasm";
/**
 * What upstream has no file for: what stands in for the random source, what the compiler's library does slowly, and what
 * native builds have too.
 */
const ADDITIONS = ["arc4random.c", "memcmp.c", "../c/ed25519_verify.c"];
/** Computes the table of one of the replacements. */
const TABLE_MAKER = "base-table.mjs";

const CURVE = "src/libsodium/crypto_core/ed25519/ref10";
const AEAD = "src/libsodium/crypto_aead/chacha20poly1305/aead_chacha20poly1305.c";
const KECCAK = "src/libsodium/crypto_core/keccak1600/ref";

/**
 * Functions that compute the same as upstream's from fewer bytes or in less time, and the text that stands around those.
 * Native builds keep upstream's.
 *
 * @type {readonly import("./lib/replace.mjs").Replacement[]}
 */
const REPLACEMENTS = [
  {
    file: `${CURVE}/ed25519_ref10.c`,
    from: "/*\n h = a * B (with precomputation)\n",
    until: "/* multiply by the order of the main subgroup ",
    by: "scalarmult_base.c",
  },
  {
    file: "src/libsodium/include/sodium/private/ed25519_ref10_fe_25_5.h",
    from: "static void\nfe25519_sq2(",
    until: "static inline void\nfe25519_mul32(",
    by: "fe25519_sq2.c",
  },
  {
    file: `${CURVE}/ed25519_ref10.c`,
    from: "void\nfe25519_invert(",
    until: "static void\nfe25519_pow22523(",
    by: "fe25519_invert.c",
  },
  {
    file: `${CURVE}/ed25519_ref10.c`,
    from: "int\nge25519_has_small_order(",
    until: "void\nsc25519_mul(",
    by: "ge25519_has_small_order.c",
  },
  {
    file: `${CURVE}/ed25519_ref10.c`,
    from: "void\nsc25519_muladd(",
    until: "/*\n Invert s modulo l, ",
    by: "sc25519_muladd.c",
  },
  {
    file: `${CURVE}/ed25519_ref10.c`,
    from: "void\nsc25519_reduce(",
    until: "int\nsc25519_is_canonical(",
    by: "sc25519_reduce.c",
  },
  {
    file: "src/libsodium/crypto_sign/ed25519/ref10/sign.c",
    from: "void\n_crypto_sign_ed25519_ref10_hinit(",
    until: "static inline void\n_crypto_sign_ed25519_clamp(",
    by: "sign_hinit.c",
  },
  {
    file: "src/libsodium/crypto_hash/sha512/cp/hash_sha512_cp.c",
    from: "static void\nSHA512_Transform(",
    until: "static const uint8_t PAD[128] ",
    by: "sha512_transform.c",
  },
  {
    file: `${KECCAK}/keccak1600_ref.c`,
    from: "static void\nkeccakf_24_rounds(",
    until: "static void\nkeccakf_12_rounds(",
    by: "keccakf_24_rounds.c",
  },
  ...["128", "256"].map((bits) => ({
    file: `src/libsodium/crypto_xof/shake${bits}/ref/shake${bits}_ref.c`,
    from: `int\nshake${bits}_ref_update(`,
    until: `int\nshake${bits}_ref(`,
    by: "shake.c",
  })),
  {
    file: "src/libsodium/crypto_kem/mlkem768/ref/kem_mlkem768_ref.c",
    from: "static void\npoly_basemul(",
    until: "static void\npoly_tomont(",
    by: "poly_basemul.c",
  },
  {
    file: "src/libsodium/crypto_stream/chacha20/ref/chacha20_ref.c",
    from: "static void\nchacha20_encrypt_bytes(",
    until: "static int\nstream_ref(",
    by: "chacha20_encrypt_bytes.c",
  },
  {
    file: AEAD,
    from: "int\ncrypto_aead_chacha20poly1305_ietf_encrypt_detached(",
    until: "int\ncrypto_aead_chacha20poly1305_ietf_encrypt(",
    by: "aead_encrypt.c",
  },
  {
    file: AEAD,
    from: "int\ncrypto_aead_chacha20poly1305_ietf_decrypt_detached(",
    until: "int\ncrypto_aead_chacha20poly1305_ietf_decrypt(",
    by: "aead_decrypt.c",
  },
];

/**
 * @param {Map<string, Uint8Array>} files
 * @param {string} name
 * @returns {string}
 */
function textOf(files, name) {
  const data = files.get(name);
  if (data === undefined) {
    throw new Error(`there is no ${name}`);
  }
  return Buffer.from(data).toString("latin1");
}

/** @returns {Promise<Map<string, Uint8Array>>} our own files by their names */
async function readOurs() {
  const names = [...ADDITIONS, TABLE_MAKER, ...REPLACEMENTS.map(({ by }) => by)];
  return new Map(
    await Promise.all(
      names.map(async (name) => /** @type {const} */ ([name, await readFile(path.join(root, OURS, name))])),
    ),
  );
}

/**
 * Chooses what to compile, adds the version header that upstream's configure script would write, rewrites
 * `#include "../x.h"`, which the packaged compiler's file system cannot resolve, to a path from the source root, and puts
 * our functions in place of upstream's.
 *
 * @param {Map<string, Uint8Array>} release
 * @param {Map<string, Uint8Array>} ours
 * @returns {Map<string, Uint8Array>}
 */
function prepare(release, ours) {
  /** @type {Map<string, Uint8Array>} */
  const sources = new Map();
  for (const [name, data] of release) {
    const wanted = name.startsWith("src/libsodium/") || name.startsWith(`${RUNTIME}/`);
    if (wanted && /\.[ch]$/.test(name)) {
      const folder = path.posix.dirname(path.posix.dirname(name)).replace(/^src\/libsodium\//, "");
      const text = Buffer.from(data).toString("latin1");
      sources.set(name, Buffer.from(text.replaceAll('#include "../', `#include "${folder}/`), "latin1"));
    }
  }
  const version = release.get(VERSION_HEADER);
  if (version === undefined) {
    throw new Error(`libsodium's release holds no ${VERSION_HEADER}`);
  }
  sources.set(`${HEADERS}/version.h`, version);
  for (const replacement of REPLACEMENTS) {
    const { file, by } = replacement;
    sources.set(file, Buffer.from(replace(textOf(sources, file), replacement, textOf(ours, by)), "latin1"));
  }
  sources.set(`${CURVE}/base-table.h`, Buffer.from(baseTable()));
  for (const name of ADDITIONS) {
    sources.set(path.posix.join(OURS, name), Buffer.from(textOf(ours, name), "latin1"));
  }
  return sources;
}

/**
 * @param {string} key
 * @returns {Promise<{ archive: Buffer, record: SodiumBuild } | undefined>} an earlier result, if it is whole
 */
async function recall(key) {
  const archive = await readIfPresent(path.join(cache, "sodium", key, "libsodium.a"));
  const record = await readIfPresent(path.join(cache, "sodium", key, "libsodium.json"));
  if (archive === undefined || record === undefined) {
    return undefined;
  }
  const known = JSON.parse(record.toString("utf8"));
  return known.sha256 === sha256(archive) ? { archive, record: known } : undefined;
}

/**
 * How often a process begins to compile. Now and then V8 ends one when it frees the code of a module of WebAssembly, as the compiler
 * is (nodejs/node#64500).
 */
const TRIES = 3;

/** @typedef {Awaited<ReturnType<typeof plan>>} Plan */

/** What is to be built, and the key by which it is kept. */
async function plan() {
  const compiler = await findCompiler();
  const ours = await readOurs();
  const recipe = JSON.stringify([
    TARBALL_SHA256,
    [...ours].map(([name, data]) => [name, sha256(data)]),
    REPLACEMENTS,
    compiler.name,
    FLAGS,
    OPTIMISATION.map(([pattern, flags]) => [pattern.source, flags]),
  ]);
  return { compiler, ours, key: sha256(recipe).slice(0, 32) };
}

/**
 * Builds the archive unless it is there already, in a process of its own.
 *
 * @returns {Promise<SodiumBuild>}
 */
export async function buildSodium() {
  const planned = await plan();
  for (let left = TRIES; left > 0 && (await recall(planned.key)) === undefined; left--) {
    const child = spawn(process.execPath, [fileURLToPath(import.meta.url)], {
      stdio: ["ignore", "ignore", "inherit"],
    });
    const [, signal] = await once(child, "exit");
    if (signal === null) break;
  }
  return build(planned);
}

/**
 * Builds the archive unless it is there already.
 *
 * @param {Plan} plan
 * @returns {Promise<SodiumBuild>}
 */
async function build({ compiler, ours, key }) {
  const place = path.join(cache, "sodium/wasm32/libsodium.a");
  const known = await recall(key);
  let archive = known?.archive;
  if (archive === undefined) {
    const title = "compile libsodium for WebAssembly (once, about a minute)";
    const fresh = await during(
      title,
      async (progress) => {
        const sources = prepare(await sodiumSource(), ours);
        const files = [...sources.keys()].filter((name) => name.endsWith(".c")).sort();
        const units = files.map((file) => ({
          file,
          flags: flagsFor(file),
        }));
        return compiler.archive(sources, units, (count) =>
          progress.update(`${count} of ${units.length} files`),
        );
      },
      (built) => `${Math.round(built.length / 1024)} KiB, ${compiler.name}`,
    );
    archive = Buffer.from(fresh);
    const record = { key, compiler: compiler.name, official: compiler.official, sha256: sha256(archive) };
    await writeWhole(path.join(cache, "sodium", key, "libsodium.a"), archive);
    await writeWhole(
      path.join(cache, "sodium", key, "libsodium.json"),
      `${JSON.stringify(record, null, 2)}\n`,
    );
  }
  // Written only when it differs: cargo relinks whatever depends on a file that looks newer.
  const current = await readIfPresent(place);
  if (current === undefined || !current.equals(archive)) {
    await writeWhole(place, archive);
  }
  return { archive: place, key, compiler: compiler.name, official: compiler.official };
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  await run(async () => {
    const built = await build(await plan());
    note(`${built.archive} (${built.compiler}${built.official ? "" : ", unofficial"})`);
  });
}
