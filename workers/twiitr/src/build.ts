import { spawn } from "node:child_process";
import { existsSync, mkdirSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { build as bundle } from "esbuild";
import { buildPage } from "selfsame-browser/build";

import type { AdmissionName } from "./admission.ts";
import { DATA, ROOT } from "./folders.ts";
import type { Built } from "./programs.ts";

/** Hears what is being done. */
export type Say = (what: string) => void;

const SUFFIX = process.platform === "win32" ? ".exe" : "";

/** Builds what is missing or out of date. */
export async function buildAll(say: Say, admission: AdmissionName = "open"): Promise<Built> {
  const host = await buildHost(say);
  say("the Worker, the Deno app and the page");
  const page = await buildPage();
  const worker = await buildWorker(admission);
  return { ...host, worker, page, deno: createRequire(import.meta.url).resolve(`deno/deno${SUFFIX}`) };
}

/** Builds the core, the package around it and the wasmtime host. */
export async function buildHost(say: Say): Promise<Pick<Built, "selfsame" | "appauth">> {
  say("the core: Rust and libsodium to one WebAssembly module");
  await run(process.execPath, [join(ROOT, "guest/build/core.mjs")]);
  say("the package: TypeScript for workerd, Deno, Node and browsers");
  await run(process.execPath, [join(ROOT, "runtime/build/build.mjs")]);
  const { CARGO_TARGET_DIR } = process.env;
  const target = join(CARGO_TARGET_DIR ?? join(ROOT, "target"), "release");
  const isCold = !existsSync(join(target, "deps"));
  say(`the wasmtime host${isCold ? ": the first time this takes some minutes" : ""}`);
  const what = ["--bin", "selfsame", "--example", "appauth"];
  await run("cargo", ["build", "--quiet", "--release", "--locked", "-p", "selfsame-host", ...what]);
  return {
    selfsame: join(target, `selfsame${SUFFIX}`),
    appauth: join(target, `examples/appauth${SUFFIX}`),
  };
}

/** The Worker of `workers/cloudflare`, built. */
async function buildWorker(admission: AdmissionName): Promise<string> {
  const entry = admission === "dns" ? "closed" : "index";
  const outdir = join(DATA, "worker", entry);
  await bundleWorker(join(ROOT, `workers/cloudflare/src/${entry}.ts`), outdir);
  return outdir;
}

/** A Worker as workerd takes it: one script, named after its source, and `core.wasm` beside it as a module. */
export async function bundleWorker(entry: string, outdir: string): Promise<void> {
  mkdirSync(outdir, { recursive: true });
  await bundle({
    entryPoints: [entry],
    outdir,
    bundle: true,
    format: "esm",
    target: "es2024",
    conditions: ["workerd"],
    external: ["cloudflare:*", "node:*"],
    loader: { ".wasm": "copy" },
    assetNames: "[name]",
    logLevel: "warning",
  });
}

function run(command: string, args: string[]): Promise<void> {
  return new Promise((resolve, reject) => {
    const child = spawn(command, args, { cwd: ROOT, stdio: ["ignore", "inherit", "inherit"] });
    child.on("error", (error) => reject(new Error(`${command} could not be started: ${error.message}`)));
    child.on("close", (code) => {
      if (code === 0) resolve();
      else reject(new Error(`${command} ${args.join(" ")} ended with ${code}`));
    });
  });
}
