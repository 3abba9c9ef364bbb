import { mkdirSync } from "node:fs";
import { createRequire } from "node:module";
import process from "node:process";
import { fileURLToPath } from "node:url";

import { CORE, type RpcFiles, source, type Ycsb } from "./build.ts";
import { TaskProcess } from "./process.ts";

/** The package finds or links its binary for this system. */
const denoPackage = createRequire(import.meta.url)("deno/install_api.cjs") as { runInstall(): string };

/** A process of Node, of the version that runs the harness. */
export function nodeProcess(primitives = ""): TaskProcess {
  const flags = ["--disable-warning=ExperimentalWarning"];
  return new TaskProcess("Node", process.execPath, [...flags, source("runners/node.ts"), CORE, primitives]);
}

/** A process of Deno. */
export function denoProcess(): TaskProcess {
  const flags = ["run", "--quiet", "--no-config", "--no-lock", "--allow-read"];
  return new TaskProcess("Deno", denoPackage.runInstall(), [...flags, source("runners/deno.ts"), CORE]);
}

/** A process of the wasmtime embedding. */
export function wasmtimeProcess(binary: string): TaskProcess {
  return new TaskProcess("wasmtime", binary, [CORE]);
}

/** A process of nodes of selfsame, with this core. */
export function meshProcess(binary: string, core: string): TaskProcess {
  return new TaskProcess("selfsame", binary, [core]);
}

/** A process of nodes of rust-libp2p's Kademlia. */
export function kadProcess(binary: string): TaskProcess {
  return new TaskProcess("rust-libp2p kad", binary, []);
}

/** A process of nodes of hyperdht, with memory for millions of values. */
export function hyperdhtProcess(): TaskProcess {
  const flags = ["--disable-warning=ExperimentalWarning", "--max-old-space-size=8192"];
  return new TaskProcess("hyperdht", process.execPath, [...flags, source("runners/hyperdht.ts")]);
}

/** A process of the native peers. */
export function nativeProcess(binary: string): TaskProcess {
  return new TaskProcess("native", binary, []);
}

/** Where peers create their stores: on the disk of the checkout, as folders for temporary files may be in memory. */
function storeFolder(): string {
  const folder = fileURLToPath(new URL("../../../.cache/bench/", import.meta.url));
  mkdirSync(folder, { recursive: true });
  return folder;
}

/** A process of YCSB on capsules, and on RocksDB if its library is given. */
export function ycsbProcess({ binary, primitives }: Ycsb, rocksdb?: string): TaskProcess {
  const library = rocksdb === undefined ? [] : [rocksdb];
  return new TaskProcess("ycsb", binary, [storeFolder(), primitives, ...library]);
}

/** A process of the encrypted RPC and its peers. */
export function rpcProcess({ binary, primitives }: RpcFiles): TaskProcess {
  return new TaskProcess("rpc", binary, [primitives]);
}

/** A process of capsules of the npm package. */
export function capsuleProcess(): TaskProcess {
  const flags = ["--disable-warning=ExperimentalWarning"];
  return new TaskProcess("capsule", process.execPath, [
    ...flags,
    source("runners/capsule.ts"),
    storeFolder(),
  ]);
}

/** A process of Deno with a replica of capsules, which finds the npm package through the project's `package.json`. */
export function denoReplicaProcess(): TaskProcess {
  const flags = ["run", "--quiet", "--no-prompt", "--cached-only", "--no-lock", "--allow-all"];
  const args = [...flags, source("runners/export-deno.ts"), storeFolder()];
  return new TaskProcess("Deno", denoPackage.runInstall(), args);
}

/** A process of hypercore. */
export function hypercoreProcess(): TaskProcess {
  const flags = ["--disable-warning=ExperimentalWarning"];
  return new TaskProcess("hypercore", process.execPath, [
    ...flags,
    source("runners/hypercore.ts"),
    storeFolder(),
  ]);
}
