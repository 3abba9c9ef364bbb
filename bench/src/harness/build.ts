import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFile } from "node:fs/promises";
import path from "node:path";
import process from "node:process";
import { fileURLToPath } from "node:url";

import { optimise } from "../../../guest/build/core.mjs";
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

/** Builds a binary of the peers and returns its path. */
async function cargo(name: string, profile: string): Promise<string> {
  progress(`building ${name} (the first time takes minutes)`);
  const args = ["build", "--locked", "--manifest-path", manifest, "--profile", profile, "-p", name];
  const child = spawn("cargo", args, { cwd: root, stdio: ["ignore", "inherit", "inherit"] });
  const [code] = await once(child, "close").catch((error: Error) => {
    throw new Problem(`cargo does not start (${error.message}): install Rust through rustup`);
  });
  if (code !== 0) throw new Problem(`cargo ${args.join(" ")} ended with code ${code}`);
  const target = process.env.CARGO_TARGET_DIR ?? path.join(path.dirname(manifest), "target");
  const suffix = process.platform === "win32" ? ".exe" : "";
  return path.resolve(root, target, profile, `${name}${suffix}`);
}

/** The core as native code, snow and rustls. */
export function buildNative(): Promise<string> {
  return cargo("bench-native", "release");
}

/** The core in wasmtime. */
export function buildEmbedded(): Promise<string> {
  return cargo("bench-embedded", "embedding");
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
