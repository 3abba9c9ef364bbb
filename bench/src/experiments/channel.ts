import { buildEmbedded, buildNative, readCore } from "../harness/build.ts";
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

async function measureLength(
  files: { readonly native: string; readonly embedded: string },
  { bytes, label, barred }: (typeof LENGTHS)[number],
  run: Run,
): Promise<Row[]> {
  await using ours = nodeProcess();
  await using libp2p = nodeProcess();
  await using wasmtime = wasmtimeProcess(files.embedded);
  await using native = nativeProcess(files.native);
  const works = [
    ours.work(`channel/${bytes}`),
    libp2p.work(`libp2p/channel/${bytes}`),
    wasmtime.work(`channel/${bytes}`),
    native.work(`core/channel/${bytes}`),
    native.work(`snow/channel/${bytes}`),
    native.work(`rustls/channel/${bytes}`),
  ];
  const [inNode = [], js = [], inWasmtime = [], natively = [], snow = [], rustls = []] = await interleave(
    works,
    run.effort,
    run.progress,
  );
  const what = (where: string) => `messages of ${label} sealed and opened, ${where}`;
  const bar = (least: number) => (barred ? ratioAtLeast(least) : null);
  return [
    timed(
      what("wasm in Node"),
      "1/s",
      inNode,
      { name: "js-libp2p noise", samples: js },
      bar(FASTER_THAN_JS_LIBP2P),
    ),
    timed(
      what("wasmtime"),
      "1/s",
      inWasmtime,
      { name: "the core natively, -O3", samples: natively },
      bar(OF_NATIVE),
    ),
    timed(what("native"), "1/s", natively, { name: "snow with ring, ChaCha20", samples: snow }),
    timed(what("native"), "1/s", natively, { name: "rustls, ChaCha20", samples: rustls }),
  ];
}

/** Messages a second through `step`, one at a time: sealed by one core, opened by the other. */
export const channel: Experiment = {
  name: "channel",
  summary: "seal and open through step beside js-libp2p noise, snow and rustls",
  async prepare() {
    await readCore();
    const native = await buildNative();
    const embedded = await buildEmbedded();
    return async (run) => {
      const rows: Row[] = [];
      for (const length of LENGTHS) rows.push(...(await measureLength({ native, embedded }, length, run)));
      return rows;
    };
  },
};
