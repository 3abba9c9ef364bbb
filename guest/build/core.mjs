#!/usr/bin/env node
/**
 * Builds the core, the capsules, the RPC and admission: Rust and libsodium to WebAssembly modules without imports, `core.wasm`,
 * `core-closed.wasm`, `capsule.wasm`, `rpc.wasm` and `admission.wasm` in `runtime/core`, and beside each its hash and sizes. Nothing is done when no input changed.
 */

import path from "node:path";
import process from "node:process";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";

import { attempt } from "./lib/command.mjs";
import { foldersOfCrate } from "./lib/crates.mjs";
import { hashFiles, listFiles, readIfPresent, root, sha256, writeWhole } from "./lib/files.mjs";
import { during, note, Problem, run } from "./lib/report.mjs";
import { boundary, cargoWasm, readModule, rustVersion, SMALLEST, TARGET } from "./lib/wasm.mjs";
import { buildSodium } from "./sodium.mjs";

/**
 * @typedef {object} CoreBuild
 * @property {string} sha256
 * @property {boolean} official made by the pinned compilers, so that anybody can make the same bytes
 * @property {number} bytes
 * @property {number} gzipBytes
 * @property {string} inputs the hash of everything it was made from
 */

/**
 * @typedef {object} Variant
 * @property {string} place
 * @property {string} record
 * @property {readonly string[]} selection cargo's arguments that choose what to build
 * @property {string} crate what is built, with the crates of this repository that it uses
 * @property {number} version what its `abi_version` says
 */

/** The crates that become the modules. */
const CORE_CRATE = "selfsame-wasm";
const CAPSULE_CRATE = "selfsame-capsule-wasm";
const RPC_CRATE = "selfsame-rpc-wasm";
const ADMISSION_CRATE = "selfsame-admission-wasm";
/** Versions of their boundaries. */
const CORE_VERSION = 3;
const CAPSULE_VERSION = 0x0001_0001;
const RPC_VERSION = 0x0002_0002;
const ADMISSION_VERSION = 0x0003_0001;
/** Set in the version of the boundary of a core without cryptography. */
const INSECURE_BIT = 0x8000_0000;

/** What every node loads. */
const CORE = shipped("core", CORE_CRATE, CORE_VERSION);
/** What the nodes of closed networks load in its place. */
const CLOSED_CORE = shipped("core-closed", CORE_CRATE, CORE_VERSION, ["closed"]);
/** What a node with capsules loads besides. */
const CAPSULE = shipped("capsule", CAPSULE_CRATE, CAPSULE_VERSION);
/** What a node loads that calls or serves by RPC. */
const RPC = shipped("rpc", RPC_CRATE, RPC_VERSION);
/** What a node loads that is in a closed network. */
const ADMISSION = shipped("admission", ADMISSION_CRATE, ADMISSION_VERSION);

/**
 * @type {Variant}
 *
 * The same code with room for millions of associations, which benchmarks fill. It and the next one lie and are compiled
 * where nothing that is shipped is taken from.
 */
const LARGE = variant("large", ["large-table"], CORE_VERSION);

/**
 * @type {Variant}
 *
 * That code with cryptography that does nothing, to tell what cryptography costs. The version of its boundary is one that
 * no host takes.
 */
const INSECURE = variant("insecure", ["large-table", "insecure"], CORE_VERSION + INSECURE_BIT);

/**
 * @param {string} name
 * @param {string} crate
 * @param {number} version
 * @param {readonly string[]} [features]
 * @returns {Variant} a module that the package holds
 */
function shipped(name, crate, version, features = []) {
  const place = path.join(root, "runtime/core", name);
  return {
    place: `${place}.wasm`,
    record: `${place}.json`,
    selection: ["--package", crate, ...features.flatMap((feature) => ["--features", feature])],
    crate,
    version,
  };
}

/**
 * @param {string} name
 * @param {readonly string[]} features
 * @param {number} version
 * @returns {Variant} a build for benchmarks
 */
function variant(name, features, version) {
  return {
    place: path.join(root, ".cache", name, "core.wasm"),
    record: path.join(root, ".cache", name, "core.json"),
    selection: [
      "--package",
      CORE_CRATE,
      "--features",
      features.join(","),
      "--target-dir",
      path.join(root, "target/bench"),
    ],
    crate: CORE_CRATE,
    version,
  };
}

