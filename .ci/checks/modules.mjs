/** Checks of who may use whom. */

import { must } from "../../guest/build/lib/command.mjs";
import { root } from "../../guest/build/lib/files.mjs";
import { cycles } from "../lib/graph.mjs";
import { readLib, usesOf } from "../lib/rust-modules.mjs";
import { readSource, sourceFiles, sources } from "../lib/sources.mjs";
import { importGraph } from "../lib/typescript.mjs";

/** @typedef {import("../lib/check.mjs").Check} Check */
/** @typedef {import("../lib/check.mjs").Finding} Finding */

/** The crates whose modules may only use those that stand before them in lib.rs. */
const ORDERED = ["guest/core/src/", "guest/capsule/src/", "guest/rpc/src/", "guest/admission/src/"];

/** Which of our crates each of them may depend on, tests apart; for a crate that is not here, on none but the core's hosts' way in. */
const MAY_USE = new Map([
  ["selfsame-abi", []],
  ["selfsame-codec", []],
  ["selfsame-sodium", []],
  ["selfsame-write-batch", ["selfsame-codec"]],
  ["selfsame-sorted-map", []],
  ["selfsame-core", ["selfsame-codec", "selfsame-sodium", "selfsame-sorted-map"]],
  ["selfsame-rpc", ["selfsame-codec", "selfsame-sodium", "selfsame-sorted-map"]],
  ["selfsame-admission", ["selfsame-codec", "selfsame-sodium"]],
  ["selfsame-admission-wasm", ["selfsame-abi", "selfsame-admission", "selfsame-codec", "selfsame-core"]],
  ["selfsame-rpc-wasm", ["selfsame-abi", "selfsame-codec", "selfsame-rpc"]],
  ["selfsame-capsule", ["selfsame-codec", "selfsame-sodium", "selfsame-write-batch"]],
  ["selfsame-wasm", ["selfsame-abi", "selfsame-codec", "selfsame-core"]],
  ["selfsame-capsule-wasm", ["selfsame-abi", "selfsame-capsule", "selfsame-codec"]],
  ["selfsame-sim", ["selfsame-codec", "selfsame-core"]],
  [
    "selfsame-fuzz",
    [
      "selfsame-admission",
      "selfsame-capsule",
      "selfsame-codec",
      "selfsame-core",
      "selfsame-rpc",
      "selfsame-sodium",
    ],
  ],
  ["selfsame-store", ["selfsame-codec", "selfsame-write-batch"]],
  [
    "selfsame-hostile",
    ["selfsame-capsule", "selfsame-codec", "selfsame-core", "selfsame-host", "selfsame-sim"],
  ],
  ["selfsame-host", ["selfsame-codec", "selfsame-store", "selfsame-write-batch"]],
  ["selfsame-http-probe", ["selfsame-host"]],
  ["selfsame-revoke", ["selfsame-host"]],
]);

/** @returns {Promise<Finding>} */
async function crateOrder() {
  const args = ["metadata", "--format-version", "1", "--no-deps", "--locked"];
  const { packages } = JSON.parse(await must("cargo", args, { cwd: root }));
  const problems = [];
  /** @type {string[]} */
  const names = packages.map((/** @type {{ name: string }} */ { name }) => name);
  for (const [name, allowed] of MAY_USE) {
    const absent = [name, ...allowed].filter((one) => !names.includes(one));
    problems.push(...absent.map((one) => `there is no crate ${one}: take it out of .ci/checks/modules.mjs`));
  }
  for (const { name, dependencies } of packages) {
    const allowed = MAY_USE.get(name);
    if (allowed === undefined) {
      problems.push(`${name} is new: say in .ci/checks/modules.mjs which crates it may use`);
    }
    for (const { name: used, kind } of dependencies) {
      if (kind !== "dev" && used.startsWith("selfsame") && allowed?.includes(used) === false) {
        problems.push(`${name} may not use ${used}`);
      }
    }
  }
  return { problems, note: `${packages.length} crates` };
}

/**
 * @param {string} folder
 * @param {readonly string[]} files
 */
function cratesModules(folder, files) {
  const lib = readLib(readSource(`${folder}lib.rs`).text);
  const uses = files
    .filter((file) => file.startsWith(folder) && file.endsWith(".rs") && file !== `${folder}lib.rs`)
    .flatMap((file) => usesOf(readSource(file), folder, lib));
  return { modules: lib.modules, uses };
}

/** @returns {Promise<Finding>} */
async function moduleOrder() {
  const files = await sourceFiles();
  const crates = ORDERED.map((folder) => cratesModules(folder, files));
  const problems = crates.flatMap(({ modules, uses }) =>
    uses
      .filter(({ from, to }) => modules.indexOf(to) > modules.indexOf(from))
      .map(
        ({ from, to, file, line }) => `${file}:${line}: ${from} uses ${to}, which stands after it in lib.rs`,
      ),
  );
  return { problems, note: `${crates.flatMap(({ modules }) => modules).length} modules` };
}

/** @returns {Promise<Finding>} */
async function moduleCycles() {
  const files = await sourceFiles();
  const folders = files
    .filter((file) => /\/src\/lib\.rs$/.test(file))
    .map((file) => file.replace(/lib\.rs$/, ""));
  const problems = folders.flatMap((folder) => {
    const { modules, uses } = cratesModules(folder, files);
    const graph = new Map(
      modules.map((name) => [
        name,
        [...new Set(uses.filter(({ from }) => from === name).map(({ to }) => to))],
      ]),
    );
    return cycles(graph).map((cycle) => {
      const steps = cycle.map((from, index) => {
        const to = cycle[(index + 1) % cycle.length];
        const use = uses.find((use) => use.from === from && use.to === to);
        return `${use?.file}:${use?.line} (${from} uses ${to})`;
      });
      return `${folder}: a cycle of modules: ${steps.join(", ")}`;
    });
  });
  return { problems, note: `${folders.length} crates` };
}

/** @returns {Promise<Finding>} */
async function importCycles() {
  const files = await sources(/\.(ts|mjs|js)$/);
  const found = cycles(importGraph(files));
  return {
    problems: found.map((cycle) => `a cycle of imports: ${cycle.join(" -> ")}`),
    note: `${files.length} files`,
  };
}

/** @type {readonly Check[]} */
export const modules = [
  { name: "crate-order", what: "crates use only those they may", run: crateOrder },
  { name: "module-order", what: "each module of the core uses only those before it", run: moduleOrder },
  { name: "module-cycles", what: "no cycle between modules in Rust", run: moduleCycles },
  { name: "import-cycles", what: "no cycle of imports in TypeScript", run: importCycles },
];
