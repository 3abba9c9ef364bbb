import { buildEmbedded, buildNative, buildPrimitives, readCore } from "../harness/build.ts";
import type { Experiment, Run } from "../harness/experiment.ts";
import { interleave } from "../harness/measure.ts";
import { type Row, ratioAtLeast, timed } from "../harness/row.ts";
import { nativeProcess, nodeProcess, wasmtimeProcess } from "../harness/runtimes.ts";

/** Lengths of the messages; the bars are on the first one, where what is not cryptography counts most. */
const LENGTHS = [
  { bytes: 64, label: "64 B", barred: true },
  { bytes: 1024, label: "1 KiB", barred: false },
  { bytes: 16384, label: "16 KiB", barred: false },
] as const;

const FASTER_THAN_JS_LIBP2P = 10;
const OF_NATIVE = 0.45;

/** What is measured, with the files that it needs. */
interface Files {
  readonly native: string;
  readonly embedded: string;
  readonly primitives: string;
}

async function measureLength(files: Files, length: (typeof LENGTHS)[number], run: Run): Promise<Row[]> {
  const { bytes, label, barred } = length;
  await using ours = nodeProcess();
  await using libp2p = nodeProcess();
  await using synchronous = nodeProcess();
  await using aead = nodeProcess(files.primitives);
  await using wasmtime = wasmtimeProcess(files.embedded);
  await using native = nativeProcess(files.native);
  const works = [
    ours.work(`channel/${bytes}`),
    libp2p.work(`libp2p/channel/${bytes}`),
    synchronous.work(`libp2p/synchronous/${bytes}`),
    aead.work(`primitive/aead_messages/${bytes}`),
    wasmtime.work(`channel/${bytes}`),
    native.work(`core/channel/${bytes}`),
    native.work(`snow/channel/${bytes}`),
    native.work(`rustls/channel/${bytes}`),
  ];
  const samples = await interleave(works, run.effort, run.progress);
  const [inNode = [], js = [], jsAtOnce = [], floor = [], inWasmtime = [], natively = []] = samples;
  const [snow = [], rustls = []] = samples.slice(6);
  const what = (where: string) => `messages of ${label} sealed and opened, ${where}`;
  const bar = (least: number) => (barred ? ratioAtLeast(least) : null);
  const peer = (name: string, of: readonly number[]) => ({ name, samples: of });
  return [
    timed(what("Node"), "1/s", inNode, peer("js-libp2p noise, its own wire", js), bar(FASTER_THAN_JS_LIBP2P)),
    timed(what("Node"), "1/s", inNode, peer("js-libp2p noise, wire without delay", jsAtOnce)),
    timed(what("Node"), "1/s", inNode, peer("ChaCha20-Poly1305 alone, same wasm", floor)),
    timed(what("wasmtime"), "1/s", inWasmtime, peer("the core natively, -O3", natively), bar(OF_NATIVE)),
    timed(what("native"), "1/s", natively, peer("snow with ring, ChaCha20", snow)),
    timed(what("native"), "1/s", natively, peer("rustls, ChaCha20", rustls)),
  ];
}

/** Messages a second through `step`, one at a time: sealed by one core, opened by the other. */
export const channel: Experiment = {
  name: "channel",
  summary: "seal and open through step beside js-libp2p noise, snow and rustls",
  async prepare() {
    await readCore();
    const primitives = await buildPrimitives();
    const native = await buildNative();
    const embedded = await buildEmbedded();
    return async (run) => {
      const rows: Row[] = [];
      for (const length of LENGTHS)
        rows.push(...(await measureLength({ native, embedded, primitives }, length, run)));
      return rows;
    };
  },
};
