#!/usr/bin/env node
/**
 * Builds the core twice from nothing, in two folders with names of different length, and compares the bytes. It takes a
 * few minutes: nothing is taken from a cache.
 */

import { copyFile, mkdir, mkdtemp, rm, symlink } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import process from "node:process";

import { must } from "./lib/command.mjs";
import { readIfPresent, root } from "./lib/files.mjs";
import { during, note, Problem, run } from "./lib/report.mjs";

/** What decides the bytes of the core, and the manifests that cargo wants to see beside it. */
const PARTS = ["Cargo.toml", "Cargo.lock", "rust-toolchain.toml", "guest", "host", "bench"];

/**
 * @param {string} folder
 * @returns {Promise<string>} the hash of the core built there
 */
async function buildIn(folder) {
  const listed = await must(
    "git",
    ["ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", ...PARTS],
    {
      cwd: root,
    },
  );
  for (const name of listed.split("\0").filter((entry) => entry !== "")) {
    const to = path.join(folder, name);
    await mkdir(path.dirname(to), { recursive: true });
    await copyFile(path.join(root, name), to).catch((error) => {
      // A file that git knows and somebody has just removed.
      if (error.code !== "ENOENT") {
        throw error;
      }
    });
  }
  await symlink(path.join(root, "node_modules"), path.join(folder, "node_modules"), "junction");
  const env = { CARGO_TARGET_DIR: path.join(folder, "target") };
  await must(process.execPath, [path.join(folder, "guest/build/core.mjs")], { cwd: folder, env });
  const record = await readIfPresent(path.join(folder, "runtime/core/core.json"));
  return JSON.parse(record?.toString("utf8") ?? "{}").sha256;
}

await run(async () => {
  const base = await mkdtemp(path.join(tmpdir(), "selfsame-"));
  try {
    /** @type {string[]} */
    const hashes = [];
    for (const name of ["a", "a-folder-with-a-longer-name"]) {
      const folder = path.join(base, name);
      await mkdir(folder);
      hashes.push(
        await during(
          `build in ${name}`,
          () => buildIn(folder),
          (hash) => hash,
        ),
      );
    }
    if (new Set(hashes).size !== 1) {
      throw new Problem(`two builds of the same source differ: ${hashes.join(" and ")}`);
    }
    note(`both builds are ${hashes[0]}`);
  } finally {
    await rm(base, { recursive: true, force: true });
  }
});
