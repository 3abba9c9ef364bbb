import {
  type Config,
  encodeConfig,
  type Input,
  InputBatch,
  inputCodec,
  type Output,
  outputCodec,
  readItems,
  readOperations,
  writeEntries,
} from "selfsame/codec";

import { Instance, OPERATION } from "./replay.ts";

/** One way through the network takes this long. */
const DELAY_MS = 5;
/** A time that everybody can read. */
export const START_MS: number = Date.UTC(2030, 0, 1);
/** More than any script needs: a network that is never quiet does not hang the recorder. */
const MAX_EVENTS = 100_000;

type Due = { at: number; order: number; slot: number; input: Input | undefined };

/** A node of the recorded network. */
type Node = {
  slot: number;
  address: string;
  store: Map<string, { key: Uint8Array; value: Uint8Array }>;
  /** The other end of each path: slot and path there. */
  paths: Map<number, { slot: number; path: number }>;
  wakeAt: number;
  outputs: Output[];
};

/**
 * Cores in one instance with a network, stores and a clock that are all computed: the same run again and again. Every
 * call of the core is recorded with its answer.
 */
export class RecordedNetwork {
  readonly script: Uint8Array[] = [];
  readonly transcript: Uint8Array[] = [];
  /** Full name of the network of its nodes. */
  readonly name: string;
  readonly #instance: Instance;
  readonly #nodes: Map<number, Node> = new Map();
  readonly #stores: Map<number, Node["store"]> = new Map();
  #due: Due[] = [];
  #now = START_MS;
  #order = 0;
  #nextPath = 1;
  #nextEntropy = 1;

  private constructor(instance: Instance, name: string) {
    this.#instance = instance;
    this.name = name;
  }

  /** A network on a fresh instance. */
  static async on(module: WebAssembly.Module, name: string): Promise<RecordedNetwork> {
    return new RecordedNetwork(await Instance.of(module), name);
  }

  /** The time in the network. */
  get now(): number {
    return this.#now;
  }

  /** Calls `derive` or `verify`. */
  ask(family: "derive" | "verify", payload: Uint8Array): Uint8Array {
    return this.#call(OPERATION[family], 0, payload);
  }

  /** Starts a node and loads its state. */
  create(slot: number, address: string, config: Omit<Config, "entropy">): void {
    const store = this.#stores.get(slot) ?? new Map();
    this.#stores.set(slot, store);
    const node = { slot, address, store, paths: new Map(), wakeAt: Infinity, outputs: [] };
    this.#nodes.set(slot, node);
    const answer = this.#call(OPERATION.create, slot, encodeConfig({ ...config, entropy: this.#entropy() }));
    if (answer[0] !== 1) throw new Error(`node ${slot} was not created`);
    this.feed(slot, []);
  }

  /** Ends a node; its paths close and its store stays. */
  destroy(slot: number): void {
    this.#call(OPERATION.destroy, slot, new Uint8Array());
    const node = this.#node(slot);
    for (const end of node.paths.values()) this.#close(end.slot, end.path);
    this.#due = this.#due.filter((due) => due.slot !== slot);
    this.#nodes.delete(slot);
  }

