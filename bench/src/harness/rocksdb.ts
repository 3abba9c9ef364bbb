import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync } from "node:fs";
import path from "node:path";
import process from "node:process";
import { fileURLToPath } from "node:url";

import { Problem } from "./problem.ts";
import { progress } from "./progress.ts";

/** The release of RocksDB that its authors publish as a shared library, inside a Java package. */
const PACKAGE = "org.rocksdb:rocksdbjni:10.2.1";
const CACHE = fileURLToPath(new URL("../../../.cache/rocksdb/10.2.1/", import.meta.url));

const MISSING = `RocksDB is missing. Do one of these, then run it again:
  install Maven, with which this fetches RocksDB's own release (Debian: sudo apt-get install maven; macOS: brew install maven)
  install RocksDB (Debian: sudo apt-get install librocksdb-dev)
  say where its shared library is: ROCKSDB_LIBRARY=/path/to/librocksdb.so`;

/** Where systems keep the library that a package of theirs installs. */
const OF_SYSTEM = [
  `/usr/lib/${process.arch === "arm64" ? "aarch64" : "x86_64"}-linux-gnu/librocksdb.so`,
  "/usr/lib64/librocksdb.so",
  "/usr/lib/librocksdb.so",
  "/usr/local/lib/librocksdb.so",
  "/usr/local/lib/librocksdb.dylib",
];

/** What the library is called in the package. */
function nameInPackage(): string | undefined {
  const arm = process.arch === "arm64";
  if (process.platform === "linux") return `librocksdbjni-linux${arm ? "-aarch64" : "64"}.so`;
  if (process.platform === "darwin") return `librocksdbjni-osx-${arm ? "arm64" : "x86_64"}.jnilib`;
  return undefined;
}

/**
 * RocksDB's shared library: the one that `ROCKSDB_LIBRARY` names, or RocksDB's own release, fetched once, or else what the
 * system has.
 */
export function findRocksDb(): string {
  const named = process.env.ROCKSDB_LIBRARY;
  if (named !== undefined) {
    if (existsSync(named)) return named;
    throw new Problem(`ROCKSDB_LIBRARY names ${named}, which is not there`);
  }
  const found = fetched() ?? OF_SYSTEM.find((file) => existsSync(file));
  if (found === undefined) throw new Problem(MISSING);
  return found;
}

function fetched(): string | undefined {
  const name = nameInPackage();
  if (name === undefined) return undefined;
  const file = path.join(CACHE, name);
  if (existsSync(file)) return file;
  progress("fetching RocksDB");
  const goal = ["dependency:unpack", `-Dartifact=${PACKAGE}`, `-Dmdep.unpack.includes=${name}`];
  mkdirSync(CACHE, { recursive: true });
  // Without a project Maven leaves a folder of marks where it runs.
  spawnSync("mvn", ["-q", ...goal, `-DoutputDirectory=${CACHE}`], { cwd: CACHE, stdio: "ignore" });
  return existsSync(file) ? file : undefined;
}
