/** One recorded script gives the same bytes in every runtime. */
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { before, describe, it } from "node:test";
import { build } from "esbuild";
import { Miniflare } from "miniflare";
import { localWorker } from "selfsame-twiitr/local-worker";

import { type Recording, record } from "../conformance/record.ts";
import { replay } from "../conformance/replay.ts";
import { HOW_TO_GET_A_BROWSER, launchChromium } from "../lib/chromium.ts";
import { DATA } from "../lib/cluster.ts";
import { readCore, serveFiles } from "../lib/files.ts";
import { DENO, ROOT, run } from "../lib/run.ts";

const folder = join(DATA, "conformance");
const script = join(folder, "script.bin");
const core = await readCore();
const sha256 = hash(core);
let recording: Recording;

before(async () => {
  mkdirSync(folder, { recursive: true });
  recording = await record(await WebAssembly.compile(core));
  writeFileSync(script, recording.script);
});

function hash(bytes: Uint8Array): string {
  return createHash("sha256").update(bytes).digest("hex");
}

/** Tells the first operation whose answers differ: whole transcripts say nothing to a person. */
function assertSame(actual: Uint8Array): void {
  const expected = recording.transcript;
  if (Buffer.compare(actual, expected) === 0) return;
  const view = (bytes: Uint8Array): DataView => new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  for (let at = 0, operation = 0; at < expected.length; operation++) {
    const end = at + 4 + view(expected).getUint32(at, true);
    const [mine, theirs] = [expected, actual].map((bytes) =>
      Buffer.from(bytes.subarray(at, end)).toString("hex"),
    );
    assert.equal(theirs, mine, `the answer to operation ${operation} differs`);
    at = end;
  }
  assert.fail("the transcript is longer than it should be");
}

async function bundle(name: string, extra: object = {}): Promise<string> {
  const entry = join(ROOT, `edge-tests/conformance/${name}.ts`);
  const { outputFiles } = await build({
    entryPoints: [entry],
    bundle: true,
    format: "esm",
    write: false,
    ...extra,
  });
  return outputFiles[0]?.text ?? assert.fail("nothing was bundled");
}

describe("the recorded script", () => {
  it("tells the whole story", (context) => {
    assert.deepEqual(recording.story, [
      "derived",
      "ring of two",
      "called check",
      "called echo",
      "found",
      "refused",
      "restarted",
      "left",
    ]);
    const { script, transcript } = recording;
    context.diagnostic(`${script.length} bytes in, ${transcript.length} bytes out, core.wasm ${sha256}`);
  });

  it("is noticed to differ in a single byte", () => {
    const changed = recording.transcript.slice();
    changed[changed.length - 1] = (changed.at(-1) ?? 0) ^ 1;
    assert.throws(() => assertSame(changed), /operation \d+ differs/);
  });
});

describe("the same bytes come out of", () => {
  it("Node", async () => {
    assertSame(await replay(await WebAssembly.compile(core), recording.script));
  });

  it("Deno", async () => {
    const [file, transcript] = [
      new URL(import.meta.resolve("selfsame/core.wasm")).pathname,
      join(folder, "deno.bin"),
    ];
    const program = join(ROOT, "edge-tests/conformance/replay-deno.ts");
    const allowed = ["--quiet", "--no-prompt", "--allow-read", `--allow-write=${folder}`];
    const printed = await run(DENO, ["run", ...allowed, program, file, script, transcript]);
    assert.equal(printed.trim(), sha256);
    assertSame(readFileSync(transcript));
  });

  it("workerd", async () => {
    const worker = await bundle("replay-worker", { external: ["*.wasm"] });
    const miniflare = new Miniflare(localWorker({ modules: { "index.js": worker, "core.wasm": core } }));
    try {
      const response = await fetch(await miniflare.ready, {
        method: "POST",
        body: new Uint8Array(recording.script),
      });
      assert.equal(response.status, 200);
      assertSame(await response.bytes());
    } finally {
      await miniflare.dispose();
    }
  });

  it("Chromium", async (context) => {
    const browser = await launchChromium();
    if (browser === undefined) return context.skip(HOW_TO_GET_A_BROWSER);
    const server = await serveFiles({
      "index.html": {
        type: "text/html",
        body: '<!doctype html><script type="module" src="replay.js"></script>',
      },
      "replay.js": { type: "text/javascript", body: await bundle("replay-page") },
      "core.wasm": { type: "application/wasm", body: core },
      "script.bin": { type: "application/octet-stream", body: recording.script },
    });
    try {
      const page = await browser.newPage();
      await page.goto(server.url);
      const answer = await page.evaluate("replayed()");
      const { transcript, sha256: loaded } = answer as { transcript: string; sha256: string };
      assert.equal(loaded, sha256);
      assertSame(Buffer.from(transcript, "base64"));
    } finally {
      await browser.close();
      server.close();
    }
  });

  it("the wasmtime host, with the core that it embeds", async () => {
    const [transcript, embedded] = [join(folder, "wasmtime.bin"), join(folder, "embedded.wasm")];
    const program = ["run", "--quiet", "--release", "--locked", "-p", "selfsame-host", "--example", "replay"];
    await run("cargo", [...program, "--", script, transcript, embedded]);
    assert.equal(hash(readFileSync(embedded)), sha256);
    assertSame(readFileSync(transcript));
  });

  it("native code", async () => {
    const transcript = join(folder, "native.bin");
    const program = ["run", "--quiet", "--locked", "-p", "selfsame-core", "--example", "replay"];
    await run("cargo", [...program, "--", script, transcript]);
    assertSame(readFileSync(transcript));
  });
});
