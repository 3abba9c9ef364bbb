/** The check that what ships is all there is: no code under guest/ or host/ that only tests or benchmarks reach. */

import { must } from "../../guest/build/lib/command.mjs";
import { root } from "../../guest/build/lib/files.mjs";
import { TARGET } from "../../guest/build/lib/wasm.mjs";
import { unshipped } from "../lib/merged-crates.mjs";
import { needTarget } from "../lib/rust-target.mjs";
import { occurrences, sourceFiles, sources } from "../lib/sources.mjs";

/** @typedef {import("../lib/check.mjs").Check} Check */
/** @typedef {import("../lib/check.mjs").Finding} Finding */
/** @typedef {import("../lib/sources.mjs").Source} Source */
/** @typedef {{ file: string, line: number, name: string }} Item */
/** @typedef {{ file: string, name: string, reason: string }} Exception */
/** @typedef {Pick<import("../lib/merged-crates.mjs").Package, "name" | "dependencies" | "features">} Crate */

/** @type {readonly Exception[]} Items that neither module nor the host reaches, and why they stand all the same. */
const ITEMS = [
  {
    file: "guest/codec/src/code.rs",
    name: "ALL",
    reason: "docs/errors.md and the golden files, which are generated, list every code",
  },
];

/** @type {readonly Omit<Exception, "file">[]} Features that neither module nor the command has. */
const FEATURES = [
  { name: "contract", reason: "authors of other stores test theirs with it" },
  { name: "insecure", reason: "benchmarks tell what cryptography costs" },
  { name: "large-table", reason: "benchmarks fill one node with a million names" },
  { name: "simulation", reason: "the simulator lets nodes lie" },
];

/** @type {readonly Omit<Exception, "name">[]} Files in which the platform decides what is compiled. */
const FORKS = [
  { file: "guest/abi/Cargo.toml", reason: "natively the standard library brings the allocator" },
  {
    file: "guest/abi/src/lib.rs",
    reason: "natively the standard library brings allocator and panic handler",
  },
  { file: "guest/abi/src/single.rs", reason: "refuses shared memory" },
  {
    file: "guest/capsule-wasm/src/lib.rs",
    reason: "natively the standard library brings allocator and panic handler",
  },
  {
    file: "guest/admission-wasm/src/lib.rs",
    reason: "natively the standard library brings allocator and panic handler",
  },
  {
    file: "guest/rpc-wasm/src/lib.rs",
    reason: "natively the standard library brings allocator and panic handler",
  },
  { file: "guest/core/src/ring/simulation.rs", reason: "refuses a core for WebAssembly with this feature" },
  {
    file: "guest/sodium/src/ffi.rs",
    reason:
      "native libsodium has a random source, which must be taken away, and chooses code by the processor",
  },
  { file: "guest/sodium/src/lib.rs", reason: "refuses a native build without cryptography" },
  {
    file: "guest/wasm/src/lib.rs",
    reason: "natively the standard library brings allocator and panic handler",
  },
];

/** What is said of an exception that excepts nothing. */
const STALE = "take the exception out of .ci/checks/one-path.mjs";

/** The simulator and the fuzzer are programs of their own. */
const GUEST = /^guest\/(?!sim\/|fuzz\/)/;
/** What a fork of the code by platform is written with. */
const FORK = /\btarget_(?:arch|env|family|feature|os|pointer_width|vendor)\b|\bis_\w+_feature_detected\b/g;
/** Folders of benchmarks. */
const MEASURING_FOLDER = /\/(?:benches|speed)\//;
/** Where nothing is measured, since it is measured in bench/. */
const BESIDE = /^(?:guest\/(?!sim\/|fuzz\/)|host\/store\/).*\b(?:examples|tests)\/.*\.(?:rs|mjs)$/;
const MEASURING = /\bblack_box\b|\.elapsed\(\)|\bperformance\.now\(\)/g;

