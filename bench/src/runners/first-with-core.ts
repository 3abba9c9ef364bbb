// A Worker whose first answer comes from a node of the core, with no more glue than that takes.
import { encodeConfig } from "../../../runtime/src/codec/config.ts";
import core from "./core.wasm";
import { NETWORK, seed } from "./first-node.ts";
import knownKey from "./known-key.bin";

interface Exports {
  readonly memory: WebAssembly.Memory;
  alloc(length: number): number;
  create(at: number, length: number): number;
  step(handle: number, at: number, length: number): number;
}

/** Creates a node in a fresh instance, gives it its first step and returns the length of what it says. */
function firstStep(): number {
  const { memory, alloc, create, step } = new WebAssembly.Instance(core, {}).exports as unknown as Exports;
  const config = encodeConfig({
    seed: seed(),
    entropy: crypto.getRandomValues(new Uint8Array(32)),
    knownKey: new Uint8Array(knownKey),
    network: NETWORK,
    role: "member",
    addresses: ["wss://node.bench.test/.mesh"],
    bootstraps: [],
    dials: ["https"],
    allowPrivate: false,
    trustOnFirstUse: false,
    idle_ms: 60_000,
    domain: "",
    admission: "open",
    takeOver: false,
  });
  const at = alloc(config.length) >>> 0;
  new Uint8Array(memory.buffer).set(config, at);
  const handle = create(at, config.length);
  new DataView(memory.buffer).setBigUint64(at, BigInt(Date.now()), true);
  const header = step(handle, at, 8) >>> 0;
  return new DataView(memory.buffer).getUint32(header + 4, true);
}

export default {
  fetch(): Response {
    const length = firstStep();
    return length > 0 ? new Response(`${length}`) : new Response("the core said nothing", { status: 500 });
  },
};
