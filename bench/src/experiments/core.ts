import { gzipSync } from "node:zlib";

import { Core } from "../../../runtime/src/driver/core.ts";
import { buildEmbedded, readCore, source } from "../harness/build.ts";
import { BrowserPage } from "../harness/chromium.ts";
import type { Experiment, Run } from "../harness/experiment.ts";
import { interleave, type Work } from "../harness/measure.ts";
import {
  excessAtMost,
  figure,
  oursAtMost,
  oursBelow,
  type Row,
  type TimeUnit,
  timed,
} from "../harness/row.ts";
import { denoProcess, nodeProcess, wasmtimeProcess } from "../harness/runtimes.ts";
import { exactly } from "../harness/statistics.ts";
import { firstAnswer, Workerd, WorkerFiles } from "../harness/workerd.ts";
import { NETWORK, seed } from "../runners/first-node.ts";

/** 110 kB of a Worker's compressed size, in units of 1000 bytes as Cloudflare counts them. */
const MOST_GZIPPED_BYTES = 112_000;
/** What the core may add to the processor time of a Worker's first answer. */
const MOST_FIRST_ANSWER_MS = 4;
/** Process starts of each Worker. */
const FIRST_ANSWERS = 50;
const QUICK_FIRST_ANSWERS = 9;
/** Nodes in one instance, and what its memory must stay below. */
const NODES = 10;
const MEMORY_LIMIT_BYTES = 8_000_000;

/** Turns are shorter than elsewhere: there are many of them, and no bar depends on these figures. */
const TURN_MS = 100;

/** What is timed in each runtime; workerd compiles when it loads the Worker, so it is asked for less. */
const TASKS: readonly {
  readonly task: string;
  readonly what: string;
  readonly unit: TimeUnit;
  readonly compiles: boolean;
}[] = [
  { task: "compile", what: "compile the module", unit: "ms", compiles: true },
  { task: "cold", what: "compile, instantiate, create a node, first step", unit: "ms", compiles: true },
  { task: "instantiate", what: "instantiate", unit: "us", compiles: false },
  { task: "start", what: "instantiate, create a node, first step", unit: "us", compiles: false },
  { task: "step/0", what: "a step without inputs", unit: "ns", compiles: false },
  { task: "step/1", what: "a step with 1 input", unit: "ns", compiles: false },
  { task: "step/10", what: "a step with 10 inputs", unit: "ns", compiles: false },
];

/** A runtime that can do tasks. */
interface Runtime {
  readonly name: string;
  readonly compiles: boolean;
  work(task: string): Work;
}

function sizeRows(core: Uint8Array<ArrayBuffer>): Row[] {
  const imports = WebAssembly.Module.imports(new WebAssembly.Module(core));
  const gzipped = gzipSync(core, { level: 9 }).length;
  return [
    figure("imports of core.wasm", "imports", exactly(imports.length), oursAtMost(0)),
    figure("core.wasm", "bytes", exactly(core.length)),
    figure("core.wasm, gzip -9", "bytes", exactly(gzipped), oursAtMost(MOST_GZIPPED_BYTES)),
  ];
}

async function boundaryRows(runtimes: readonly Runtime[], run: Run): Promise<Row[]> {
  const rows: Row[] = [];
  for (const { task, what, unit, compiles } of TASKS) {
    const able = runtimes.filter((runtime) => !compiles || runtime.compiles);
    const works = able.map((runtime) => runtime.work(task));
    const effort = { ...run.effort, roundMs: Math.min(TURN_MS, run.effort.roundMs) };
    const samples = await interleave(works, effort, run.progress);
    able.forEach((runtime, index) => {
      rows.push(timed(`${what}, ${runtime.name}`, unit, samples[index] ?? []));
    });
  }
  return rows;
}

/** What a host has of the node's public key after its first start. */
async function knownKey(core: Uint8Array<ArrayBuffer>): Promise<Uint8Array> {
  const instance = await Core.instantiate(new WebAssembly.Module(core));
  return instance.deriveIdentity(seed(), NETWORK, new Uint8Array()).knownKey;
}

/** Measured before other programs run: what they leave in the processor's caches would be counted too. */
async function firstAnswerRows(core: Uint8Array<ArrayBuffer>, run: Run): Promise<Row[]> {
  const entry = source("runners/first-with-core.ts");
  const ours = { "core.wasm": core, "known-key.bin": new Uint8Array() };
  await using without = await WorkerFiles.write(source("runners/first-without-core.ts"));
  await using first = await WorkerFiles.write(entry, ours);
  await using later = await WorkerFiles.write(entry, { ...ours, "known-key.bin": await knownKey(core) });
  const starts = run.quick ? QUICK_FIRST_ANSWERS : FIRST_ANSWERS;
  const samples = { without: [] as number[], first: [] as number[], later: [] as number[] };
  for (let round = 0; round < starts; round += 1) {
    run.progress(`round ${round + 1} of ${starts}: first answers of fresh workerds`);
    samples.without.push(await firstAnswer(without));
    samples.first.push(await firstAnswer(first));
    samples.later.push(await firstAnswer(later));
  }
  const what = `CPU from a fresh workerd to its first answer, ${starts} starts`;
  const peer = { name: "the same Worker without the core", samples: samples.without };
  const bar = excessAtMost(MOST_FIRST_ANSWER_MS);
  return [
    timed(`${what}, a new node`, "ms", samples.first, peer, bar),
    timed(`${what}, a node that started before`, "ms", samples.later, peer, bar),
  ];
}

async function measure(core: Uint8Array<ArrayBuffer>, embedded: string, run: Run): Promise<Row[]> {
  const firstAnswers = await firstAnswerRows(core, run);
  await using files = await WorkerFiles.write(source("runners/worker.ts"), { "core.wasm": core });
  await using node = nodeProcess();
  await using deno = denoProcess();
  await using workerd = await Workerd.start(files);
  await using wasmtime = wasmtimeProcess(embedded);
  const browser = await BrowserPage.open(source("runners/page.ts"), core);
  await using page = typeof browser === "string" ? null : browser;
  if (typeof browser === "string") run.progress(`without Chromium: ${browser}`);
  const runtimes: Runtime[] = [
    { name: "Node", compiles: true, work: (task) => node.work(task) },
    { name: "Deno", compiles: true, work: (task) => deno.work(task) },
    { name: "workerd", compiles: false, work: (task) => workerd.work(task) },
    { name: "wasmtime", compiles: true, work: (task) => wasmtime.work(task) },
  ];
  if (page !== null) runtimes.push({ name: "Chromium", compiles: true, work: (task) => page.work(task) });
  const rows = [...sizeRows(core), ...(await boundaryRows(runtimes, run)), ...firstAnswers];
  const memory = Number(await node.request("memory", NODES));
  const what = `memory of ${NODES} nodes of one ring in one instance`;
  return [...rows, figure(what, "bytes", exactly(memory), oursBelow(MEMORY_LIMIT_BYTES))];
}

/** Size, start-up, cost of the boundary and memory. */
export const core: Experiment = {
  name: "core",
  summary: "size, start-up, boundary cost and memory of core.wasm in every runtime",
  async prepare() {
    const wasm = await readCore();
    const embedded = await buildEmbedded();
    return (run) => measure(wasm, embedded, run);
  },
};
