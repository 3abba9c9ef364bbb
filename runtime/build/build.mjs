// Builds dist/: both halves of the sources (Workers have types of their own), and the core inline for browsers.
import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("..", import.meta.url));
const core = join(root, "core", "core.wasm");
if (!existsSync(core)) {
  console.error(
    "runtime/core/core.wasm is missing: run `npm run build` at the root, which builds the core first",
  );
  process.exit(1);
}

const tsc = createRequire(import.meta.url).resolve("typescript/bin/tsc");
rmSync(join(root, "dist"), { recursive: true, force: true });
for (const project of ["tsconfig.workerd.json", "tsconfig.json"]) {
  execFileSync(process.execPath, [tsc, "-p", project, "--noEmit", "false"], { cwd: root, stdio: "inherit" });
}

const wasm = readFileSync(core);
const base64 = wasm.toString("base64");
writeFileSync(join(root, "dist", "core-base64.js"), `export const coreBase64 = "${base64}";\n`);
writeFileSync(join(root, "dist", "core-base64.d.ts"), readFileSync(join(root, "src", "core-base64.d.ts")));
const sha256 = createHash("sha256").update(Buffer.from(base64, "base64")).digest("hex");
console.log(`selfsame: dist/ built, core.wasm sha256 ${sha256}`);
