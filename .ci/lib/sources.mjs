/** The files of the repository. */

import { lstatSync, readFileSync } from "node:fs";
import path from "node:path";

import { must } from "../../guest/build/lib/command.mjs";
import { root } from "../../guest/build/lib/files.mjs";

/** @typedef {{ file: string, text: string }} Source a path from the root, with slashes, and what stands there */

/** @type {Promise<string[]> | undefined} */
let known;

/** @returns {Promise<string[]>} every file that is committed or could be, sorted, as paths from the root */
export function sourceFiles() {
  known ??= listSources();
  return known;
}

async function listSources() {
  const args = ["ls-files", "-z", "--cached", "--others", "--exclude-standard", "--deduplicate"];
  const deleted = await must("git", ["ls-files", "-z", "--deleted"], { cwd: root });
  const gone = new Set(deleted.split("\0"));
  const listed = await must("git", args, { cwd: root });
  return (
    listed
      .split("\0")
      .filter((file) => file !== "" && !gone.has(file))
      // A link to a folder is listed like a file.
      .filter((file) => lstatSync(path.join(root, file)).isFile())
      .sort()
  );
}

/**
 * @param {RegExp} pattern
 * @returns {Promise<Source[]>} the files whose path fits
 */
export async function sources(pattern) {
  const files = await sourceFiles();
  return files.filter((file) => pattern.test(file)).map(readSource);
}

/**
 * @param {string} file a path from the root
 * @returns {Source}
 */
export function readSource(file) {
  return { file, text: readFileSync(path.join(root, file), "utf8") };
}

/**
 * @param {string} file a path from the root
 * @returns {any} the value of a JSON file
 */
export function readJson(file) {
  return JSON.parse(readSource(file).text);
}

/**
 * @param {string} text
 * @param {RegExp} pattern with the flag `g`
 * @returns {{ line: number, found: RegExpExecArray }[]} where it occurs, lines counted from 1
 */
export function occurrences(text, pattern) {
  return [...text.matchAll(pattern)].map((found) => ({
    line: text.slice(0, found.index).split("\n").length,
    found,
  }));
}
