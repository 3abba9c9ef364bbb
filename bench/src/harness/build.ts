import { spawn } from "node:child_process";
import { once } from "node:events";
import { access, readFile } from "node:fs/promises";
import path from "node:path";
import process from "node:process";
import { fileURLToPath } from "node:url";

import { buildBenchCores, optimise } from "../../../guest/build/core.mjs";
import { boundary, cargoWasm } from "../../../guest/build/lib/wasm.mjs";
import { Problem } from "./problem.ts";
import { progress } from "./progress.ts";

const root = path.resolve(path.dirname(fileURLToPath(import.meta.url)), "../../..");
const manifest = path.join(root, "bench/peers/Cargo.toml");

/** The core as it is shipped. */
export const CORE = path.join(root, "runtime/core/core.wasm");

/** A file of the bench's own sources. */
export function source(name: string): string {
  return path.join(root, "bench/src", name);
}

/** Reads the core, or says how to build it. */
export async function readCore(): Promise<Uint8Array<ArrayBuffer>> {
  try {
    return new Uint8Array(await readFile(CORE));
  } catch {
    throw new Problem("runtime/core/core.wasm is not built: run `npm run build` first");
  }
}

/** Looks whether the npm package is built, or says how to build it. */
export async function builtPackage(): Promise<void> {
  const files = ["runtime/core/capsule.wasm", "runtime/dist/entries/capsule-node.js"];
  for (const file of files) {
    const isThere = await access(path.join(root, file)).then(
      () => true,
      () => false,
    );
    if (!isThere) throw new Problem(`${file} is not built: run \`npm run build\` first`);
  }
}

/** Builds binaries of the peers, at once so that they share what they need, and returns their paths. */
async function cargo(names: readonly string[], profile: string): Promise<string[]> {
  progress(`building ${names.join(" and ")} (the first time takes minutes)`);
  const packages = names.flatMap((name) => ["-p", name]);
  await compile(["--manifest-path", manifest, "--profile", profile, ...packages]);
  const target = process.env.CARGO_TARGET_DIR ?? path.join(path.dirname(manifest), "target");
  return names.map((name) => binary(target, profile, name));
}

/** The file of a binary in a folder of what was compiled. */
function binary(target: string, profile: string, name: string): string {
  const suffix = process.platform === "win32" ? ".exe" : "";
  return path.resolve(root, target, profile, `${name}${suffix}`);
}

async function compile(selection: readonly string[]): Promise<void> {
  const args = ["build", "--locked", ...selection];
  const child = spawn("cargo", args, { cwd: root, stdio: ["ignore", "inherit", "inherit"] });
  const [code] = await once(child, "close").catch((error: Error) => {
    throw new Problem(`cargo does not start (${error.message}): install Rust through rustup`);
  });
  if (code !== 0) throw new Problem(`cargo ${args.join(" ")} ended with code ${code}`);
}

/** The command `selfsame` as it is shipped. */
export async function buildCommand(): Promise<string> {
  progress("building selfsame (the first time takes minutes)");
  await compile(["--release", "--package", "selfsame-host"]);
  return binary(process.env.CARGO_TARGET_DIR ?? path.join(root, "target"), "release", "selfsame");
}

/** The core as native code, snow and rustls. */
export async function buildNative(): Promise<string> {
  const [native = ""] = await cargo(["bench-native"], "release");
  return native;
}

/** Nodes of selfsame and of rust-libp2p's Kademlia, each kind in a process. */
export async function buildNetworks(): Promise<{ mesh: string; kad: string }> {
  const [mesh = "", kad = ""] = await cargo(["bench-mesh", "bench-kad"], "embedding");
  return { mesh, kad };
}

/** Rings that route messages, and two peers that ping each other. */
export async function buildChord(): Promise<string> {
  const [chord = ""] = await cargo(["bench-chord"], "embedding");
  return chord;
}

/** Two replicas of a capsule and what finds out in what they differ. */
export async function buildConverge(): Promise<string> {
  const [converge = ""] = await cargo(["bench-converge"], "release");
  return converge;
}

/** YCSB on RocksDB and on capsules: a program, and the module of primitives that it compares with. */
export interface Ycsb {
  readonly binary: string;
  readonly primitives: string;
}

/** YCSB on RocksDB and on capsules. */
export async function buildYcsb(): Promise<Ycsb> {
  const primitives = await buildPrimitives();
  const [binary = ""] = await cargo(["bench-ycsb"], "embedding");
  return { binary, primitives };
}

/** The encrypted RPC and what it is compared with: a program, and the module of primitives that it is made of. */
export interface RpcFiles {
  readonly binary: string;
  readonly primitives: string;
}

/** The encrypted RPC and what it is compared with. */
export async function buildRpc(): Promise<RpcFiles> {
  const primitives = await buildPrimitives();
  const [binary = ""] = await cargo(["bench-rpc"], "embedding");
  return { binary, primitives };
}

/** The cores with room for millions of associations, with and without cryptography. */
export function buildCores(): Promise<{ large: string; insecure: string }> {
  progress("building the cores that are compared");
  return buildBenchCores();
}

/** The core in wasmtime. */
export async function buildEmbedded(): Promise<string> {
  const [embedded = ""] = await cargo(["bench-embedded"], "embedding");
  return embedded;
}

/** The primitives as a module of their own, from the same archive and with the same flags and optimiser as the core. */
export async function buildPrimitives(): Promise<string> {
  progress("building the primitives");
  const built = await cargoWasm(["--manifest-path", manifest, "-p", "bench-primitives"]);
  const optimised = await optimise(built);
  const { imports } = boundary(new Uint8Array(await readFile(optimised)));
  if (imports.length > 0) throw new Problem(`the primitives import ${imports.join(", ")}`);
  return optimised;
}
