// Builds dist/: both halves of the sources (Workers have types of their own), and the modules inline for browsers. It does
// nothing when no input has changed, and puts the result in place whole: others may be reading dist/ meanwhile.
import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("..", import.meta.url));
const MODULES = ["core", "core-closed", "capsule", "rpc", "admission"];
/** Under which name a module is inline. */
const INLINE = { "core-closed": "closedCore" };
const modules = Object.fromEntries(MODULES.map((name) => [name, join(root, "core", `${name}.wasm`)]));
const dist = join(root, "dist");
const STAMP = "inputs.sha256";

for (const [name, file] of Object.entries(modules)) {
  if (existsSync(file)) continue;
  console.error(
    `runtime/core/${name}.wasm is missing: run \`npm run build\` at the root, which builds it first`,
  );
  process.exit(1);
}
const inputs = hashOf([
  ...Object.values(modules),
  ...filesIn(join(root, "src")),
  ...["package.json", "tsconfig.json", "tsconfig.workerd.json", "../tsconfig.json", "build/build.mjs"].map(
    (file) => join(root, file),
  ),
]);
const stamp = join(dist, STAMP);
if (existsSync(stamp) && readFileSync(stamp, "utf8") === inputs) {
  console.log("selfsame: dist/ is up to date");
  process.exit(0);
}

const fresh = join(root, `dist.${process.pid}`);
const stale = join(root, `dist.${process.pid}.old`);
try {
  const tsc = createRequire(import.meta.url).resolve("typescript/bin/tsc");
  for (const project of ["tsconfig.workerd.json", "tsconfig.json"]) {
    const flags = ["-p", project, "--noEmit", "false", "--outDir", fresh];
    execFileSync(process.execPath, [tsc, ...flags], { cwd: root, stdio: "inherit" });
  }
  for (const [name, file] of Object.entries(modules)) {
    const base64 = readFileSync(file).toString("base64");
    const inline = INLINE[name] ?? name;
    writeFileSync(join(fresh, `${name}-base64.js`), `export const ${inline}Base64 = "${base64}";\n`);
    const types = `${name}-base64.d.ts`;
    writeFileSync(join(fresh, types), readFileSync(join(root, "src", types)));
  }
  writeFileSync(join(fresh, STAMP), inputs);
  if (existsSync(dist)) renameSync(dist, stale);
  renameSync(fresh, dist);
  console.log(`selfsame: dist/ built around core.wasm ${hashOf([modules.core]).slice(0, 16)}`);
} catch (error) {
  // The compiler has said what is wrong.
  if (error?.status === undefined) throw error;
  process.exitCode = 1;
} finally {
  rmSync(fresh, { recursive: true, force: true });
  rmSync(stale, { recursive: true, force: true });
}

function filesIn(folder) {
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name))
    .sort();
}

function hashOf(files) {
  const hash = createHash("sha256");
  for (const file of files) {
    const content = readFileSync(file);
    hash.update(`${file.slice(root.length)} ${content.length}\n`).update(content);
  }
  return hash.digest("hex");
}