  /** Gives a node inputs at once and carries out what it asks for. */
  feed(slot: number, inputs: Input[]): void {
    const node = this.#node(slot);
    for (let pending = inputs, first = true; first || pending.length > 0; first = false) {
      const batch = new InputBatch<Input>(inputCodec);
      for (const input of pending) batch.push(input);
      const bytes = this.#call(OPERATION.step, slot, batch.finish(this.#now).slice());
      const outputs = readItems(bytes).map((item) => outputCodec.decode(item));
      pending = outputs.flatMap((output) => this.#carryOut(node, output));
    }
  }

  /** Gives raw bytes to `step`, as a broken host would. */
  feedRaw(slot: number, batch: Uint8Array): void {
    const outputs = readItems(this.#call(OPERATION.step, slot, batch)).map((item) =>
      outputCodec.decode(item),
    );
    this.#node(slot).outputs.push(...outputs);
  }

  /** Delivers a frame as if it had arrived on a path. */
  deliver(slot: number, path: number, frame: Uint8Array): void {
    this.#later(slot, { type: "Received", path, frame });
  }

  /** The paths that a node has. */
  pathsOf(slot: number): number[] {
    return [...this.#node(slot).paths.keys()];
  }

  /** Lets time pass. */
  run(ms: number): void {
    const until = this.#now + ms;
    for (let events = 0; events < MAX_EVENTS; events++) {
      const due = this.#takeDue(until);
      if (due === undefined) {
        this.#now = until;
        return;
      }
      this.#now = Math.max(this.#now, due.at);
      this.feed(due.slot, due.input ? [due.input] : []);
    }
    throw new Error("the network is never quiet");
  }

  /** Takes what a node said of interest to its application since the last call. */
  take<T extends Output["type"]>(slot: number, type: T): Extract<Output, { type: T }>[] {
    const node = this.#node(slot);
    const taken = node.outputs.filter(
      (output): output is Extract<Output, { type: T }> => output.type === type,
    );
    node.outputs = node.outputs.filter((output) => output.type !== type);
    return taken;
  }

  /** The reply to a command, as text for the message when it failed. */
  reply(slot: number, tag: number): Uint8Array {
    const failed = this.take(slot, "Failed").find((output) => output.tag === tag);
    if (failed) throw new Error(`command ${tag} of node ${slot} failed: ${failed.detail}`);
    const reply = this.take(slot, "Reply").find((output) => output.tag === tag);
    if (reply === undefined) throw new Error(`command ${tag} of node ${slot} was not answered`);
    return reply.body;
  }

  #call(operation: number, slot: number, payload: Uint8Array): Uint8Array {
    const head = new Uint8Array(6);
    new DataView(head.buffer).setUint32(2, payload.length, true);
    head.set([operation, slot]);
    const answer = this.#instance.run(operation, slot, payload);
    this.script.push(head, payload);
    this.transcript.push(answer);
    return answer;
  }

  #carryOut(node: Node, output: Output): Input[] {
    switch (output.type) {
      case "Transmit": {
        const end = node.paths.get(output.path);
        if (end) this.#later(end.slot, { type: "Received", path: end.path, frame: output.frame.slice() });
        return [];
      }
      case "Dial":
        this.#dial(node, output.dial, output.address);
        return [];
      case "ClosePath": {
        const end = node.paths.get(output.path);
        if (end) this.#close(end.slot, end.path);
        node.paths.delete(output.path);
        return [{ type: "PathClosed", path: output.path }];
      }
      case "NeedEntropy":
        return [{ type: "Entropy", bytes: this.#entropy() }];
      case "StoreGet":
      case "StoreScan":
      case "StoreCommit":
        return [this.#useStore(node, output)];
      case "Wake":
        node.wakeAt = output.at_ms;
        return [];
      default:
        node.outputs.push(output);
        return [];
    }
  }

  #useStore(node: Node, output: Extract<Output, { type: "StoreGet" | "StoreScan" | "StoreCommit" }>): Input {
    if (output.type === "StoreCommit") {
      for (const { key, value } of readOperations(output.operations)) {
        if (value === null) node.store.delete(keyOf(key));
        else node.store.set(keyOf(key), { key: key.slice(), value: value.slice() });
      }
      return { type: "StoreCommitted", tag: output.tag, ok: true };
    }
    const found =
      output.type === "StoreGet"
        ? [node.store.get(keyOf(output.key))].filter((entry) => entry !== undefined)
        : scan(node.store, output.start, output.end, output.limit);
    const entries = writeEntries(found.map(({ key, value }) => [key, value]));
    return { type: "StoreRead", tag: output.tag, ok: true, entries };
  }

  #dial(node: Node, dial: number, address: string): void {
    const [url] = address.split("#", 1);
    const other = [...this.#nodes.values()].find((candidate) => candidate.address === url);
    if (other === undefined || other === node) {
      this.#later(node.slot, { type: "DialFailed", dial });
      return;
    }
    const [here, there] = [this.#nextPath++, this.#nextPath++];
    node.paths.set(here, { slot: other.slot, path: there });
    other.paths.set(there, { slot: node.slot, path: here });
    this.#later(other.slot, {
      type: "PathOpened",
      path: there,
      dial: 0,
      kind: "Ordered",
      remote: `10.0.0.${node.slot}`,
    });
    this.#later(node.slot, {
      type: "PathOpened",
      path: here,
      dial,
      kind: "Ordered",
      remote: `10.0.0.${other.slot}`,
    });
  }

  #close(slot: number, path: number): void {
    if (this.#nodes.get(slot)?.paths.delete(path)) this.#later(slot, { type: "PathClosed", path });
  }

  #later(slot: number, input: Input): void {
    this.#due.push({ at: this.#now + DELAY_MS, order: this.#order++, slot, input });
  }

  #takeDue(until: number): Due | undefined {
    const wakes = [...this.#nodes.values()]
      .filter((node) => node.wakeAt <= until)
      .map(({ slot, wakeAt }) => ({ at: wakeAt, order: Infinity, slot, input: undefined }));
    const next = [...this.#due, ...wakes].sort(
      (a, b) => a.at - b.at || a.order - b.order || a.slot - b.slot,
    )[0];
    if (next === undefined || next.at > until) return undefined;
    if (next.input === undefined) this.#node(next.slot).wakeAt = Infinity;
    else this.#due.splice(this.#due.indexOf(next), 1);
    return next;
  }

  #node(slot: number): Node {
    const node = this.#nodes.get(slot);
    if (node === undefined) throw new Error(`there is no node ${slot}`);
    return node;
  }

  #entropy(): Uint8Array {
    return new Uint8Array(32).fill(this.#nextEntropy++);
  }
}

function keyOf(key: Uint8Array): string {
  // One character a byte: strings compare as the bytes do.
  return String.fromCharCode(...key);
}

function scan(
  store: Node["store"],
  start: Uint8Array,
  end: Uint8Array,
  limit: number,
): { key: Uint8Array; value: Uint8Array }[] {
  const [from, to] = [keyOf(start), keyOf(end)];
  const keys = [...store.keys()].filter((key) => key >= from && key < to).sort();
  return keys.slice(0, limit).flatMap((key) => store.get(key) ?? []);
}
