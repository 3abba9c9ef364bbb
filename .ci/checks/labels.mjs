/** Checks that the specification lists every label of a hash, a key or a signature that the sources use, and no other. */

import { occurrences, readSource, sources } from "../lib/sources.mjs";

/** @typedef {import("../lib/check.mjs").Check} Check */
/** @typedef {import("../lib/check.mjs").Finding} Finding */
/** @typedef {import("../lib/sources.mjs").Source} Source */

const FOLDER = "docs/specification/";
const DOCUMENT = `${FOLDER}codec.md`;
const TITLE = "## All labels";
/** What runs: the fuzzer, the simulator and the tests make labels of their own and repeat those of others. */
const CODE =
  /^(guest\/(core|capsule|codec|rpc|admission|sodium|capsule-wasm|rpc-wasm|admission-wasm|wasm)|host|runtime)\/src\/.*\.(rs|ts)$/;
const TESTS = /(\/tests?\.rs|\.test\.ts)$/;
const LITERAL = /"(selfsame\/1 [^"\n]+)"/g;
const ROW = /^\| `(selfsame\/1 [^`]+)` \| [^|]+ \| (?:\[[\w-]+\]\(([\w-]+\.md)\))? ?\|$/gm;

/**
 * @param {string} text of a Rust or TypeScript file
 * @returns {string} the text before its tests
 */
function withoutTests(text) {
  return text.split("#[cfg(test)]")[0] ?? "";
}

/**
 * @param {readonly Source[]} files
 * @returns {Map<string, string[]>} where each label is written, outside tests
 */
export function labelsOfCode(files) {
  /** @type {Map<string, string[]>} */
  const places = new Map();
  for (const { file, text } of files) {
    for (const { line, found } of occurrences(withoutTests(text), LITERAL)) {
      const label = found[1] ?? "";
      places.set(label, [...(places.get(label) ?? []), `${file}:${line}`]);
    }
  }
  return places;
}

/**
 * @param {string} document the page that lists all labels
 * @returns {{ label: string, page: string | undefined }[]} its rows
 */
export function labelsOfTable(document) {
  const [, after = ""] = document.split(`\n${TITLE}\n`);
  const table = after.split("\n## ")[0] ?? "";
  return [...table.matchAll(ROW)].map(([, label = "", page]) => ({ label, page }));
}

/**
 * @param {readonly string[]} places of one label
 * @returns {boolean} whether they are two, one in each host, which derive the same
 */
function isOfBothHosts(places) {
  return (
    places.length === 2 && ["host/", "runtime/"].every((host) => places.some((one) => one.startsWith(host)))
  );
}

/**
 * @param {readonly Source[]} files
 * @param {string} document
 * @param {(page: string) => string} read a page of the specification
 * @returns {string[]} what is wrong
 */
export function labelProblems(files, document, read) {
  const places = labelsOfCode(files);
  const rows = labelsOfTable(document);
  const listed = rows.map(({ label }) => label);
  // The key of a label that keys a hash of nothing is a constant: a test derives it.
  const isWritten = (/** @type {string} */ label) => files.some(({ text }) => text.includes(`"${label}"`));
  const isOn = (/** @type {string} */ label, /** @type {string} */ page) =>
    read(page).replaceAll(/\s+/g, " ").includes(label);
  return [
    ...[...places]
      .filter(([label]) => !listed.includes(label))
      .map(([label, [place]]) => `${DOCUMENT} does not list \`${label}\` (${place})`),
    ...[...places]
      .filter(([, all]) => all.length > 1 && !isOfBothHosts(all))
      .map(
        ([label, all]) => `\`${label}\` is written twice, and so might serve two purposes: ${all.join(", ")}`,
      ),
    ...listed
      .filter((label) => !isWritten(label))
      .map((label) => `${DOCUMENT} lists \`${label}\`, which the sources do not use`),
    ...listed
      .filter((label, index) => listed.indexOf(label) !== index)
      .map((label) => `${DOCUMENT} lists \`${label}\` twice`),
    ...rows
      .filter(({ label, page }) => page !== undefined && !isOn(label, page))
      .map(({ label, page }) => `${FOLDER}${page} does not say what \`${label}\` is for`),
  ];
}

/** @returns {Promise<Finding>} */
async function labels() {
  const files = (await sources(CODE)).filter(({ file }) => !TESTS.test(file));
  const document = readSource(DOCUMENT).text;
  const problems = labelProblems(files, document, (page) => readSource(FOLDER + page).text);
  return { problems, note: `${labelsOfTable(document).length} labels` };
}

/** @type {readonly Check[]} */
export const labelsChecks = [
  { name: "labels", what: "the specification lists every label of a hash, key or signature", run: labels },
];
