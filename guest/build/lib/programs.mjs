/** The programs in Rust, which are built together: with another choice of packages Cargo would build wasmtime once more. */

import path from "node:path";
import process from "node:process";

import { root } from "./files.mjs";

/** The packages that embed wasmtime. */
export const WITH_HOST = ["selfsame-host", "selfsame-hostile", "selfsame-http-probe", "selfsame-revoke"];

/** What `cargo build` is told to build all of them, and the examples of capsules. */
export const PROGRAMS = [
  "--release",
  "--locked",
  ...[...WITH_HOST, "selfsame-capsule"].flatMap((name) => ["--package", name]),
  "--bins",
  "--examples",
];

/**
 * The file of a program once it is built; that of an example is in the folder `examples`.
 *
 * @param {string} name
 * @returns {string}
 */
export function programFile(name) {
  const target = process.env.CARGO_TARGET_DIR ?? path.join(root, "target");
  return path.join(target, "release", process.platform === "win32" ? `${name}.exe` : name);
}
