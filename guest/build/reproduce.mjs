#!/usr/bin/env node
/**
 * Builds the core and the capsules twice from nothing, in two folders with names of different length, and compares the bytes. It takes a
 * few minutes: nothing is taken from a cache.
 */

import { existsSync } from "node:fs";
import { copyFile, mkdir, mkdtemp, rm, symlink } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import process from "node:process";

import { must } from "./lib/command.mjs";
import { readIfPresent, root } from "./lib/files.mjs";
import { during, note, Problem, run } from "./lib/report.mjs";

/** What decides the bytes of the modules, and the manifests that cargo wants to see beside it. */
const PARTS = ["Cargo.toml", "Cargo.lock", "rust-toolchain.toml", "guest", "host", "bench"];

/**
 * Copies the sources as they are now, edits included.
 *
 * @param {string} from
 * @param {string} to
 */
async function copySources(from, to) {
  const listed = await must(
    "git",
    ["ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", ...PARTS],
    {
      cwd: root,
    },
  );
  for (const name of listed.split("\0")) {
    const file = path.join(from, name);
    // Git also lists files that have just been removed.
    if (name !== "" && existsSync(file)) {
      await mkdir(path.dirname(path.join(to, name)), { recursive: true });
      await copyFile(file, path.join(to, name));
    }
  }
  await symlink(path.join(root, "node_modules"), path.join(to, "node_modules"), "junction");
}

/**
 * @param {string} folder
 * @returns {Promise<string>} the hashes of the modules built there
 */
async function buildIn(folder) {
  const env = { CARGO_TARGET_DIR: path.join(folder, "target") };
  await must(process.execPath, [path.join(folder, "guest/build/core.mjs")], { cwd: folder, env });
  const hashes = ["core", "capsule"].map(async (name) => {
    const record = await readIfPresent(path.join(folder, `runtime/core/${name}.json`));
    return JSON.parse(record?.toString("utf8") ?? "{}").sha256;
  });
  return (await Promise.all(hashes)).join(" ");
}

await run(async () => {
  const base = await mkdtemp(path.join(tmpdir(), "selfsame-"));
  try {
    const folders = ["a", "a-folder-with-a-longer-name"].map((name) => path.join(base, name));
    const [first = base, second = base] = folders;
    // The second copies the first, so that an edit in between cannot look like a difference of the builds.
    await copySources(root, first);
    await copySources(first, second);
    /** @type {string[]} */
    const hashes = [];
    for (const folder of folders) {
      const title = `build in ${path.basename(folder)}`;
      hashes.push(
        await during(
          title,
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
