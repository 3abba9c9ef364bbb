/** Compiles a crate of the workspace to WebAssembly and looks at what came out. */

import { spawn } from "node:child_process";
import { readdir, readFile } from "node:fs/promises";
import { homedir } from "node:os";
import path from "node:path";
import process from "node:process";
import { createInterface } from "node:readline";

import { blake3Source } from "./blake3.mjs";
import { must } from "./command.mjs";
import { root } from "./files.mjs";
import { Problem } from "./report.mjs";

export const TARGET = "wasm32-unknown-unknown";

/**
 * @typedef {object} Recipe
 * @property {readonly string[]} args more arguments for cargo
 * @property {readonly string[]} flags more flags for the compiler
 * @property {Readonly<Record<string, string>>} env
 */

/** @type {Recipe} With the standard library as rustup brings it. */
export const ORDINARY = { args: [], flags: [], env: {} };

/**
 * @type {Recipe}
 *
 * Without `std`, and with `core` and `alloc` compiled like the program: a panic is one instruction, and nothing keeps
 * the words for it. This is a 25th of the download. Rust calls these options unstable because later compilers may
 * change them; `rust-toolchain.toml` names the one compiler that is used, so they cannot change here.
 */
export const SMALLEST = {
  args: ["-Zbuild-std=core,alloc"],
  flags: ["-Zunstable-options", "-Cpanic=immediate-abort", "-Zlocation-detail=none", "-Zfmt-debug=none"],
  env: { RUSTC_BOOTSTRAP: "1" },
};

/** @returns {Promise<string>} the Rust compiler's version, as `rust-toolchain.toml` chooses it */
export async function rustVersion() {
  return (await must("rustc", ["--version", "--verbose"], { cwd: root })).trim();
}

/**
 * The compiler's flags. Paths of this machine are replaced, so that the same source gives the same bytes anywhere.
 *
 * @returns {Promise<string[]>}
 */
async function rustFlags() {
  const sysroot = (await must("rustc", ["--print", "sysroot"], { cwd: root })).trim();
  const registry = path.join(process.env.CARGO_HOME ?? path.join(homedir(), ".cargo"), "registry/src");
  // The folder below it is named after the registry's address, which may be a mirror's.
  const mirrors = await readdir(registry).catch(() => []);
  const renamed = [
    [root, "selfsame"],
    [sysroot, "rust"],
    ...mirrors.map((name) => [path.join(registry, name), "crates"]),
  ];
  return ["-Ctarget-feature=+simd128", ...renamed.map(([from, to]) => `--remap-path-prefix=${from}=${to}`)];
}

/**
 * Builds one target of one package with the profile `core`. Cargo reports its progress itself.
 *
 * @param {readonly string[]} selection cargo's arguments that choose what to build
 * @param {Recipe} [recipe]
 * @returns {Promise<string>} the path of the `.wasm` file
 */
export async function cargoWasm(selection, recipe = ORDINARY) {
  // Downloaded before the flags are made, since they name the folder that the download creates.
  await must("cargo", ["fetch", "--locked", "--target", TARGET], { cwd: root, visible: true });
  const changed = ["--config", `paths = [${JSON.stringify(await blake3Source())}]`];
  const args = [
    "build",
    "--profile",
    "core",
    "--locked",
    "--target",
    TARGET,
    ...changed,
    ...recipe.args,
    ...selection,
  ];
  const flags = [...(await rustFlags()), ...recipe.flags];
  // Of all the ways to pass flags this is the strongest: nothing in the person's environment changes the result.
  const env = { ...process.env, ...recipe.env, CARGO_ENCODED_RUSTFLAGS: flags.join("\u001f") };
  const child = spawn("cargo", [...args, "--message-format=json-render-diagnostics"], {
    cwd: root,
    env,
    stdio: ["ignore", "pipe", "inherit"],
  });
  const ended = new Promise((resolve, reject) => {
    child.on("error", reject);
    child.on("close", resolve);
  });
  /** @type {string | undefined} */
  let file;
  for await (const line of createInterface({ input: child.stdout })) {
    const message = JSON.parse(line);
    if (message.reason === "compiler-artifact") {
      file = message.filenames.find((/** @type {string} */ name) => name.endsWith(".wasm")) ?? file;
    }
  }
  const code = await ended;
  if (code !== 0) {
    throw new Problem(`cargo ${args.join(" ")} ended with code ${code}; what it said stands above`);
  }
  if (file === undefined) {
    throw new Problem(`cargo ${args.join(" ")} made no .wasm file`);
  }
  return file;
}

/**
 * @param {Uint8Array<ArrayBuffer>} bytes
 * @returns {{ imports: string[], exports: string[] }} the names on both sides of the module, exports sorted
 */
export function boundary(bytes) {
  const module = new WebAssembly.Module(bytes);
  return {
    imports: WebAssembly.Module.imports(module).map((entry) => `${entry.module}.${entry.name}`),
    exports: WebAssembly.Module.exports(module)
      .map((entry) => entry.name)
      .sort(),
  };
}

/**
 * @param {string} file
 * @returns {Promise<Uint8Array<ArrayBuffer>>}
 */
export async function readModule(file) {
  return new Uint8Array(await readFile(file));
}
