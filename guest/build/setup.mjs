#!/usr/bin/env node
/**
 * Makes sure that everything a build needs is there. What needs no administrator is installed; anything else is named
 * with the command that installs it, all at once and before any work starts.
 */

import { existsSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import process from "node:process";
import { fileURLToPath } from "node:url";

import { attempt, must } from "./lib/command.mjs";
import { readIfPresent, root } from "./lib/files.mjs";
import { isAtLeast, LOWEST_OWN } from "./lib/node.mjs";
import { during, note, Problem, run } from "./lib/report.mjs";
import { TARGET } from "./lib/wasm.mjs";

const RUSTUP = "curl --proto '=https' --tlsv1.2 -sSf https://sh.rustup.rs | sh -s -- -y --profile minimal";

/** How each package manager installs a C compiler and linker. */
const COMPILERS = /** @type {const} */ ([
  ["apt-get", "sudo apt-get install -y build-essential"],
  ["dnf", "sudo dnf install -y gcc"],
  ["pacman", "sudo pacman -S --noconfirm base-devel"],
  ["apk", "sudo apk add build-base"],
  ["zypper", "sudo zypper install -y gcc"],
]);

/**
 * @param {string} command
 * @param {readonly string[]} args
 * @returns {Promise<string | undefined>} what it printed, if it is there and works
 */
async function answer(command, args) {
  const result = await attempt(command, args, { cwd: root });
  return result?.code === 0 ? result.stdout.trim() : undefined;
}

/** @returns {Promise<string>} */
async function compilerCommand() {
  if (process.platform === "darwin") {
    return "xcode-select --install";
  }
  for (const [manager, command] of COMPILERS) {
    if ((await attempt(manager, ["--version"])) !== undefined) {
      return command;
    }
  }
  return "install your system's C compiler so that `cc --version` works";
}

/** @returns {Promise<string[]>} a line for each thing that is missing and that only the person can install */
async function missing() {
  const lines = [];
  if (!isAtLeast(process.versions.node, LOWEST_OWN)) {
    lines.push(
      `Node ${LOWEST_OWN[0]} or newer (this is ${process.versions.node}): https://nodejs.org/en/download`,
    );
  }
  // Asked elsewhere: in the checkout rustup's cargo would first download a toolchain, without a word.
  if ((await attempt("cargo", ["--version"], { cwd: tmpdir() })) === undefined) {
    const remedy = process.platform === "win32" ? "https://rustup.rs" : RUSTUP;
    lines.push(`Rust: ${remedy}`);
  }
  // On Windows the Rust compiler finds Microsoft's tools by itself and says so when it does not.
  const compiler = process.env.CC ?? "cc";
  if (process.platform !== "win32" && (await answer(compiler, ["--version"])) === undefined) {
    lines.push(`a C compiler (${compiler}): ${await compilerCommand()}`);
  }
  return lines;
}

/** Installs the Rust toolchain that `rust-toolchain.toml` names, with its target, unless it is there. */
async function ensureRust() {
  const wanted = await readIfPresent(path.join(root, "rust-toolchain.toml"));
  const channel = /^channel = "(.+)"$/m.exec(wanted?.toString("utf8") ?? "")?.[1];
  if (channel === undefined) {
    throw new Problem("rust-toolchain.toml names no channel");
  }
  if ((await answer("rustup", ["--version"])) === undefined) {
    await checkFixedRust(channel);
    return;
  }
  const installed = await answer("rustup", ["component", "list", "--installed", "--toolchain", channel]);
  const components = installed?.split(/\s+/) ?? [];
  if (["rust-src", `rust-std-${TARGET}`].every((name) => components.includes(name))) {
    return;
  }
  const args = ["toolchain", "install", channel, "--profile", "minimal", "--target", TARGET];
  args.push("--component", "clippy", "--component", "rust-src", "--component", "rustfmt");
  note(`> rustup ${args.join(" ")}`);
  await must("rustup", args, { visible: true });
}

/**
 * Without rustup the compiler on PATH is all there is, so it has to fit.
 *
 * @param {string} channel
 */
async function checkFixedRust(channel) {
  const version = /rustc (\S+)/.exec((await answer("rustc", ["--version"])) ?? "")?.[1] ?? "none";
  const libraries = await answer("rustc", ["--print", "target-libdir", "--target", TARGET]);
  const sysroot = (await answer("rustc", ["--print", "sysroot"])) ?? "";
  const parts = [libraries ?? "", path.join(sysroot, "lib/rustlib/src/rust/library")];
  if (version !== channel || !parts.every(existsSync)) {
    const found = version === channel ? `Rust ${version} without one of these` : `Rust ${version}`;
    throw new Problem(
      `Rust ${channel} with ${TARGET} and rust-src is needed and rustup is not installed (found ${found}); run: ${RUSTUP}`,
    );
  }
}

/**
 * @typedef {{ version?: string, optional?: boolean, link?: boolean, peer?: boolean }} LockEntry
 * @typedef {{ packages: Record<string, LockEntry> }} Lock
 */

/** @returns {Promise<boolean>} whether every package of the lock file is installed in its version */
async function packagesAreCurrent() {
  const wanted = await readIfPresent(path.join(root, "package-lock.json"));
  const found = await readIfPresent(path.join(root, "node_modules/.package-lock.json"));
  if (wanted === undefined || found === undefined) {
    return false;
  }
  /** @type {Lock} */
  const lock = JSON.parse(wanted.toString("utf8"));
  /** @type {Lock} */
  const installed = JSON.parse(found.toString("utf8"));
  return Object.entries(lock.packages).every(([place, entry]) => {
    const there = installed.packages[place];
    if (!place.startsWith("node_modules/") && !place.includes("/node_modules/")) {
      return true;
    }
    // An optional package may be meant for another platform.
    return there === undefined ? entry.optional === true : there.version === entry.version;
  });
}

async function ensurePackages() {
  if (await packagesAreCurrent()) {
    return;
  }
  await during("npm install (downloads the tools, about a minute)", async () => {
    // Not `npm ci`: it refuses a lock file that lacks the optional packages of other platforms, as npm writes it where a
    // registry does not offer those. This takes the lock file's versions too, and `--no-save` leaves the file alone.
    const args = ["install", "--no-save", "--no-audit", "--no-fund", "--loglevel=error"];
    // npm names its own program when it runs a script; otherwise it is found on PATH, on Windows as a .cmd file.
    const program = process.env.npm_execpath;
    if (program?.endsWith(".js")) {
      await must(process.execPath, [program, ...args], { cwd: root });
    } else {
      await must("npm", args, { cwd: root, shell: process.platform === "win32" });
    }
  });
}

/** Makes sure that everything a build needs is there. */
export async function ensure() {
  const lines = await missing();
  if (lines.length > 0) {
    throw new Problem(`missing, please install first:\n${lines.map((line) => `  ${line}`).join("\n")}`);
  }
  await ensureRust();
  await ensurePackages();
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  await run(async () => {
    await ensure();
    note("everything that a build needs is installed");
  });
}