/** Crates that the host is built with natively and the modules are too: what the modules do not reach the host may. */
const SHARED = /^guest\/(?:codec|write-batch)\/src\//;
/** Code of the host, and what it shares. */
const HOST = /^(?:host|host\/store|guest\/codec|guest\/write-batch)\/src\/.*(?<!\/tests)\.rs$/;
/** What only the host is built with. */
const STORE = /^host\/store\/src\//;
/** The crate of the command, before those that it is built with. */
const HOST_CRATES = ["selfsame-host", "selfsame-store"];
/** A module that a crate has with a feature only. */
const OPTIONAL_MODULE = /#\[cfg\(feature = "(?<feature>[\w-]+)"\)\]\n(?:pub )?mod (?<module>\w+);/g;
const PUBLIC = /\bpub (?:(?:const|unsafe|async) )*(?:fn|struct|enum|trait|type|const|static) (?<name>\w+)/g;

/** @returns {Promise<Finding>} */
async function onePath() {
  const problems = await needTarget(TARGET);
  if (problems.length > 0) return { problems };
  const { items: unreached, features: ofModules } = await unshipped();
  const ofHost = await featuresOfHost();
  const features = [...new Set([...ofModules, ...ofHost])];
  const host = withoutOptional(await sources(HOST), ofHost);
  const unused = unusedByName(host.map(({ file, text }) => ({ file, text: codeOf(text) })));
  const dead = unreached.filter(
    ({ file, name, text }) =>
      !SHARED.test(file) ||
      (/\bpub (?!\()/.test(text) && unused.some((one) => one.file === file && one.name === name)),
  );
  const items = [...dead, ...unused.filter(({ file }) => STORE.test(file))];
  return {
    problems: [
      ...refuseItems(items),
      ...refuseFeatures(features),
      ...(await refuseForks()),
      ...(await refuseMeasuring()),
    ],
    note: `exceptions are ${ITEMS.length} items, ${FEATURES.length} features and ${FORKS.length} forks`,
  };
}

/**
 * @param {readonly Item[]} items
 * @returns {string[]}
 */
function refuseItems(items) {
  const matches = (/** @type {Exception} */ exception, /** @type {Item} */ item) =>
    exception.file === item.file && exception.name === item.name;
  const stale = ITEMS.filter((exception) => !items.some((item) => matches(exception, item)));
  return [
    ...items
      .filter((item) => !ITEMS.some((exception) => matches(exception, item)))
      .map(({ file, line, name }) => `${file}:${line}: only tests or benchmarks reach ${name}`),
    ...stale.map(({ file, name }) => `${file}, ${name}: ${STALE}`),
  ];
}

/**
 * @param {readonly string[]} features
 * @returns {string[]}
 */
function refuseFeatures(features) {
  const excepted = FEATURES.map(({ name }) => name);
  return [
    ...features
      .filter((name) => !excepted.includes(name))
      .map((name) => `neither a module nor the command is built with the feature ${name}`),
    ...excepted.filter((name) => !features.includes(name)).map((name) => `feature ${name}: ${STALE}`),
  ];
}

/** @returns {Promise<string[]>} the features of the host's crates that the command is built without */
async function featuresOfHost() {
  const args = ["metadata", "--no-deps", "--locked", "--format-version", "1"];
  /** @type {{ packages: Crate[] }} */
  const { packages } = JSON.parse(await must("cargo", args, { cwd: root }));
  return leftOut(packages.filter(({ name }) => HOST_CRATES.includes(name)));
}

/**
 * @param {readonly Crate[]} crates of one program
 * @returns {string[]} the features that none of them has by default or chooses of another one
 */
export function leftOut(crates) {
  const dependencies = crates.flatMap((crate) => crate.dependencies).filter(({ kind }) => kind !== "dev");
  const chosen = new Set([
    ...crates.map(({ name }) => `${name}/default`),
    ...dependencies.flatMap(({ name, features }) => features.map((feature) => `${name}/${feature}`)),
  ]);
  // What is added meanwhile is visited, too.
  for (const one of chosen) {
    const [name = "", feature = ""] = one.split("/");
    const implied = crates.find((crate) => crate.name === name)?.features[feature] ?? [];
    for (const next of implied) {
      chosen.add(next.includes("/") ? next.replace("?", "") : `${name}/${next}`);
    }
  }
  return crates.flatMap(({ name, features }) =>
    Object.keys(features).filter((feature) => feature !== "default" && !chosen.has(`${name}/${feature}`)),
  );
}

/**
 * @param {readonly Source[]} files
 * @param {readonly string[]} features
 * @returns {Source[]} those that are there without the features
 */
export function withoutOptional(files, features) {
  const modules = files
    .filter(({ file }) => file.endsWith("/lib.rs"))
    .flatMap(({ file, text }) =>
      occurrences(text, OPTIONAL_MODULE)
        .filter(({ found }) => features.includes(found.groups?.feature ?? ""))
        .map(({ found }) => file.replace(/lib\.rs$/, found.groups?.module ?? "")),
    );
  return files.filter(
    ({ file }) => !modules.some((module) => file === `${module}.rs` || file.startsWith(`${module}/`)),
  );
}

/** @returns {Promise<string[]>} */
async function refuseForks() {
  const files = (await sources(/^guest\/.*(?:\/src\/.*\.rs|\/Cargo\.toml)$/)).filter(({ file }) =>
    GUEST.test(file),
  );
  const forks = files.flatMap(({ file, text }) => {
    const [first] = occurrences(codeOf(text), FORK);
    return first === undefined ? [] : [{ file, line: first.line }];
  });
  const stale = FORKS.filter(({ file }) => !forks.some((fork) => fork.file === file));
  return [
    ...forks
      .filter(({ file }) => !FORKS.some((exception) => exception.file === file))
      .map(({ file, line }) => `${file}:${line}: what runs natively must be what runs in WebAssembly`),
    ...stale.map(({ file }) => `${file}: ${STALE}`),
  ];
}

/** @returns {Promise<string[]>} */
async function refuseMeasuring() {
  const folders = (await sourceFiles()).filter(
    (file) => /^(?:guest|host)\//.test(file) && MEASURING_FOLDER.test(file),
  );
  const measuring = (await sources(BESIDE)).flatMap(({ file, text }) => {
    const [first] = occurrences(text, MEASURING);
    return first === undefined ? [] : [`${file}:${first.line}`];
  });
  return [...folders, ...measuring].map((place) => `${place}: measure through what ships, in bench/`);
}

/**
 * @param {string} text
 * @returns {string} the same lines without comments, imports, exports and tests
 */
function codeOf(text) {
  const blank = (/** @type {string} */ part) => part.replaceAll(/[^\n]/g, " ");
  return text
    .replaceAll(/\/\/[^\n]*/g, blank)
    .replaceAll(/#\[cfg\(test\)\]\n\s*mod \w+ \{[\s\S]*?\n\}/g, blank)
    .replaceAll(/^\s*(?:pub(?:\([^)]*\))? )?use [^;]*;/gm, blank);
}

/**
 * @param {readonly Source[]} code
 * @returns {Item[]} public items whose names this code uses nowhere
 */
function unusedByName(code) {
  const words = tally(code.flatMap(({ text }) => text.match(/\w+/g) ?? []));
  const items = code
    .filter(({ file }) => SHARED.test(file) || STORE.test(file))
    .flatMap(({ file, text }) =>
      occurrences(text, PUBLIC).map(({ line, found }) => ({ file, line, name: found.groups?.name ?? "" })),
    );
  const defined = tally(items.map(({ name }) => name));
  return items.filter(({ name }) => (words.get(name) ?? 0) <= (defined.get(name) ?? 0));
}

/**
 * @param {readonly string[]} words
 * @returns {Map<string, number>} how often each occurs
 */
function tally(words) {
  const counts = new Map();
  for (const word of words) {
    counts.set(word, (counts.get(word) ?? 0) + 1);
  }
  return counts;
}

/** @type {readonly Check[]} */
export const onePathChecks = [
  { name: "one-path", what: "nothing is there that only tests or benchmarks reach", run: onePath },
];
