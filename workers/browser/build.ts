// Builds the page into `dist`: one script, the two modules beside it, and the files that need no work.
import { copyFileSync, mkdirSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const here = (path: string): string => fileURLToPath(new URL(path, import.meta.url));

/** Builds the page and returns its folder. */
export async function buildPage(): Promise<string> {
  const dist = here("dist");
  mkdirSync(dist, { recursive: true });
  await build({
    entryPoints: [here("src/main.ts")],
    outdir: dist,
    bundle: true,
    // What only closed networks need is a file of its own; what it shares with the rest is a third one.
    splitting: true,
    chunkNames: "[name]",
    format: "esm",
    target: "es2022",
    minify: true,
    sourcemap: true,
    conditions: ["browser"],
    logLevel: "warning",
  });
  for (const file of ["index.html", "style.css", "capsule.css", "icon.svg"])
    copyFileSync(here(file), `${dist}/${file}`);
  for (const file of ["core.wasm", "capsule.wasm"]) {
    copyFileSync(fileURLToPath(import.meta.resolve(`selfsame/${file}`)), `${dist}/${file}`);
  }
  return dist;
}

if (import.meta.main) process.stdout.write(`${await buildPage()}\n`);
