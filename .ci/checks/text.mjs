/** Checks of the sources as text. */

import { lengthProblems } from "../lib/ratchet.mjs";
import { occurrences, readJson, readSource, sourceFiles, sources } from "../lib/sources.mjs";
import { functionLengths } from "../lib/typescript.mjs";

/** @typedef {import("../lib/check.mjs").Check} Check */
/** @typedef {import("../lib/check.mjs").Finding} Finding */

/** Longest file; beyond it a reader loses the thread. */
const MAX_FILE_LINES = 600;
/** Longest function, counted as `clippy::too_many_lines` does for Rust (see clippy.toml): lines of its body with code. */
const MAX_FUNCTION_LINES = 70;

const CODE = /\.(rs|ts|mjs|js|py)$/;
const SCRIPTS = /\.(ts|mjs|js)$/;
/** Test vectors by others and data may hold any character. */
const ASCII_ONLY = /\.(rs|ts|mjs|js|py|sh|toml|css|html|c|h|cddl|yml)$|^\.ci\/[a-z]+$/;
/** Lock files name the registry that a package manager knows anyway; checksums in them are long words. */
const LOCK = /(^|\/)(Cargo\.lock|package-lock\.json)$/;

/** What only makes sense on the machine of whoever wrote it. */
const MACHINE = [
  { what: "a path of one machine", pattern: /(?<![\w.])\/(work|root|farm|opt|srv|mnt)\/[a-z.][\w./-]*/g },
  { what: "where packages lie on one machine", pattern: /--(find-links|(extra-)?index-url)\b/g },
  { what: "a path of one machine", pattern: /(?<![\w.])\/(home|Users)\/[\w-]+\/[\w./-]*/g },
  {
    what: "the host of a package registry",
    pattern: /\b(registry\.(npmjs\.org|yarnpkg\.com)|(static|index)\.crates\.io|files\.pythonhosted\.org)\b/g,
  },
];

const UNFINISHED = [
  { what: "unfinished code", pattern: /\b(todo|unimplemented)!\s*\(/g },
  { what: "a note to finish something", pattern: /\b(TODO|FIXME|XXX|HACK)\b/g },
  { what: "a test that never runs", pattern: /#\[ignore\b|\b(test|it|describe|suite)\.(skip|todo)\(/g },
  { what: "a test that keeps others from running", pattern: /\b(test|it|describe|suite)\.only\(/g },
];

/** This file and its tests write down what they look for. */
const ABOUT_TEXT = /^\.ci\/(checks\/text|test\/text\.test)\.mjs$/;

/**
 * @param {readonly import("../lib/sources.mjs").Source[]} files
 * @param {readonly { what: string, pattern: RegExp }[]} rules
 * @returns {string[]}
 */
export function offences(files, rules) {
  return files.flatMap(({ file, text }) =>
    rules.flatMap(({ what, pattern }) =>
      occurrences(text, pattern).map(({ line, found }) => `${file}:${line}: ${what}: ${found[0]}`),
    ),
  );
}

async function asciiOnly() {
  const pattern = /[^\t\n\r\u0020-\u007e]+/g;
  const files = await sources(ASCII_ONLY);
  return {
    problems: offences(files, [{ what: "a character outside ASCII (write it as an escape)", pattern }]),
  };
}

async function machinePaths() {
  const files = (await sourceFiles()).filter((file) => !LOCK.test(file) && !ABOUT_TEXT.test(file));
  return { problems: offences(files.map(readSource), MACHINE) };
}

async function unfinished() {
  const files = (await sources(CODE)).filter(({ file }) => !ABOUT_TEXT.test(file));
  return { problems: offences(files, UNFINISHED) };
}

/** @returns {Promise<Finding>} */
async function fileLength() {
  const lengths = new Map((await sources(CODE)).map(({ file, text }) => [file, text.split("\n").length - 1]));
  return report(lengths, MAX_FILE_LINES, readJson(".ci/limits.json").fileLines);
}

/** @returns {Promise<Finding>} */
async function functionLength() {
  const lengths = new Map((await sources(SCRIPTS)).flatMap(functionLengths));
  return report(lengths, MAX_FUNCTION_LINES, readJson(".ci/limits.json").functionLines);
}

/**
 * @param {Map<string, number>} lengths
 * @param {number} limit
 * @param {Record<string, number>} exceptions
 * @returns {Finding}
 */
function report(lengths, limit, exceptions) {
  const longest = Math.max(0, ...lengths.values());
  const note = `longest ${longest}, ${Object.keys(exceptions).length} exceptions`;
  return { problems: lengthProblems(lengths, limit, exceptions), note };
}

/** @type {readonly Check[]} */
export const text = [
  { name: "ascii", what: "sources are ASCII", run: asciiOnly },
  { name: "machine-paths", what: "no paths of a machine, no registry hosts", run: machinePaths },
  { name: "unfinished", what: "nothing unfinished, no test switched off", run: unfinished },
  { name: "file-length", what: `files up to ${MAX_FILE_LINES} lines`, run: fileLength },
  {
    name: "function-length",
    what: `TypeScript functions up to ${MAX_FUNCTION_LINES} lines`,
    run: functionLength,
  },
];
