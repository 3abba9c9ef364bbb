/** A home as it is on a new machine: rustup is installed and nothing was ever downloaded. */

import { copyFile, link, mkdir, readdir } from "node:fs/promises";
import { homedir } from "node:os";
import path from "node:path";
import process from "node:process";

import { attempt } from "../../guest/build/lib/command.mjs";

/** What tells programs where things are that must not be used. */
const FORGOTTEN =
  /^(npm_|NPM_CONFIG_|CARGO|RUSTUP_(HOME|TOOLCHAIN)$|RUSTFLAGS$|SELFSAME_|INIT_CWD$|NODE$|XDG_|DENO_DIR$)/;

/**
 * @param {string} home where to make it
 * @returns {Promise<NodeJS.ProcessEnv>} the environment of a person who lives there
 */
export async function freshHome(home) {
  const cargoHome = process.env.CARGO_HOME ?? path.join(homedir(), ".cargo");
  const [oldBin, bin] = [path.join(cargoHome, "bin"), path.join(home, ".cargo/bin")];
  await mkdir(bin, { recursive: true });
  if ((await attempt("rustup", ["--version"])) !== undefined) {
    await copyProxies(oldBin, bin);
  }
  const kept = Object.entries(process.env).filter(([name]) => !FORGOTTEN.test(name));
  const folders = (process.env.PATH ?? "")
    .split(path.delimiter)
    .filter((folder) => folder !== oldBin && !folder.includes("node_modules"));
  return {
    ...Object.fromEntries(kept),
    HOME: home,
    PATH: [bin, ...folders].join(path.delimiter),
    CARGO_HOME: path.join(home, ".cargo"),
    RUSTUP_HOME: path.join(home, ".rustup"),
  };
}

/**
 * All of rustup's programs are one file under many names.
 *
 * @param {string} from
 * @param {string} to
 */
async function copyProxies(from, to) {
  const names = await readdir(from);
  await copyFile(path.join(from, "rustup"), path.join(to, "rustup"));
  for (const name of names.filter((name) =>
    /^(cargo|rustc|rustdoc|rustfmt|cargo-(clippy|fmt)|clippy-driver)$/.test(name),
  )) {
    await link(path.join(to, "rustup"), path.join(to, name));
  }
}
