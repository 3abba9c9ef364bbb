/** The crates of the WebAssembly modules as private modules of one crate, in which the compiler sees what neither module reaches. */

import { readFile, rm } from "node:fs/promises";
import path from "node:path";

import { attempt, must } from "../../guest/build/lib/command.mjs";
import { foldersIn } from "../../guest/build/lib/crates.mjs";
import { listFiles, root, writeWhole } from "../../guest/build/lib/files.mjs";
import { Problem } from "../../guest/build/lib/report.mjs";
import { TARGET } from "../../guest/build/lib/wasm.mjs";

/**
 * @typedef {object} Unreached an item that no export of a module leads to
 * @property {string} file a path from the root
 * @property {number} line
 * @property {string} name
 * @property {string} text its line
 */

/**
 * @typedef {object} Dependency of a crate, as `cargo metadata` says
 * @property {string} name
 * @property {string} req
 * @property {string | null} kind
 * @property {string | null} target
 * @property {string[]} features
 * @property {boolean} uses_default_features
 */

/** @typedef {{ items: Unreached[], features: string[] }} Unshipped what is in the modules' crates, but not in a module */
/** @typedef {{ name: string, manifest_path: string, dependencies: Dependency[], features: Record<string, string[]> }} Package */

/** The crates that export functions. */
const MODULES = ["selfsame-wasm", "selfsame-capsule-wasm", "selfsame-rpc-wasm", "selfsame-admission-wasm"];
/** Where the merged crate is. */
const PLACE = path.join(root, "target/one-path");
/** Lints of style hold for the crates, not for their merger. */
const HEAD = "#![no_std]\n#![allow(unused_imports, unreachable_pub, missing_docs)]\nextern crate alloc;\n";

/** @returns {Promise<Unshipped>} */
export async function unshipped() {
  await must("cargo", ["fetch", "--locked", "--target", TARGET], { cwd: root, visible: true });
  const args = ["metadata", "--locked", "--format-version", "1", "--filter-platform", TARGET];
  const metadata = JSON.parse(await must("cargo", args, { cwd: root }));
  const folders = new Set(MODULES.flatMap((name) => foldersIn(metadata, name)));
  /** @type {Package[]} */
  const crates = metadata.packages.filter((/** @type {Package} */ one) => folders.has(folderOf(one)));
  const origins = await merge(crates);
  const { chosen, known } = featuresOf(crates);
  return {
    items: (await deadCode()).map(({ file, ...rest }) => ({ file: origins.get(file) ?? file, ...rest })),
    features: known.filter((name) => !chosen.includes(name)),
  };
}

/** @param {Package} crate */
function folderOf({ manifest_path: manifest }) {
  return path.dirname(manifest);
}

/** @param {string} name of a crate */
function moduleOf(name) {
  return name.replaceAll("-", "_");
}

/**
 * Writes the merged crate.
 *
 * @param {readonly Package[]} crates
 * @returns {Promise<Map<string, string>>} which file, by its path from the root, each of its files was made from
 */
async function merge(crates) {
  await rm(path.join(PLACE, "src"), { recursive: true, force: true });
  const modules = crates.map(({ name }) => moduleOf(name));
  const origins = new Map();
  for (const crate of crates) {
    const sources = path.join(folderOf(crate), "src");
    for (const source of await listFiles(sources, (name) => name.endsWith(".rs"))) {
      const name = path.relative(sources, source).replace(/^lib\.rs$/, "mod.rs");
      const file = path.join("src", moduleOf(crate.name), name);
      const text = rewrite(await readFile(source, "utf8"), moduleOf(crate.name), modules);
      await writeWhole(path.join(PLACE, file), name === "mod.rs" ? withoutHead(text) : text);
      origins.set(file.replaceAll(path.sep, "/"), path.relative(root, source).replaceAll(path.sep, "/"));
    }
  }
  await writeWhole(
    path.join(PLACE, "src/lib.rs"),
    `${HEAD}${modules.map((name) => `mod ${name};\n`).join("")}`,
  );
  await writeWhole(path.join(PLACE, "Cargo.toml"), manifest(crates));
  await writeWhole(path.join(PLACE, "Cargo.lock"), await readFile(path.join(root, "Cargo.lock")));
  return origins;
}

/**
 * @param {string} text of a file of a crate
 * @param {string} own the crate's module
 * @param {readonly string[]} modules of all crates
 * @returns {string} the same lines with the paths that lead there in the merged crate
 */
