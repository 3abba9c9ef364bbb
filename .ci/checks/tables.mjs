/** Checks that `docs/threats.md` lists every table that code keeps, and names what plays against those that peers fill. */

import { readSource, sources } from "../lib/sources.mjs";

/** @typedef {import("../lib/check.mjs").Check} Check */
/** @typedef {import("../lib/check.mjs").Finding} Finding */

const DOCUMENT = "docs/threats.md";
/** Where tables are looked for, and what the document calls these folders. */
const FOLDERS = new Map([
  ["core", "guest/core/src/"],
  ["capsule", "guest/capsule/src/"],
  ["rpc", "guest/rpc/src/"],
  ["admission", "guest/admission/src/"],
  ["host", "host/src/"],
  ["store", "host/store/src/"],
  ["runtime", "runtime/src/"],
]);
/** A field of a Rust type that grows with what it is given. */
const RUST_FIELD =
  /^ {4}(?:pub(?:\([a-z]+\))? )?([a-z_]+): [^=\n]*\b(?:Map|Set|BTreeMap|BTreeSet|HashMap|HashSet|VecDeque|BinaryHeap)<[^=\n]*,$/gm;
/** A type that is such a table itself, which fields name: a wrapper or an alias. */
const RUST_TYPE =
  /^(?:pub(?:\([a-z]+\))? )?(?:struct|type) (\w+)(?:\(| = ).*\b(?:Map|Set|BTreeMap|BTreeSet|HashMap|HashSet|VecDeque|BinaryHeap)<.*;$/gm;
/** A field of a class in TypeScript that does. */
const TYPESCRIPT_FIELD = /^ {2}(?:readonly )?#?([a-zA-Z]+): (?:Map|Set)<.*;$/gm;
/** A table as the document names it: `core node/paths.rs table`. */
const NAMED = /`(core|capsule|rpc|admission|host|store|runtime) ([\w/.-]+) (\w+)`/g;
/** The sections of the document, and how many columns the rows of the first one have. */
const ATTACKS = "## How the attacks are played";
const FILLED_BY_PEERS = "## Tables that peers fill";
const FILLED_BY_OTHERS = "## Tables that peers cannot fill";
const COLUMNS = 5;
/** What a row says that nothing plays against. */
const NO_TEST = "no test";
/** Code for tests, which no peer reaches. */
const LEFT_OUT = [/\/simulation\.rs$/, /\/tests?\.rs$/, /\/tests\//];

/** @returns {Promise<Set<string>>} the tables of the code, as the document names them */
async function tablesOfCode() {
  const found = new Set();
  for (const [name, folder] of FOLDERS) {
    const files = await sources(new RegExp(`^${folder}.*\\.(rs|ts)$`));
    for (const { file, text } of files.filter(({ file }) => !LEFT_OUT.some((other) => other.test(file)))) {
      const patterns = file.endsWith(".rs") ? [RUST_FIELD, RUST_TYPE] : [TYPESCRIPT_FIELD];
      for (const [, table] of patterns.flatMap((pattern) => [...text.matchAll(pattern)])) {
        found.add(`${name} ${file.slice(folder.length)} ${table}`);
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
  const tests = await sources(/^(guest|host|edge-tests|runtime)\/(.*\/)?(tests?|src)\/.*\.(rs|ts)$/);
  const functions = tests.flatMap(({ text }) => [...text.matchAll(/^\s*(?:async )?fn ([a-z0-9_]+)\(/gm)]);
  const titles = tests.flatMap(({ text }) => [...text.matchAll(/^\s*(?:test|it)\("([^"]+)"/gm)]);
  return new Set([...attackNames(), ...[...functions, ...titles].map(([, name]) => name ?? "")]);
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

/**
 * @param {string} row of a table that peers fill
 * @param {ReadonlySet<string>} names of attacks and tests
 * @returns {string[]} what is wrong with it
 */
function rowProblems(row, names) {
  const cells = row.split("|").slice(1, -1);
  const [table = "", , , , test = ""] = cells.map((cell) => cell.trim());
  if (cells.length !== COLUMNS) return [`${DOCUMENT}: the row of ${table} has no ${COLUMNS} columns`];
  const given = [...test.matchAll(/`([^`]+)`/g)].map(([, name]) => name ?? "");
  if (given.length === 0 && test !== NO_TEST) {
    return [`${DOCUMENT}: ${table} names no attack and no test: say "${NO_TEST}" if there is none`];
  }
  return given
    .filter((name) => !names.has(name))
    .map((name) => `${DOCUMENT}: ${table} names ${name}, which is neither an attack nor a test`);
}

/** @returns {Promise<Finding>} */
async function tables() {
  const { text } = readSource(DOCUMENT);
  const [filled, others] = [section(text, FILLED_BY_PEERS), section(text, FILLED_BY_OTHERS)];
  const inCode = await tablesOfCode();
  const listed = [...named(filled), ...named(others)];
  const names = await played();
  const rows = filled.split("\n").filter((line) => line.startsWith("| `"));
  const problems = [
    ...listed
      .filter((table) => !inCode.has(table))
      .map((table) => `${DOCUMENT} lists \`${table}\`, which is not in the code: rename or remove it`),
    ...listed
      .filter((table, index) => listed.indexOf(table) !== index)
      .map((table) => `${DOCUMENT} lists \`${table}\` twice`),
    ...rows.flatMap((row) => rowProblems(row, names)),
    ...[...inCode]
      .filter((table) => !listed.includes(table))
      .map((table) => `${DOCUMENT} does not list \`${table}\`: say who fills it and what bounds it`),
  ];
  return { problems, note: `${inCode.size} tables, ${rows.length} rows of those that peers fill` };
}

/** @type {readonly Check[]} */
export const tablesChecks = [
  { name: "attacks", what: "docs/threats.md describes every attack that is played", run: attacks },
  { name: "tables", what: "docs/threats.md lists every table and what bounds it", run: tables },
];
