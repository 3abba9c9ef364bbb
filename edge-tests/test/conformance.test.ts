/** One recorded script of each module gives the same bytes in every runtime. */
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { before, describe, it } from "node:test";
import { build } from "esbuild";
import { Miniflare } from "miniflare";
import { localWorker } from "selfsame-twiitr/local-worker";

import { type Recording, record } from "../conformance/record.ts";
import { recordClosed } from "../conformance/record-closed.ts";
import { recordRpc } from "../conformance/record-rpc.ts";
import { replay } from "../conformance/replay.ts";
import { HOW_TO_GET_A_BROWSER, launchChromium } from "../lib/chromium.ts";
import { DATA } from "../lib/cluster.ts";
import { serveFiles } from "../lib/files.ts";
import { DENO, ROOT, run } from "../lib/run.ts";

/** What is replayed of a module, and the steps of the story that its script tells. */
type Case = {
  readonly module: "core" | "core-closed" | "rpc";
  /** The crate that is the module as native code. */
  readonly crate: string;
  readonly record: (module: WebAssembly.Module) => Promise<Recording>;
  readonly story: readonly string[];
};

const CASES: readonly Case[] = [
  {
    module: "core",
    crate: "selfsame-core",
    record,
    story: ["derived", "ring of two", "called check", "called echo", "found", "refused", "restarted", "left"],
  },
  {
    module: "core-closed",
    crate: "selfsame-core",
    record: recordClosed,
    story: [
      "derived",
      "ring of two",
      "called check",
      "called echo",
      "found",
      "refused",
      "restarted",
      "renewed",
      "revoked",
      "left",
    ],
  },
  {
    module: "rpc",
    crate: "selfsame-rpc",
    record: recordRpc,
    story: ["called", "replayed", "restarted", "rotated", "issued", "refused"],
  },
];

function hash(bytes: Uint8Array): string {
  return createHash("sha256").update(bytes).digest("hex");
}

/** Tells the first operation whose answers differ: whole transcripts say nothing to a person. */
function assertSame(actual: Uint8Array, expected: Uint8Array): void {
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

/** A module with its recorded script, in files and in memory. */
type Prepared = {
  readonly module: Case["module"];
  readonly crate: string;
  readonly file: string;
  readonly wasm: Uint8Array<ArrayBuffer>;
  readonly folder: string;
  readonly script: string;
  readonly recording: Recording;
};

async function prepare({ module, crate, record }: Case): Promise<Prepared> {
  const folder = join(DATA, "conformance", module);
  mkdirSync(folder, { recursive: true });
  const file = join(ROOT, `runtime/core/${module}.wasm`);
  const wasm = new Uint8Array(readFileSync(file));
  const recording = await record(await WebAssembly.compile(wasm));
  const script = join(folder, "script.bin");
  writeFileSync(script, recording.script);
  return { module, crate, file, wasm, folder, script, recording };
}

/** Replays the script in each place and returns the transcript; `undefined` where there is no such place. */
const PLACES: Readonly<Record<string, (prepared: Prepared) => Promise<Uint8Array | undefined>>> = {
  Node: async ({ wasm, recording }) => replay(await WebAssembly.compile(wasm), recording.script),
  Deno: inDeno,
  workerd: inWorkerd,
  Chromium: inChromium,
  "the wasmtime host, which embeds the module": inWasmtime,
  "native code": natively,
};

async function inDeno({ file, wasm, folder, script }: Prepared): Promise<Uint8Array> {
  const transcript = join(folder, "deno.bin");
  const program = join(ROOT, "edge-tests/conformance/replay-deno.ts");
  const allowed = ["--quiet", "--no-prompt", "--allow-read", `--allow-write=${folder}`];
  const printed = await run(DENO, ["run", ...allowed, program, file, script, transcript]);
  assert.equal(printed.trim(), hash(wasm));
  return readFileSync(transcript);
}

async function inWorkerd({ wasm, recording }: Prepared): Promise<Uint8Array> {
  const worker = await bundle("replay-worker", { external: ["*.wasm"] });
  const miniflare = new Miniflare(localWorker({ modules: { "index.js": worker, "module.wasm": wasm } }));
  try {
    const body = new Uint8Array(recording.script);
    const response = await fetch(await miniflare.ready, { method: "POST", body });
    assert.equal(response.status, 200);
    return await response.bytes();
  } finally {
    await miniflare.dispose();
  }
}

async function inChromium({ wasm, recording }: Prepared): Promise<Uint8Array | undefined> {
  const browser = await launchChromium();
  if (browser === undefined) return undefined;
  const server = await serveFiles({
    "index.html": {
      type: "text/html",
      body: '<!doctype html><script type="module" src="replay.js"></script>',
    },
    "replay.js": { type: "text/javascript", body: await bundle("replay-page") },
    "module.wasm": { type: "application/wasm", body: wasm },
    "script.bin": { type: "application/octet-stream", body: recording.script },
  });
  try {
    const page = await browser.newPage();
    await page.goto(server.url);
    const answer = await page.evaluate("replayed()");
    const { transcript, sha256 } = answer as { transcript: string; sha256: string };
    assert.equal(sha256, hash(wasm));
    return Buffer.from(transcript, "base64");
  } finally {
    await browser.close();
    server.close();
  }
}

async function inWasmtime({ module, wasm, folder, script }: Prepared): Promise<Uint8Array> {
  const [transcript, embedded] = [join(folder, "wasmtime.bin"), join(folder, "embedded.wasm")];
  const program = ["run", "--quiet", "--release", "--locked", "-p", "selfsame-host", "--example", "replay"];
  await run("cargo", [...program, "--", module, script, transcript, embedded]);
  assert.equal(hash(readFileSync(embedded)), hash(wasm));
  return readFileSync(transcript);
}

async function natively({ crate, folder, script }: Prepared): Promise<Uint8Array> {
  const transcript = join(folder, "native.bin");
  const program = ["run", "--quiet", "--locked", "-p", crate, "--example", "replay"];
  await run("cargo", [...program, "--", script, transcript]);
  return readFileSync(transcript);
}

for (const one of CASES) {
  describe(`the recorded script of ${one.module}.wasm`, () => {
    let prepared: Prepared;

    before(async () => {
      prepared = await prepare(one);
    });

    it("tells the whole story", (context) => {
      const { script, transcript, story } = prepared.recording;
      assert.deepEqual(story, one.story);
      const sha256 = hash(prepared.wasm);
      context.diagnostic(`${script.length} bytes in, ${transcript.length} bytes out, sha256 ${sha256}`);
    });

    it("is noticed to differ in a single byte", () => {
      const { transcript } = prepared.recording;
      const changed = transcript.slice();
      changed[changed.length - 1] = (changed.at(-1) ?? 0) ^ 1;
      assert.throws(() => assertSame(changed, transcript), /operation \d+ differs/);
    });

    for (const [place, replayIn] of Object.entries(PLACES)) {
      it(`gives the same bytes in ${place}`, async (context) => {
        const transcript = await replayIn(prepared);
        if (transcript === undefined) return context.skip(HOW_TO_GET_A_BROWSER);
        assertSame(transcript, prepared.recording.transcript);
      });
    }
  });
}
