/** Paths of the checkout, content hashes, and writing files so that readers never see half of one. */

import { createHash } from "node:crypto";
import { mkdir, readdir, readFile, rename, writeFile } from "node:fs/promises";
import path from "node:path";
import process from "node:process";
import { fileURLToPath } from "node:url";

/** The root of the checkout. */
export const root = path.resolve(path.dirname(fileURLToPath(import.meta.url)), "../../..");

/** Where built things are kept that are expensive to make again; git ignores it. */
export const cache = path.join(root, ".cache");

/**
 * @param {string | Uint8Array} data
 * @returns {string} the SHA-256 in hexadecimal
 */
export function sha256(data) {
  return createHash("sha256").update(data).digest("hex");
}

/**
 * @param {string} file
 * @returns {Promise<Buffer | undefined>} the file's bytes, or `undefined` when there is no such file
 */
export async function readIfPresent(file) {
  try {
    return await readFile(file);
  } catch (error) {
    if (error instanceof Error && "code" in error && error.code === "ENOENT") {
      return undefined;
    }
    throw error;
  }
}

/**
 * Writes a file under another name first and moves it into place, so that it is either whole or absent.
 *
 * @param {string} file
 * @param {string | Uint8Array} data
 */
export async function writeWhole(file, data) {
  await mkdir(path.dirname(file), { recursive: true });
  const unfinished = `${file}.${process.pid}.unfinished`;
  await writeFile(unfinished, data);
  await rename(unfinished, file);
}

/**
 * @param {string} folder
 * @param {(name: string) => boolean} keep which files
 * @param {readonly string[]} [skip] names of folders that are left out
 * @returns {Promise<string[]>} the files below a folder, sorted, with absolute paths
 */
export async function listFiles(folder, keep, skip = []) {
  /** @type {string[]} */
  const found = [];
  for (const entry of await readdir(folder, { withFileTypes: true })) {
    const file = path.join(folder, entry.name);
    if (entry.isDirectory()) {
      if (!skip.includes(entry.name)) {
        found.push(...(await listFiles(file, keep, skip)));
      }
    } else if (keep(entry.name)) {
      found.push(file);
    }
  }
  return found.sort();
}

/**
 * One hash over many files, their paths relative to the root and their contents.
 *
 * @param {readonly string[]} files
 * @returns {Promise<string>}
 */
export async function hashFiles(files) {
  const hash = createHash("sha256");
  for (const file of files) {
    const name = path.relative(root, file).split(path.sep).join("/");
    hash.update(`${name}\0${sha256(await readFile(file))}\n`);
  }
  return hash.digest("hex");
}
