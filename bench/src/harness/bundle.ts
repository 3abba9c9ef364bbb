import { build } from "esbuild";

/** A source and all that it imports as one module of JavaScript, as users deploy it; what is no JavaScript stays an import. */
export async function bundle(entry: string): Promise<string> {
  const { outputFiles } = await build({
    entryPoints: [entry],
    bundle: true,
    external: ["*.wasm", "*.bin"],
    format: "esm",
    logLevel: "warning",
    minify: true,
    platform: "neutral",
    target: "es2024",
    write: false,
  });
  const [output] = outputFiles;
  if (output === undefined) throw new Error(`esbuild made nothing of ${entry}`);
  return output.text;
}
