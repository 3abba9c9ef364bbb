import path from "node:path";

import { build, type Plugin } from "esbuild";

/** A module of JavaScript, and the WebAssembly of packages that it imports, by file name. */
export interface Bundle {
  readonly script: string;
  readonly wasm: Readonly<Record<string, Uint8Array>>;
}

/** Keeps imports of WebAssembly and data beside the entry: the caller writes these files. */
const beside: Plugin = {
  name: "beside",
  setup: ({ onResolve }) =>
    onResolve({ filter: /^\.\/[^/]+\.(wasm|bin)$/ }, ({ path }) => ({ path, external: true })),
};

/**
 * Bundles a source and all that it imports into one module of JavaScript, as users deploy it. `conditions` choose among the entries of
 * packages.
 */
export async function bundle(entry: string, conditions: readonly string[] = []): Promise<Bundle> {
  const { outputFiles } = await build({
    entryPoints: [entry],
    assetNames: "[name]",
    bundle: true,
    conditions: [...conditions],
    external: ["cloudflare:*"],
    format: "esm",
    loader: { ".wasm": "copy" },
    logLevel: "warning",
    minify: true,
    outdir: ".",
    platform: "neutral",
    plugins: [beside],
    target: "es2024",
    write: false,
  });
  const script = outputFiles.find((file) => file.path.endsWith(".js"));
  if (script === undefined) throw new Error(`esbuild made nothing of ${entry}`);
  const wasm = outputFiles.filter((file) => file.path.endsWith(".wasm"));
  return {
    script: script.text,
    wasm: Object.fromEntries(wasm.map((file) => [path.basename(file.path), file.contents])),
  };
}
