import { buildEmbedded, buildNative, buildPrimitives, readCore } from "../harness/build.ts";
import type { Experiment, Run } from "../harness/experiment.ts";
import { interleave } from "../harness/measure.ts";
import { type Row, ratioAtLeast, ratioAtMost, timed } from "../harness/row.ts";
import { nativeProcess, nodeProcess, wasmtimeProcess } from "../harness/runtimes.ts";

/** The primitives of one handshake and how often it needs each, both sides together. */
const PRIMITIVES = [
  { name: "xwing_keypair", label: "X-Wing key pair", times: 1 },
  { name: "xwing_encapsulate", label: "X-Wing encapsulation", times: 1 },
  { name: "xwing_decapsulate", label: "X-Wing decapsulation", times: 1 },
  { name: "sign", label: "Ed25519 signature", times: 2 },
  { name: "sign_verify", label: "Ed25519 verification", times: 2 },
  { name: "hashes", label: "BLAKE3, 24 hashes and derivations", times: 1 },
  { name: "proofs", label: "ChaCha20-Poly1305, two proofs sealed and opened", times: 1 },
] as const;

const FASTER_THAN_JS_LIBP2P = 2.5;
const ABOVE_FLOOR = 1.25;
const OF_NATIVE = 0.45;

/** What is measured, with the files that it needs. */
interface Files {
  readonly native: string;
  readonly embedded: string;
  readonly primitives: string;
}

async function measure(files: Files, run: Run): Promise<Row[]> {
  await using ours = nodeProcess();
  await using libp2p = nodeProcess();
  await using floor = nodeProcess(files.primitives);
  await using wasmtime = wasmtimeProcess(files.embedded);
  await using native = nativeProcess(files.native);
  const works = [
    ours.work("handshake"),
    // All of them in a turn of their own, next to ours: the processor's speed changes from one second to the next.
    floor.work("primitive/handshake"),
    libp2p.work("libp2p/handshake"),
    wasmtime.work("handshake"),
    native.work("core/handshake"),
    native.work("snow/handshake"),
    native.work("rustls/handshake"),
    ...PRIMITIVES.map(({ name }) => floor.work(`primitive/${name}`)),
  ];
  const samples = await interleave(works, run.effort, run.progress);
  const [inNode = [], alone = [], js = [], inWasmtime = [], natively = [], snow = [], rustls = [], ...parts] =
    samples;
  return [
    timed(
      "handshakes, wasm in Node",
      "1/s",
      inNode,
      { name: "js-libp2p noise", samples: js },
      ratioAtLeast(FASTER_THAN_JS_LIBP2P),
    ),
    timed(
      "one handshake, wasm in Node",
      "us",
      inNode,
      { name: "its primitives alone, same wasm", samples: alone },
      ratioAtMost(ABOVE_FLOOR),
    ),
    ...PRIMITIVES.map(({ label, times }, part) =>
      timed(`  ${label}, ${times} of it`, "us", parts[part] ?? []),
    ),
    timed(
      "handshakes, wasmtime",
      "1/s",
      inWasmtime,
      { name: "the core natively, -O3", samples: natively },
      ratioAtLeast(OF_NATIVE),
    ),
    timed("handshakes, native", "1/s", natively, { name: "snow XX, not post-quantum", samples: snow }),
    timed("handshakes, native", "1/s", natively, { name: "rustls, mutual, X25519MLKEM768", samples: rustls }),
  ];
}

/** Handshakes a second through `step`, both sides in one process. */
export const handshake: Experiment = {
  name: "handshake",
  summary: "handshakes through step beside js-libp2p noise, snow and rustls",
  async prepare() {
    await readCore();
    const primitives = await buildPrimitives();
    const native = await buildNative();
    const embedded = await buildEmbedded();
    return (run) => measure({ native, embedded, primitives }, run);
  },
};
