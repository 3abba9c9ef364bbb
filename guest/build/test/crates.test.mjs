import assert from "node:assert/strict";
import path from "node:path";
import { test } from "node:test";

import { foldersIn, foldersOfCrate } from "../lib/crates.mjs";
import { root } from "../lib/files.mjs";
import { TARGET } from "../lib/wasm.mjs";

/** @param {string} name */
const own = (name) => ({ id: name, name, manifest_path: `/repository/${name}/Cargo.toml`, source: null });
/**
 * @param {string} pkg
 * @param {string | null} kind
 */
const dep = (pkg, kind = null) => ({ pkg, dep_kinds: [{ kind }] });

test("a crate comes with what it and its build use, and without what only tests use", () => {
  const names = ["a", "b", "c", "d", "e"];
  const metadata = {
    packages: [...names.map(own), { ...own("foreign"), source: "elsewhere" }],
    resolve: {
      nodes: [
        { id: "a", deps: [dep("b"), dep("foreign"), dep("d", "dev")] },
        { id: "b", deps: [dep("c", "build"), dep("a", "dev")] },
        ...["c", "d", "e", "foreign"].map((id) => ({ id, deps: [] })),
      ],
    },
  };
  const folders = ["a", "b", "c"].map((name) => `/repository/${name}`);
  assert.deepEqual(foldersIn(metadata, "a"), folders);
});

test("a change of what capsules write makes their module anew", async () => {
  const folders = await foldersOfCrate("selfsame-capsule-wasm", TARGET);
  const names = folders.map((folder) => path.relative(root, folder));
  assert.ok(names.includes("guest/write-batch") && names.includes("guest/capsule"), names.join(", "));
  assert.ok(!names.includes("guest/core"), names.join(", "));
});
