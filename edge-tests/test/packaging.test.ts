/** The package as it would be published, in fresh projects: each runtime, and under each bundler. */
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { mkdirSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { join as joinPath } from "node:path";
import { after, before, describe, it } from "node:test";
import { Miniflare } from "miniflare";
import type { Browser } from "playwright-core";
import { join, memory, type NodeMesh } from "selfsame/node";
import { localWorker } from "selfsame-twiitr/local-worker";
import { freePort } from "selfsame-twiitr/ports";

import { ZoneServer } from "../../runtime/test/zone-server.ts";
import { HOW_TO_GET_A_BROWSER, launchChromium } from "../lib/chromium.ts";
import { DATA } from "../lib/cluster.ts";
import { readCore, serveFiles } from "../lib/files.ts";
import { Project, pack } from "../lib/project.ts";
import { DENO, run } from "../lib/run.ts";
import * as sources from "../packaging/sources.ts";

const ANSWER = "200 hello /from?who";
const resolve = createRequire(import.meta.url).resolve;
const bin = (name: string): string => joinPath(resolve(`${name}/package.json`), "..");
const core = await readCore();
const base64 = Buffer.from(core).toString("base64");

const browser: Browser | undefined = await launchChromium();
const projects: Project[] = [];
let tarball: string;
let mesh: NodeMesh;
let bootstrap: string;

before(async () => {
  const folder = joinPath(DATA, "packaging");
  rmSync(folder, { recursive: true, force: true });
  tarball = await pack(folder);
  const port = await freePort(8600);
  const address = `ws://127.0.0.1:${port}/.mesh`;
  mesh = await join({
    network: "packaging",
    address: [address, address.replace("ws", "http")],
    listen: { port, hostname: "127.0.0.1" },
    storage: memory(),
    allowPrivate: true,
  });
  const answer = (request: Request): Response => {
    const { pathname, search } = new URL(request.url);
    return new Response(`hello ${pathname}${search}`);
  };
  await mesh.serve("hello", answer, { unowned: true });
  bootstrap = `${address}#${mesh.id}`;
});

after(async () => {
  await mesh?.close();
  await browser?.close();
  for (const project of projects) project.remove();
});

async function projectOf(files: Record<string, string>, others?: Record<string, string>): Promise<Project> {
  const project = await Project.create(tarball, files, others);
  projects.push(project);
  return project;
}

/** Opens a built page in Chromium and returns what it got from the mesh. */
async function openPage(folder: string, files: readonly string[]): Promise<string> {
  const types: Record<string, string> = {
    html: "text/html",
    js: "text/javascript",
    wasm: "application/wasm",
  };
  const body = (file: string): Buffer => readFileSync(joinPath(folder, file));
  const served = files.map((file) => [
    file,
    { type: types[file.split(".").at(-1) ?? ""] ?? "", body: body(file) },
  ]);
  const server = await serveFiles(Object.fromEntries(served));
  try {
    const page = await (browser ?? assert.fail()).newPage();
    const errors: string[] = [];
    page.on("pageerror", (error) => errors.push(error.message));
    await page.goto(`${server.url}?${encodeURIComponent(bootstrap)}`);
    await page
      .waitForFunction("document.title !== ''", undefined, { timeout: 20_000 })
      .catch(() => undefined);
    assert.deepEqual(errors, []);
    return await page.title();
  } finally {
    server.close();
  }
}

const filesOf = (folder: string): string[] =>
  readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => joinPath(entry.parentPath, entry.name).slice(folder.length + 1));