/** All that a host may call; anything else stays inside. */
const EXPORTS = ["abi_version", "alloc", "create", "derive", "destroy", "free", "memory", "step", "verify"];
/** What the linker exports unasked and no host needs. */
const LINKER_EXPORTS = ["__data_end", "__heap_base"];

/**
 * The features that Rust 1.95 and the C compiler use, since the optimiser may use no other; then what makes the module fast
 * and small. A large function with one caller stays out of it, so that engines compile it when it is needed. The lowest
 * kilobyte of the memory is the end of the stack: a stack that reaches it traps there and not a little later, so offsets may
 * be folded into accesses; that happens in the second pass, over the code of the first. No access promises an alignment,
 * which no engine uses.
 */
const OPTIMISER_FLAGS = [
  "--enable-bulk-memory",
  "--enable-multivalue",
  "--enable-mutable-globals",
  "--enable-nontrapping-float-to-int",
  "--enable-reference-types",
  "--enable-sign-ext",
  "--enable-simd",
  "--one-caller-inline-max-function-size=50",
  "--low-memory-unused",
  "-O3",
  "-O3",
  "--dealign",
  "--strip-debug",
  "--strip-producers",
  "--strip-target-features",
];

/**
 * @param {string} sodiumKey
 * @param {Variant} variant
 * @returns {Promise<string>} one hash over everything that decides the bytes of the module
 */
async function inputsHash(sodiumKey, { crate }) {
  const files = ["Cargo.toml", "Cargo.lock", "rust-toolchain.toml"].map((name) => path.join(root, name));
  for (const folder of await foldersOfCrate(crate, TARGET)) {
    files.push(...(await listFiles(folder, isSource, ["tests", "target", "benches"])));
  }
  files.push(...(await listFiles(path.join(root, "guest/build"), (name) => name.endsWith(".mjs"))));
  const optimiser = await readIfPresent(path.join(root, "node_modules/binaryen/package.json"));
  if (optimiser === undefined) {
    throw new Problem("the WebAssembly optimiser is not installed; run: npm install");
  }
  const { version } = JSON.parse(optimiser.toString("utf8"));
  const parts = [await hashFiles(files), sodiumKey, version, await rustVersion(), OPTIMISER_FLAGS];
  return sha256(JSON.stringify(parts));
}

/** @param {string} name */
function isSource(name) {
  return /\.(rs|toml|c)$/.test(name);
}

/**
 * @param {string} inputs
 * @param {Variant} variant
 * @returns {Promise<CoreBuild | undefined>} the build that is already there, if it was made from these inputs
 */
async function recall(inputs, { place, record: recordPlace }) {
  const module = await readIfPresent(place);
  const record = await readIfPresent(recordPlace);
  if (module === undefined || record === undefined) {
    return undefined;
  }
  /** @type {CoreBuild} */
  const known = JSON.parse(record.toString("utf8"));
  return known.inputs === inputs && known.sha256 === sha256(module) ? known : undefined;
}

/**
 * What the linker made as it is shipped; the benchmarks treat what they compare the core with alike.
 *
 * @param {string} file
 * @returns {Promise<string>} the file with the result
 */
export async function optimise(file) {
  const output = `${file}.optimised`;
  const tool = path.join(root, "node_modules/binaryen/bin/wasm-opt");
  // First the exports, so that what only they kept alive goes too.
  const removed = LINKER_EXPORTS.map((name) => `--remove-exports=${name}`);
  const args = [tool, file, ...removed, ...OPTIMISER_FLAGS, "-o", output];
  const result = await attempt(process.execPath, args);
  if (result === undefined || result.code !== 0) {
    throw new Problem(`wasm-opt failed\n${result?.stderr ?? ""}${result?.stdout ?? ""}`.trimEnd());
  }
  return output;
}

/**
 * Refuses a module that needs something from outside or offers more or less than the boundary.
 *
 * @param {Uint8Array<ArrayBuffer>} bytes
 */
