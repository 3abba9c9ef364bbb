/** Checks of Rust. */

import { buildSodium } from "../../guest/build/sodium.mjs";
import { program, runProgram } from "../lib/check.mjs";
import { needTarget } from "../lib/rust-target.mjs";

/** @typedef {import("../lib/check.mjs").Check} Check */
/** @typedef {import("../lib/check.mjs").Finding} Finding */

/** As WebAssembly as the core's target, but without a standard library: what builds for it needs none. */
const NO_STD_TARGET = "wasm32v1-none";
const WASM_TARGET = "wasm32-unknown-unknown";

/** Says what is wrong without what was compiled, which would push it out of sight. */
const QUIET = "--quiet";

/** With this feature the host re-exports a module of the store; no program and no test turns it on. */
const ALL_MODULES = ["--features", "selfsame-host/contract"];

/** Warnings are errors, and functions are short (see clippy.toml for how long). */
const LINTS = ["--", "-D", "warnings", "-D", "clippy::too_many_lines"];

/** @returns {Promise<Finding>} */
async function clippyWasm() {
  await buildSodium();
  const problems = await needTarget(WASM_TARGET);
  const command = [
    "cargo",
    "clippy",
    QUIET,
    "--locked",
    "--package",
    "selfsame-wasm",
    "--target",
    WASM_TARGET,
    ...LINTS,
  ];
  return problems.length > 0 ? { problems } : runProgram(command);
}

/** @returns {Promise<Finding>} */
async function noStd() {
  await buildSodium();
  const problems = await needTarget(NO_STD_TARGET);
  const crates = ["--package", "selfsame-codec", "--package", "selfsame-core"];
  const command = ["cargo", "check", QUIET, "--locked", ...crates, "--target", NO_STD_TARGET];
  return problems.length > 0 ? { problems } : runProgram(command);
}

/** @type {readonly Check[]} */
export const rust = [
  program("rust-format", "format of Rust", ["cargo", "fmt", "--all", "--check"]),
  { name: "no-std", what: `the core builds for ${NO_STD_TARGET}, which has no std`, run: noStd },
  { name: "clippy-wasm", what: "lint of the core for WebAssembly", run: clippyWasm },
  program("clippy", "lint of all Rust", [
    "cargo",
    "clippy",
    QUIET,
    "--workspace",
    "--all-targets",
    "--locked",
    ...ALL_MODULES,
    ...LINTS,
  ]),
  program(
    "rustdoc",
    "documentation of Rust",
    // An example among what is documented has Cargo choose the same features of all crates as for the lints, which are checked already.
    [
      "cargo",
      "doc",
      QUIET,
      "--workspace",
      "--no-deps",
      "--locked",
      ...ALL_MODULES,
      "--lib",
      "--bins",
      "--example",
      "appauth",
    ],
    {
      RUSTDOCFLAGS: "-D warnings",
    },
  ),
];
