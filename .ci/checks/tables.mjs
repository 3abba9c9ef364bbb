/** Checks that `docs/threats.md` lists every table that code keeps, and names what plays against those that peers fill. */

import { readJson, readSource, sources } from "../lib/sources.mjs";

/** @typedef {import("../lib/check.mjs").Check} Check */
/** @typedef {import("../lib/check.mjs").Finding} Finding */

const DOCUMENT = "docs/threats.md";
/** Where tables are looked for, and what the document calls these folders. */
const FOLDERS = new Map([
  ["core", "guest/core/src/"],
  ["capsule", "guest/capsule/src/"],
  ["host", "host/src/"],
  ["store", "host/store/src/"],
  ["runtime", "runtime/src/"],
]);
/** A field of a Rust type that grows with what it is given. */
const RUST_FIELD =
  /^ {4}(?:pub(?:\([a-z]+\))? )?([a-z_]+): [^=\n]*\b(?:Map|Set|BTreeMap|BTreeSet|HashMap|HashSet|VecDeque|BinaryHeap)<[^=\n]*,$/gm;
/** The same of a class in TypeScript. */
const TYPESCRIPT_FIELD = /^ {2}(?:readonly )?#?([a-zA-Z]+): (?:Map|Set)<.*;$/gm;
/** A table as the document names it: `core node/paths.rs table`. */
const NAMED = /`(core|capsule|host|store|runtime) ([\w/.-]+) (\w+)`/g;
/** The sections of the document, and how many columns the rows of the first one have. */
const ATTACKS = "## How the attacks are played";
const FILLED_BY_PEERS = "## Tables that peers fill";
const FILLED_BY_OTHERS = "## Tables that peers cannot fill";
const COLUMNS = 5;
/** Code for tests, which no peer reaches. */
const NOT_SHIPPED = [/\/simulation\.rs$/, /\/map\.rs$/, /\/tests\//];

/** @returns {Promise<Set<string>>} the tables of the code, as the document names them */
async function tablesOfCode() {
  const found = new Set();
  for (const [name, folder] of FOLDERS) {
    const files = await sources(new RegExp(`^${folder}.*\\.(rs|ts)$`));
    for (const { file, text } of files.filter(({ file }) => !NOT_SHIPPED.some((other) => other.test(file)))) {
      const pattern = file.endsWith(".rs") ? RUST_FIELD : TYPESCRIPT_FIELD;
      for (const [, field] of text.matchAll(pattern)) {
        found.add(`${name} ${file.slice(folder.length)} ${field}`);
      }
    }
  }
  return found;
}

/**
 * @param {string} text
 * @param {string} title
 * @returns {string} a section of the document, without its title
 */
function section(text, title) {
  const [, after = ""] = text.split(`\n${title}\n`);
  return after.split("\n## ")[0] ?? "";
}

/** @param {string} text */
function named(text) {
  return [...text.matchAll(NAMED)].map(([, folder, file, field]) => `${folder} ${file} ${field}`);
}

/** @returns {string[]} the names of the attacks that `npm run test:hostile` plays */
function attackNames() {
  const { text } = readSource("edge-tests/hostile/src/attacks/mod.rs");
  return [...text.matchAll(/name: "([a-z0-9-]+)"/g)].map(([, name]) => name ?? "");
}

/** @returns {Promise<Set<string>>} the names of attacks and of tests */
async function played() {
  const tests = await sources(
    /^(guest|host|edge-tests|runtime)\/.*(\/tests?\/|\/tests?\.rs|src\/).*\.(rs|ts)$/,
  );
  const functions = tests.flatMap(({ text }) => [...text.matchAll(/^\s*(?:async )?fn ([a-z0-9_]+)\(/gm)]);
  return new Set([...attackNames(), ...functions.map(([, name]) => name ?? "")]);
}

/** @returns {Promise<Finding>} */
async function attacks() {
  const described = section(readSource(DOCUMENT).text, ATTACKS);
  const rows = [...described.matchAll(/^\| `([a-z0-9-]+)` \|/gm)].map(([, name]) => name ?? "");
  const names = attackNames();
  const problems = names
    .filter((name) => !rows.includes(name))
    .map((name) => `${DOCUMENT} does not describe the attack ${name}`);
  problems.push(
    ...rows
      .filter((name) => !names.includes(name))
      .map((name) => `${DOCUMENT} describes ${name}, which is not played`),
  );
  return { problems, note: `${names.length} attacks` };
}

/** @returns {Promise<Finding>} */
async function tables() {
  const { text } = readSource(DOCUMENT);
  const [filled, others] = [section(text, FILLED_BY_PEERS), section(text, FILLED_BY_OTHERS)];
  const inCode = await tablesOfCode();
  const listed = [...named(filled), ...named(others)];
  const problems = listed
    .filter((table) => !inCode.has(table))
    .map((table) => `${DOCUMENT} lists \`${table}\`, which is not in the code: rename or remove it`);
  problems.push(
    ...listed
      .filter((table, index) => listed.indexOf(table) !== index)
      .map((table) => `${DOCUMENT} lists \`${table}\` twice`),
  );
  const names = await played();
  const rows = filled.split("\n").filter((line) => line.startsWith("| `"));
  for (const row of rows) {
    const cells = row.split("|").slice(1, -1);
    const [table = "", , , , test = ""] = cells.map((cell) => cell.trim());
    if (cells.length !== COLUMNS) problems.push(`${DOCUMENT}: the row of ${table} has no ${COLUMNS} columns`);
    const unknown = [...test.matchAll(/`([^`]+)`/g)]
      .map(([, name]) => name ?? "")
      .filter((name) => !names.has(name));
    problems.push(
      ...unknown.map((name) => `${DOCUMENT}: ${table} names ${name}, which is neither an attack nor a test`),
    );
  }
  const missing = [...inCode].filter((table) => !listed.includes(table));
  const { unlistedTables: allowed = 0 } = readJson(".ci/limits.json");
  if (missing.length > allowed) {
    problems.push(
      ...missing.map(
        (table) => `${DOCUMENT} does not list \`${table}\`: say who fills it and what bounds it`,
      ),
    );
  } else if (missing.length < allowed) {
    problems.push(`lower unlistedTables in .ci/limits.json from ${allowed} to ${missing.length}`);
  }
  return { problems, note: `${inCode.size} tables, ${rows.length} rows of those that peers fill` };
}

/** @type {readonly Check[]} */
export const tablesChecks = [
  { name: "attacks", what: "docs/threats.md describes every attack that is played", run: attacks },
  { name: "tables", what: "docs/threats.md lists every table and what bounds it", run: tables },
];