function checkBoundary(bytes) {
  const found = boundary(bytes);
  if (found.imports.length > 0) {
    throw new Problem(`the module must import nothing, but it imports ${found.imports.join(", ")}`);
  }
  const extra = found.exports.filter((name) => !EXPORTS.includes(name));
  const missing = EXPORTS.filter((name) => !found.exports.includes(name));
  if (extra.length > 0 || missing.length > 0) {
    const parts = [
      ...(missing.length > 0 ? [`does not export ${missing.join(", ")}`] : []),
      ...(extra.length > 0 ? [`exports ${extra.join(", ")}, which is not in the boundary`] : []),
    ];
    throw new Problem(`the module ${parts.join(" and ")}`);
  }
}

/**
 * Refuses a module that speaks another boundary than the variant, such as one without cryptography.
 *
 * @param {Uint8Array<ArrayBuffer>} bytes
 * @param {Variant} variant
 */
function checkVariant(bytes, { version: wanted }) {
  const { abi_version: version } = new WebAssembly.Instance(new WebAssembly.Module(bytes), {}).exports;
  const found = typeof version === "function" ? version() >>> 0 : undefined;
  if (found !== wanted) {
    throw new Problem(`the module has boundary ${found} in place of ${wanted}: clean the build folders`);
  }
}

/**
 * Builds the core unless it is up to date.
 *
 * @returns {Promise<CoreBuild>}
 */
export function buildCore() {
  return buildVariant(CORE);
}

/**
 * Builds the core for closed networks unless it is up to date.
 *
 * @returns {Promise<CoreBuild>}
 */
export function buildClosedCore() {
  return buildVariant(CLOSED_CORE);
}

/**
 * Builds the capsules' module unless it is up to date.
 *
 * @returns {Promise<CoreBuild>}
 */
export function buildCapsule() {
  return buildVariant(CAPSULE);
}

/**
 * Builds the module of the RPC unless it is up to date.
 *
 * @returns {Promise<CoreBuild>}
 */
export function buildRpc() {
  return buildVariant(RPC);
}

/**
 * Builds the module of admission unless it is up to date.
 *
 * @returns {Promise<CoreBuild>}
 */
export function buildAdmission() {
  return buildVariant(ADMISSION);
}

/**
 * Builds all modules that ship, unless they are up to date.
 *
 * @returns {Promise<{ variant: Variant, build: CoreBuild }[]>}
 */
export async function buildModules() {
  const builds = [];
  for (const variant of [CORE, CLOSED_CORE, CAPSULE, RPC, ADMISSION])
    builds.push({ variant, build: await buildVariant(variant) });
  return builds;
}

/**
 * Builds the cores for benchmarks, unless they are up to date: with room for millions of associations, with and without
 * cryptography.
 *
 * @returns {Promise<{ large: string, insecure: string }>} their files
 */
export async function buildBenchCores() {
  await buildVariant(LARGE);
  await buildVariant(INSECURE);
  return { large: LARGE.place, insecure: INSECURE.place };
}

/**
 * @param {Variant} variant
 * @returns {Promise<CoreBuild>}
 */
async function buildVariant(variant) {
  const sodium = await buildSodium();
  const inputs = await inputsHash(sodium.key, variant);
  const known = await recall(inputs, variant);
  if (known !== undefined) {
    return known;
  }
  // Cargo shows its own progress.
  note(`> compile ${path.relative(root, variant.place)}`);
  const file = await cargoWasm(variant.selection, SMALLEST);
  return during(
    `optimise ${path.basename(variant.place)}`,
    async () => {
      const bytes = await readModule(await optimise(file));
      checkBoundary(bytes);
      checkVariant(bytes, variant);
      const build = {
        sha256: sha256(bytes),
        official: sodium.official,
        bytes: bytes.length,
        gzipBytes: gzipSync(bytes, { level: 9 }).length,
        inputs,
      };
      await writeWhole(variant.place, bytes);
      await writeWhole(variant.record, `${JSON.stringify(build, null, 2)}\n`);
      return build;
    },
    (build) => describe(build),
  );
}

/** @param {CoreBuild} build */
function describe(build) {
  const sizes = `${build.bytes} bytes, ${build.gzipBytes} gzipped`;
  return `${sizes}, sha256 ${build.sha256}${build.official ? "" : ", unofficial"}`;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  await run(async () => {
    for (const { variant, build } of await buildModules()) {
      note(`${path.relative(root, variant.place)} for ${TARGET}: ${describe(build)}`);
    }
  });
}
