#!/usr/bin/env node
/**
 * Builds libsodium for WebAssembly into `.cache/sodium/wasm32/libsodium.a`, where `guest/sodium/build.rs` links it.
 * The result is kept by the hash of the sources, the flags and the compiler.
 */

import { readFile } from "node:fs/promises";
import path from "node:path";
import process from "node:process";
import { fileURLToPath } from "node:url";

import { baseTable } from "../sodium/wasm/base-table.mjs";
import { findCompiler } from "./lib/clang.mjs";
import { cache, readIfPresent, root, sha256, writeWhole } from "./lib/files.mjs";
import { during, note, run } from "./lib/report.mjs";
import { sodiumSource, TARBALL_SHA256 } from "./lib/source.mjs";

/** @typedef {{ randomSource: Uint8Array, multiplication: Uint8Array, table: Uint8Array }} Ours the files that are ours */
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
  "-O3",
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

/** Vector instructions pay here only; everywhere they would make the rest slower. */
const SIMD_FILES = /ed25519|curve25519|crypto_sign/;

const HEADERS = "src/libsodium/include/sodium";
const VERSION_HEADER = "builds/msvc/version.h";
const RUNTIME = "builds/wasm32-freestanding";
/** What stands in for the random source. */
const RANDOM_SOURCE = "guest/sodium/wasm/arc4random.c";
/** What takes the place of upstream's multiplication of Ed25519's base point, and of its table of 30 KB. */
const BASE_MULTIPLICATION = "guest/sodium/wasm/scalarmult_base.c";
const BASE_TABLE = "guest/sodium/wasm/base-table.mjs";

const CURVE = "src/libsodium/crypto_core/ed25519/ref10";

/**
 * @param {string} text
 * @param {string} mark
 * @returns {[string, string]} what stands before and after the only place that reads like the mark
 */
function splitOnce(text, mark) {
  const [before, after, ...more] = text.split(mark);
  if (before === undefined || after === undefined || more.length > 0) {
    throw new Error(`libsodium's source must hold this exactly once: ${mark}`);
  }
  return [before, after];
}

/**
 * Replaces the multiplication of Ed25519's base point: the one change to how something is computed.
 *
 * @param {Map<string, Uint8Array>} sources
 * @param {Uint8Array} multiplication
 */
function replaceBaseMultiplication(sources, multiplication) {
  const file = `${CURVE}/ed25519_ref10.c`;
  const text = Buffer.from(sources.get(file) ?? []).toString("latin1");
  const following = "/* multiply by the order of the main subgroup ";
  const [before, rest] = splitOnce(text, "/*\n h = a * B (with precomputation)\n");
  const [, after] = splitOnce(rest, following);
  const [head, tail] = splitOnce(before, "base[32][8] = { /* base[i][j] = (j+1)*256^i*B */");
  const changed = `${head}base[4][8] = {${tail}${Buffer.from(multiplication).toString("latin1")}${following}${after}`;
  sources.set(file, Buffer.from(changed, "latin1"));
  sources.set(`${CURVE}/fe_25_5/base.h`, Buffer.from(baseTable()));
}

/**
 * Chooses what to compile, adds the version header that upstream's configure script would write, and rewrites
 * `#include "../x.h"`, which the packaged compiler's file system cannot resolve, to a path from the source root.
 *
 * @param {Map<string, Uint8Array>} release
 * @param {Ours} ours
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
  sources.set(RANDOM_SOURCE, ours.randomSource);
  replaceBaseMultiplication(sources, ours.multiplication);
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
 * Builds the archive unless it is there already.
 *
 * @returns {Promise<SodiumBuild>}
 */
export async function buildSodium() {
  const compiler = await findCompiler();
  const ours = {
    randomSource: await readFile(path.join(root, RANDOM_SOURCE)),
    multiplication: await readFile(path.join(root, BASE_MULTIPLICATION)),
    table: await readFile(path.join(root, BASE_TABLE)),
  };
  const recipe = JSON.stringify([
    TARBALL_SHA256,
    Object.values(ours).map(sha256),
    compiler.name,
    FLAGS,
    SIMD_FILES.source,
  ]);
  const key = sha256(recipe).slice(0, 32);
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
          flags: SIMD_FILES.test(file) ? [...FLAGS, "-msimd128"] : FLAGS,
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
    const built = await buildSodium();
    note(`${built.archive} (${built.compiler}${built.official ? "" : ", unofficial"})`);
  });
}