describe("the packed package", () => {
  it("runs in Node", async () => {
    const project = await projectOf({ "call.js": sources.node });
    assert.equal((await project.run(process.execPath, ["call.js", bootstrap])).trim(), ANSWER);
  });

  it("runs in Deno without an unstable flag", async () => {
    const project = await projectOf({ "call.ts": sources.deno });
    const args = [
      "run",
      "--check",
      "--quiet",
      "--no-prompt",
      "--allow-net",
      "--allow-read",
      "call.ts",
      bootstrap,
    ];
    assert.equal((await project.run(DENO, args)).trim(), ANSWER);
  });

  it("runs in workerd: wrangler makes one .wasm module and no copy of it in the script", async () => {
    const files = { "worker.js": sources.worker, "wrangler.json": sources.wrangler };
    const project = await projectOf(files, { hono: "4.13.19" });
    const wrangler = joinPath(bin("wrangler"), "bin/wrangler.js");
    await project.run(process.execPath, [wrangler, "deploy", "--dry-run", "--outdir", "out"]);
    const built = filesOf(project.path("out"));
    const modules = built.filter((file) => file.endsWith(".wasm"));
    assert.equal(modules.length, 1, built.join(", "));
    const [wasm = ""] = modules;
    const sha256 = (bytes: Uint8Array): string => createHash("sha256").update(bytes).digest("hex");
    assert.equal(sha256(readFileSync(project.path("out", wasm))), sha256(core));
    const script = readFileSync(project.path("out/worker.js"), "utf8");
    assert.ok(!script.includes(base64.slice(0, 200)), "the script holds a copy of the core");
    assert.doesNotMatch(script, /[A-Za-z0-9+/_-]{10000}/, "the script holds a copy of some module");
    assert.ok(!script.includes("traceparent"), "telemetry is in a program that does not import it");
    await answersInWorkerd({
      "worker.js": script,
      [wasm]: new Uint8Array(readFileSync(project.path("out", wasm))),
    });
  });

  for (const [runtime, command, flags] of [
    ["Node", process.execPath, []],
    ["Deno", DENO, ["run", "--quiet", "--no-prompt", "--allow-net", "--allow-read", "--allow-env"]],
  ] as const) {
    it(`knows closed networks in ${runtime}`, async (t) => {
      const project = await projectOf({ "closed.js": sources.closed });
      const zone = await ZoneServer.start();
      t.after(() => zone.close());
      const args = [...flags, "closed.js", `test@${"11".repeat(32)}`, zone.url];
      assert.match(await project.run(command, args), /^[0-9a-f]{64}\nNoCertificate\n$/);
    });
  }

  it("gives a Worker the closed core when it joins closed networks, and no other Worker", async () => {
    const files = { "worker.js": sources.closedWorker, "wrangler.json": sources.wrangler };
    const project = await projectOf(files, { hono: "4.13.19" });
    const wrangler = joinPath(bin("wrangler"), "bin/wrangler.js");
    await project.run(process.execPath, [wrangler, "deploy", "--dry-run", "--outdir", "out"]);
    const modules = filesOf(project.path("out")).filter((file) => file.endsWith(".wasm"));
    const names = modules.map((file) => file.replace(/^.*?-(?=admission|core)/, ""));
    assert.deepEqual(names.sort(), ["admission.wasm", "core-closed.wasm", "core.wasm"]);
  });

  it("has types for every entry, under both ways to resolve them", async () => {
    const compilerOptions = {
      strict: true,
      noEmit: true,
      target: "es2022",
      lib: ["esnext", "dom", "dom.iterable"],
    };
    const project = await projectOf(
      { "use.ts": sources.types },
      { hono: "4.13.19", "@types/node": "24.19.2" },
    );
    for (const [module, moduleResolution] of [
      ["nodenext", "nodenext"],
      ["esnext", "bundler"],
    ]) {
      const options = { ...compilerOptions, module, moduleResolution, types: ["node"] };
      project.write("tsconfig.json", JSON.stringify({ compilerOptions: options, files: ["use.ts"] }));
      await project.run(process.execPath, [joinPath(bin("typescript"), "bin/tsc"), "-p", "."]);
    }
  });
});

describe("workers/cloudflare", () => {
  it("is deployed with each module once and no copy of one in the script", async (context) => {
    const out = joinPath(DATA, "packaging/cloudflare");
    const args = ["deploy", "--dry-run", "--outdir", out, "--config", "workers/cloudflare/wrangler.jsonc"];
    const printed = await run(process.execPath, [joinPath(bin("wrangler"), "bin/wrangler.js"), ...args]);
    const built = filesOf(out);
    const modules = built.filter((file) => file.endsWith(".wasm")).map((file) => file.split("-").at(-1));
    assert.deepEqual(modules.sort(), ["capsule.wasm", "core.wasm", "rpc.wasm"]);
    assert.ok(!readFileSync(joinPath(out, "index.js"), "utf8").includes(base64.slice(0, 200)));
    context.diagnostic(/Total Upload: .*/.exec(printed)?.[0] ?? "");
  });
});

describe("the packed package in a real browser", {
  skip: browser === undefined && HOW_TO_GET_A_BROWSER,
}, () => {
  const html = '<!doctype html><title></title><script type="module" src="./main.js"></script>';

  it("runs when esbuild bundles it, without configuration", async () => {
    const project = await projectOf({ "main.js": sources.browser });
    const { build } = await import("esbuild");
    const outfile = project.path("out/main.js");
    const entry = project.path("main.js");
    await build({
      entryPoints: [entry],
      outfile,
      bundle: true,
      format: "esm",
      target: "es2022",
      logLevel: "silent",
    });
    project.write("out/index.html", html);
    assert.equal(await openPage(project.path("out"), ["index.html", "main.js"]), ANSWER);
  });

  for (const [name, source, wasm] of [
    ["without configuration", sources.browser, 0],
    ["with the core as a file of its own", sources.viteSlim, 1],
  ] as const) {
    it(`runs when Vite builds it, ${name}`, async () => {
      const project = await projectOf({ "main.js": source, "index.html": html });
      const { build } = await import("vite");
      const bundling = { target: "es2022", modulePreload: false };
      await build({
        root: project.folder,
        base: "./",
        logLevel: "silent",
        configFile: false,
        build: bundling,
      });
      const built = filesOf(project.path("dist"));
      assert.equal(built.filter((file) => file.endsWith(".wasm")).length, wasm, built.join(", "));
      assert.equal(await openPage(project.path("dist"), built), ANSWER);
    });
  }
});

/** Runs what wrangler built and lets it call the mesh and be called. */
async function answersInWorkerd(modules: Record<string, string | Uint8Array<ArrayBuffer>>): Promise<void> {
  const port = await freePort(8650);
  const data = joinPath(DATA, "packaging/workerd");
  mkdirSync(data, { recursive: true });
  const url = `http://127.0.0.1:${port}`;
  const bindings = { BOOTSTRAP: bootstrap.replace(/^ws/, "http"), URL: `${url}/.mesh` };
  const miniflare = new Miniflare(
    localWorker({ modules, port, bindings, data, durableObjects: { NODE: "Node" } }),
  );
  try {
    await miniflare.ready;
    assert.equal(await (await fetch(`${url}/call`)).text(), ANSWER);
    const answer = await mesh.fetch("https://hello-worker.mesh/", { unowned: true });
    assert.equal(await answer.text(), "hello from workerd");
  } finally {
    await miniflare.dispose();
  }
}
