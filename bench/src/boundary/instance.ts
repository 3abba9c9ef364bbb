import {
  ABI_VERSION,
  type Config,
  encodeConfig,
  type Input,
  inputCodec,
  Writer,
} from "../../../runtime/src/codec/index.ts";
import { RECEIVED, STREAM_DATA_IN } from "./items.ts";

/** Exports of the core that the benchmarks use. */
interface CoreExports {
  readonly memory: WebAssembly.Memory;
  abi_version(): number;
  alloc(length: number): number;
  free(at: number, length: number): void;
  create(at: number, length: number): number;
  step(handle: number, at: number, length: number): number;
  destroy(handle: number): void;
}

/** First size of a node's buffer for input: more than a batch of the longest frame. */
const FIRST_CAPACITY = 128 * 1024;
/** Bytes of a batch before its items: the time. */
const BATCH_HEADER = 8;
/** Bytes of an item before its payload: kind and length. */
const ITEM_HEADER = 5;

/** One instance of the core and views of its memory. */
export class Instance {
  readonly exports: CoreExports;
  /** The memory as bytes. */
  bytes: Uint8Array<ArrayBuffer>;
  /** The memory as numbers. */
  view: DataView<ArrayBuffer>;

  constructor(module: WebAssembly.Module) {
    this.exports = new WebAssembly.Instance(module, {}).exports as unknown as CoreExports;
    const version = this.exports.abi_version();
    if (version !== ABI_VERSION) throw new Error(`the core speaks version ${version} of the boundary`);
    this.bytes = new Uint8Array(this.exports.memory.buffer);
    this.view = new DataView(this.exports.memory.buffer);
  }

  /** Bytes of memory that the instance holds. */
  get memorySize(): number {
    return this.exports.memory.buffer.byteLength;
  }

  /** Takes fresh views when a call may have made the memory grow: the old ones are then empty. */
  refresh(): void {
    if (this.bytes.length > 0) return;
    this.bytes = new Uint8Array(this.exports.memory.buffer);
    this.view = new DataView(this.exports.memory.buffer);
  }

  /** Allocates memory inside the core. */
  alloc(length: number): number {
    const at = this.exports.alloc(length) >>> 0;
    this.refresh();
    return at;
  }
}

/** One node inside an instance; its input is written straight into the core's memory. */
export class Node {
  readonly instance: Instance;
  /** Where the outputs of the last step begin. */
  outputs = 0;
  /** Where the outputs of the last step end. */
  outputsEnd = 0;
  readonly #handle: number;
  readonly #scratch = new Writer();
  #at: number;
  #capacity = FIRST_CAPACITY;
  #length = BATCH_HEADER;

  constructor(instance: Instance, config: Config) {
    this.instance = instance;
    this.#at = instance.alloc(this.#capacity);
    const encoded = encodeConfig(config);
    instance.bytes.set(encoded, this.#at);
    this.#handle = instance.exports.create(this.#at, encoded.length);
    if (this.#handle === 0) throw new Error("the core refused the configuration");
    instance.refresh();
  }

  /** Whether inputs wait for the next step. */
  get hasInput(): boolean {
    return this.#length > BATCH_HEADER;
  }

  /** Appends any input. */
  push(input: Input): void {
    this.#scratch.truncate(0);
    inputCodec.encode(this.#scratch, input);
    const item = this.#scratch.written();
    const at = this.#reserve(item.length);
    this.instance.bytes.set(item, at);
  }

  /** Appends a frame that lies in the memory of another instance, or of this one. */
  pushFrame(path: number, from: Instance, frameAt: number, frameLength: number): void {
    const at = this.#pushHead(RECEIVED, path, frameLength);
    this.instance.bytes.set(from.bytes.subarray(frameAt, frameAt + frameLength), at);
  }

  /** Appends bytes for a stream. */
  pushData(stream: number, data: Uint8Array): void {
    const at = this.#pushHead(STREAM_DATA_IN, stream, data.length);
    this.instance.bytes.set(data, at);
  }

  /** Appends bytes that are items already. */
  pushEncoded(items: Uint8Array): void {
    const at = this.#reserve(items.length);
    this.instance.bytes.set(items, at);
  }

  /** Gives the core what was pushed and keeps where its outputs lie. */
  step(now_ms: number): void {
    const { instance } = this;
    instance.view.setUint32(this.#at, now_ms >>> 0, true);
    instance.view.setUint32(this.#at + 4, Math.floor(now_ms / 2 ** 32), true);
    const length = this.#length;
    this.#length = BATCH_HEADER;
    const header = instance.exports.step(this.#handle, this.#at, length) >>> 0;
    instance.refresh();
    this.outputs = instance.view.getUint32(header, true);
    this.outputsEnd = this.outputs + instance.view.getUint32(header + 4, true);
  }

  /** Ends the node and gives its buffer back. */
  destroy(): void {
    this.instance.exports.destroy(this.#handle);
    this.instance.exports.free(this.#at, this.#capacity);
  }

  /** Appends the head of an item of one number and one variable field; returns where that field's bytes go. */
  #pushHead(kind: number, number: number, length: number): number {
    const at = this.#reserve(ITEM_HEADER + 8 + length);
    const { view } = this.instance;
    view.setUint8(at, kind);
    view.setUint32(at + 1, 8 + length, true);
    view.setUint32(at + 5, number, true);
    view.setUint32(at + 9, length, true);
    return at + 13;
  }

  #reserve(length: number): number {
    const end = this.#length + length;
    if (end > this.#capacity) this.#grow(end);
    const at = this.#at + this.#length;
    this.#length = end;
    return at;
  }

  #grow(needed: number): void {
    const capacity = 2 ** Math.ceil(Math.log2(needed));
    const at = this.instance.alloc(capacity);
    this.instance.bytes.copyWithin(at, this.#at, this.#at + this.#length);
    this.instance.exports.free(this.#at, this.#capacity);
    this.#at = at;
    this.#capacity = capacity;
  }
}
