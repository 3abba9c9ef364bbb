/** Checks of the WebAssembly modules. */

import {
  buildAdmission,
  buildCapsule,
  buildClosedCore,
  buildCore,
  buildRpc,
} from "../../guest/build/core.mjs";
import { must } from "../../guest/build/lib/command.mjs";
import { root } from "../../guest/build/lib/files.mjs";
import { boundary, readModule } from "../../guest/build/lib/wasm.mjs";

/** @typedef {import("../lib/check.mjs").Check} Check */
/** @typedef {import("../lib/check.mjs").Finding} Finding */

/** @typedef {{ file: string, build: () => Promise<import("../../guest/build/core.mjs").CoreBuild>, maxGzipBytes: number }} Module */

/** @type {Module} What every page downloads, with routed messages; the bar is for its size compressed with gzip. */
const CORE = { file: "core.wasm", build: buildCore, maxGzipBytes: 122_000 };
/** @type {Module} What the nodes of closed networks download in its place; groups and evidence take 12,000 bytes of it, admission 7,000. */
const CLOSED_CORE = { file: "core-closed.wasm", build: buildClosedCore, maxGzipBytes: 142_000 };
/** @type {Module} What those download besides who hold or use capsules. */
const CAPSULE = { file: "capsule.wasm", build: buildCapsule, maxGzipBytes: 320_000 };
/** @type {Module} What an isolate loads that only calls or answers by RPC. */
const RPC = { file: "rpc.wasm", build: buildRpc, maxGzipBytes: 30_000 };
/** @type {Module} What those download who are in closed networks. */
const ADMISSION = { file: "admission.wasm", build: buildAdmission, maxGzipBytes: 65_000 };
/** The whole boundary of each. */
const EXPORTS = ["abi_version", "alloc", "create", "derive", "destroy", "free", "memory", "step", "verify"];

/**
 * @param {Module} module
 * @returns {Promise<Finding>}
 */
async function exact({ file, build }) {
  await build();
  const { imports, exports } = boundary(await readModule(`${root}/runtime/core/${file}`));
  const problems = imports.map((name) => `${file} imports ${name}; it must import nothing`);
  problems.push(
    ...exports
      .filter((name) => !EXPORTS.includes(name))
      .map((name) => `${file} exports ${name}, which is not in the boundary`),
    ...EXPORTS.filter((name) => !exports.includes(name)).map((name) => `${file} does not export ${name}`),
  );
  return { problems, note: `imports [], ${exports.length} exports` };
}

/**
 * @param {Module} module
 * @returns {Promise<Finding>}
 */
async function size({ file, build, maxGzipBytes }) {
  const { gzipBytes } = await build();
  const problems =
    gzipBytes > maxGzipBytes ? [`${file} has ${gzipBytes} bytes gzipped, over ${maxGzipBytes}`] : [];
  return { problems, note: `${gzipBytes} bytes; the bar is ${maxGzipBytes}` };
}

/** Kinds of `derive` and `verify`. */
const GRANT = { derive: 3, verify: 1 };
/** Set in the version of the boundary of a core without cryptography. */
const INSECURE_BIT = 0x8000_0000;
/** After the last time that a grant can tell. */
const FOREVER = 0xffff_ffff_ffff_ffffn;

/**
 * What ships does cryptography: the core says so and refuses a changed signature, the command is built without the feature
 * that lets a host take another one, and so is everything in the workspace.
 *
 * @returns {Promise<Finding>}
 */
async function secure() {
  await buildCore();
  const { exports } = new WebAssembly.Instance(
    new WebAssembly.Module(await readModule(`${root}/runtime/core/core.wasm`)),
  );
  const problems = [];
  const { abi_version: version } = /** @type {any} */ (exports);
  if ((version() & INSECURE_BIT) !== 0) {
    problems.push("core.wasm says that it is a build without cryptography");
  }
  const ask = asker(exports);
  const network = text("check");
  const grant = ask("derive", [
    [GRANT.derive, ...new Uint8Array(32)],
    network,
    text("name"),
    new Uint8Array(32),
    u64(0n),
    u64(FOREVER),
    text(""),
  ]);
  const verify = (/** @type {Uint8Array} */ bytes) =>
    ask("verify", [[GRANT.verify], u32(bytes.length), bytes, network, u64(0n)]);
  if (grant === undefined || verify(grant) === undefined) {
    problems.push("core.wasm does not verify a grant that it has signed");
  } else {
    const forged = grant.with(-1, grant.at(-1) === 0 ? 1 : 0);
    if (verify(forged) !== undefined) problems.push("core.wasm takes a grant whose signature was changed");
  }
  const tree = await must("cargo", ["tree", "--workspace", "--locked", "-e", "features", "-f", "{p} {f}"], {
    cwd: root,
  });
  const named = tree.split("\n").filter((line) => /\b(insecure|large-table)\b/.test(line));
  problems.push(...named.map((line) => `built with a feature for benchmarks: ${line.trim()}`));
  return { problems, note: "signatures are verified, no crate is built with a feature for benchmarks" };
}

/**
 * @param {WebAssembly.Exports} exports
 * @returns {(family: "derive" | "verify", parts: readonly Iterable<number>[]) => Uint8Array | undefined} the answer, unless
 *   it is a refusal
 */
function asker(exports) {
  const { alloc, derive, verify, memory } = /** @type {any} */ (exports);
  return (family, parts) => {
    const request = Uint8Array.from(parts.flatMap((part) => [...part]));
    const at = alloc(request.length);
    new Uint8Array(memory.buffer).set(request, at);
    const header = { derive, verify }[family](at, request.length);
    const view = new DataView(memory.buffer);
    const answer = new Uint8Array(
      memory.buffer,
      view.getUint32(header, true),
      view.getUint32(header + 4, true),
    );
    return answer[0] === 0 && answer[1] === 0 ? answer.slice(2) : undefined;
  };
}

/** @param {number} value */
const u32 = (value) => new Uint8Array(Uint32Array.of(value).buffer);
/** @param {bigint} value */
const u64 = (value) => new Uint8Array(BigUint64Array.of(value).buffer);
/** @param {string} value */
const text = (value) => [...u32(value.length), ...new TextEncoder().encode(value)];

/** @type {readonly Check[]} */
export const core = [
  {
    name: "core-boundary",
    what: "core.wasm imports nothing and exports the boundary",
    run: () => exact(CORE),
  },
  { name: "core-secure", what: "what ships does cryptography", run: secure },
  { name: "core-size", what: "size of core.wasm gzipped", run: () => size(CORE) },
  {
    name: "core-closed-boundary",
    what: "core-closed.wasm imports nothing and exports the boundary",
    run: () => exact(CLOSED_CORE),
  },
  { name: "core-closed-size", what: "size of core-closed.wasm gzipped", run: () => size(CLOSED_CORE) },
  {
    name: "capsule-boundary",
    what: "capsule.wasm imports nothing and exports the boundary",
    run: () => exact(CAPSULE),
  },
  { name: "capsule-size", what: "size of capsule.wasm gzipped", run: () => size(CAPSULE) },
  {
    name: "rpc-boundary",
    what: "rpc.wasm imports nothing and exports the boundary",
    run: () => exact(RPC),
  },
  { name: "rpc-size", what: "size of rpc.wasm gzipped", run: () => size(RPC) },
  {
    name: "admission-boundary",
    what: "admission.wasm imports nothing and exports the boundary",
    run: () => exact(ADMISSION),
  },
  { name: "admission-size", what: "size of admission.wasm gzipped", run: () => size(ADMISSION) },
];