export function rewrite(text, own, modules) {
  return (
    text
      .replaceAll(/\$?\bcrate::/g, `crate::${own}::`)
      .replaceAll(new RegExp(`(?<![:\\w])(?:::)?(${modules.join("|")})::`, "g"), "crate::$1::")
      // An exported macro is one of the crate, wherever it stands.
      .replaceAll(new RegExp(`\\bcrate::(?:${modules.join("|")})::(\\w+!)`, "g"), "crate::$1")
  );
}

/**
 * @param {string} text of a lib.rs
 * @returns {string} the same lines without what only the root of a crate may say
 */
function withoutHead(text) {
  return text.replaceAll(/^(?:#!\[[^\]]*\]|extern crate alloc;)$/gm, (found) =>
    found.replaceAll(/[^\n]/g, ""),
  );
}

/**
 * @param {readonly Package[]} crates
 * @returns {{ chosen: string[], known: string[] }} the features that they choose of each other, and all that they have
 */
function featuresOf(crates) {
  const names = crates.map(({ name }) => name);
  const chosen = crates
    .flatMap(({ dependencies }) => dependencies)
    .filter(({ name, kind }) => kind === null && names.includes(name))
    .flatMap(({ features }) => features);
  const known = crates.flatMap(({ features }) => Object.keys(features));
  return { chosen: [...new Set(chosen)], known: [...new Set(known)] };
}

/**
 * @param {readonly Package[]} crates
 * @returns {string} the Cargo.toml of their merger, which depends on all that they do
 */
function manifest(crates) {
  const names = crates.map(({ name }) => name);
  const used = crates.flatMap(({ dependencies }) => dependencies).filter(({ kind }) => kind === null);
  const { chosen, known } = featuresOf(crates);
  const others = used.filter(({ name }) => !names.includes(name));
  const tables = new Set(others.map(({ target }) => target));
  return [
    '[package]\nname = "one-path"\nversion = "0.0.0"\nedition = "2024"\n',
    '[lib]\ncrate-type = ["cdylib"]\n',
    "[workspace]\n",
    `[features]\ndefault = ${JSON.stringify(chosen)}\n${known.map((name) => `${name} = []\n`).join("")}`,
    ...[...tables].map((target) => {
      const title = target === null ? "dependencies" : `target.'${target}'.dependencies`;
      return `[${title}]\n${dependencyLines(others.filter((one) => one.target === target))}`;
    }),
  ].join("\n");
}

/**
 * @param {readonly Dependency[]} dependencies
 * @returns {string}
 */
function dependencyLines(dependencies) {
  const names = [...new Set(dependencies.map(({ name }) => name))];
  return names
    .map((name) => {
      const all = dependencies.filter((one) => one.name === name);
      const features = JSON.stringify([...new Set(all.flatMap((one) => one.features))]);
      const isDefault = all.some((one) => one.uses_default_features);
      return `${name} = { version = "${all[0]?.req}", default-features = ${isDefault}, features = ${features} }\n`;
    })
    .join("");
}

/** @returns {Promise<Unreached[]>} what the compiler says of the merged crate, in whose files and lines */
async function deadCode() {
  const args = ["check", "--offline", "--quiet", "--target", TARGET, "--message-format", "json"];
  // Nothing in the person's environment changes the result.
  const env = { CARGO_ENCODED_RUSTFLAGS: "-Ctarget-feature=+simd128" };
  const result = await attempt("cargo", [...args, "--target-dir", path.join(PLACE, "target")], {
    cwd: PLACE,
    env,
  });
  const messages = (result?.stdout ?? "")
    .split("\n")
    .filter((line) => line.startsWith("{"))
    .map((line) => JSON.parse(line))
    .filter(({ reason }) => reason === "compiler-message")
    .map(({ message }) => message);
  if (result?.code !== 0) {
    const errors = messages.filter(({ level }) => level === "error").map(({ rendered }) => rendered);
    throw new Problem(
      ["the merged crate does not compile", ...errors, result?.stderr ?? ""].join("\n").trimEnd(),
    );
  }
  return messages
    .filter(({ code }) => code?.code === "dead_code")
    .flatMap(({ spans }) => spans.flatMap(itemAt));
}

/**
 * @param {any} span of a message of the compiler
 * @returns {Unreached[]}
 */
function itemAt({ is_primary: isPrimary, file_name: file, line_start: line, text: lines }) {
  if (!isPrimary) return [];
  const [{ text, highlight_start: start, highlight_end: end }] = lines;
  return [{ file, line, name: text.slice(start - 1, end - 1), text }];
}
