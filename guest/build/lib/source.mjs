/** Gets libsodium's source: the archive inside a crate that cargo downloads and checks. */

import { readFile } from "node:fs/promises";
import path from "node:path";
import { gunzipSync } from "node:zlib";

import { must } from "./command.mjs";
import { root, sha256 } from "./files.mjs";
import { Problem } from "./report.mjs";
import { untar } from "./tar.mjs";

const CRATE = "libsodium-sys-stable";
const TARBALL = "LATEST.tar.gz";
/** libsodium 1.0.22; `guest/sodium/build.rs` holds the same value for the native build. */
export const TARBALL_SHA256 = "eb9873cc5ccd7b26ef058394264663c99e9c047b423be1ffd484071774198f26";

/** @returns {Promise<Map<string, Uint8Array>>} libsodium's files by their path inside the release */
export async function sodiumSource() {
  const manifest = path.join(root, "guest/sodium/source/Cargo.toml");
  const args = ["metadata", "--format-version", "1", "--locked", "--manifest-path", manifest];
  const metadata = JSON.parse(await must("cargo", args));
  /** @type {{ name: string, manifest_path: string } | undefined} */
  const found = metadata.packages.find((/** @type {{ name: string }} */ entry) => entry.name === CRATE);
  if (found === undefined) {
    throw new Problem(`${manifest} no longer names ${CRATE}, which holds libsodium's source`);
  }
  const file = path.join(path.dirname(found.manifest_path), TARBALL);
  const tarball = await readFile(file);
  const digest = sha256(tarball);
  if (digest !== TARBALL_SHA256) {
    throw new Problem(
      `${file} has sha256 ${digest}, expected ${TARBALL_SHA256}: remove that folder and try again`,
    );
  }
  /** @type {Map<string, Uint8Array>} */
  const files = new Map();
  for (const [name, data] of untar(gunzipSync(tarball))) {
    files.set(name.slice(name.indexOf("/") + 1), data);
  }
  return files;
}
