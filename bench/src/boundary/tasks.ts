import { Instance, Node } from "./instance.ts";
import { CANCEL } from "./items.ts";
import { configuration, Network } from "./network.ts";

/** Work that can be repeated. */
export type Task = (count: number) => void | Promise<void>;

/** Repeats something. */
export function repeat(work: () => void): Task {
  return (count) => {
    for (let done = 0; done < count; done += 1) work();
  };
}

/** An input that costs the core next to nothing: `Cancel` of a command that was never given. */
const CHEAP_ITEM = Uint8Array.of(CANCEL, 4, 0, 0, 0, 0xff, 0xff, 0xff, 0xff);

/** Tasks that need nothing but a compiled core, so that every runtime can do them; `undefined` for another name. */
export function boundaryTask(name: string, module: WebAssembly.Module): Task | undefined {
  const [work, items] = name.split("/");
  switch (work) {
    case "instantiate":
      return repeat(() => {
        new Instance(module);
      });
    case "start":
      return repeat(() => {
        start(module);
      });
    case "step":
      return stepTask(module, Number(items));
    default:
      return undefined;
  }
}

/** Creates a node in a fresh instance and gives it its first step. */
export function start(module: WebAssembly.Module): Node {
  const node = new Node(new Instance(module), configuration(1));
  node.step(Date.now());
  return node;
}

function stepTask(module: WebAssembly.Module, items: number): Task {
  const { node } = new Network(Date.now).add(new Instance(module), configuration(1));
  const batch = new Uint8Array(items * CHEAP_ITEM.length);
  for (let item = 0; item < items; item += 1) batch.set(CHEAP_ITEM, item * CHEAP_ITEM.length);
  const now_ms = Date.now();
  return repeat(() => {
    if (items > 0) node.pushEncoded(batch);
    node.step(now_ms);
    if (node.outputsEnd <= node.outputs) throw new Error("the core gave no output");
  });
}

/** Custom sections make the bytes differ each time, because engines keep what they compiled by its bytes. */
const UNIQUE_SECTION_LENGTH = 12;

/** Compiles the core from bytes that the engine has not seen, and in `cold` starts a node in it too. */
export function compileTask(wasm: Uint8Array, cold: boolean): Task {
  const bytes = new Uint8Array(wasm.length + UNIQUE_SECTION_LENGTH);
  bytes.set(wasm);
  // A custom section (0) of 10 bytes with an empty name of length 1.
  bytes.set([0, UNIQUE_SECTION_LENGTH - 2, 1, 0x75], wasm.length);
  const unique = bytes.subarray(wasm.length + 4);
  return repeat(() => {
    crypto.getRandomValues(unique);
    const module = new WebAssembly.Module(bytes);
    if (cold) start(module);
  });
}
