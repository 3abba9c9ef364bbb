/**
 * The crate `blake3` with a function of ours, in `.cache/blake3`, for what is compiled to WebAssembly. Native builds use
 * the crate as it is.
 */

import { cp, readFile } from "node:fs/promises";
import path from "node:path";

import { must } from "./command.mjs";
import { cache, readIfPresent, root, writeWhole } from "./files.mjs";
import { replace } from "./replace.mjs";
import { Problem } from "./report.mjs";

const CRATE = "blake3";

/** @type {import("./replace.mjs").Replacement} One round in a loop, where upstream writes out seven. */
const COMPRESSION = {
  file: "src/portable.rs",
  from: "#[inline(always)]\nfn compress_pre(",
  until: "pub fn compress_in_place(",
  by: "guest/sodium/wasm/blake3_compress_pre.rs",
};

/** @returns {Promise<string>} where the crate that `Cargo.lock` names was unpacked */
async function releaseFolder() {
  const metadata = JSON.parse(
    await must("cargo", ["metadata", "--format-version", "1", "--locked"], { cwd: root }),
  );
  /** @type {{ name: string, manifest_path: string } | undefined} */
  const found = metadata.packages.find((/** @type {{ name: string }} */ entry) => entry.name === CRATE);
  if (found === undefined) {
    throw new Problem(`Cargo.lock no longer names ${CRATE}`);
  }
  return path.dirname(found.manifest_path);
}

/** @returns {Promise<string>} the folder of the changed crate, which cargo takes for the one in `Cargo.lock` */
export async function blake3Source() {
  const release = await releaseFolder();
  // Below the root, so that its place is the same in every checkout and so are the symbols named after it.
  const place = path.join(cache, "blake3", path.basename(release));
  const text = await readFile(path.join(release, COMPRESSION.file), "utf8");
  const changed = replace(text, COMPRESSION, await readFile(path.join(root, COMPRESSION.by), "utf8"));
  const file = path.join(place, COMPRESSION.file);
  // Written only when it differs: cargo compiles again what looks newer.
  if ((await readIfPresent(file))?.toString("utf8") !== changed) {
    await cp(release, place, { recursive: true });
    await writeWhole(file, changed);
  }
  return place;
}
