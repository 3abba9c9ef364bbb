/** What Cargo knows of the crates in this repository. */

import path from "node:path";

import { must } from "./command.mjs";
import { root } from "./files.mjs";

/**
 * @typedef {object} Metadata what `cargo metadata` says, as far as it is used here
 * @property {readonly { id: string, name: string, manifest_path: string, source: string | null }[]} packages
 * @property {{ nodes: readonly { id: string, deps: readonly { pkg: string, dep_kinds: readonly { kind: string | null }[] }[] }[] }} resolve
 */

/**
 * The folders of a crate and of all crates of this repository that end up in it, tests and benchmarks apart.
 *
 * @param {string} name
 * @param {string} target the platform that it is built for
 * @returns {Promise<readonly string[]>}
 */
export async function foldersOfCrate(name, target) {
  const args = ["metadata", "--locked", "--format-version", "1", "--filter-platform", target];
  return foldersIn(JSON.parse(await must("cargo", args, { cwd: root })), name);
}

/**
 * @param {Metadata} metadata
 * @param {string} name
 * @returns {readonly string[]}
 */
export function foldersIn({ packages, resolve }, name) {
  const own = new Map(packages.filter(({ source }) => source === null).map((one) => [one.id, one]));
  const nodes = new Map(resolve.nodes.map((node) => [node.id, node]));
  const found = new Set();
  const waiting = [...own.values()].filter((one) => one.name === name).map(({ id }) => id);
  for (let id = waiting.pop(); id !== undefined; id = waiting.pop()) {
    if (found.has(id)) continue;
    found.add(id);
    const deps = nodes.get(id)?.deps ?? [];
    const kept = deps.filter(
      ({ pkg, dep_kinds: kinds }) => own.has(pkg) && kinds.some(({ kind }) => kind !== "dev"),
    );
    waiting.push(...kept.map(({ pkg }) => pkg));
  }
  const folders = [...found].map((id) => path.dirname(own.get(id)?.manifest_path ?? ""));
  return folders.sort();
}
