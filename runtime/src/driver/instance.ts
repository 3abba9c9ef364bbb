import { MeshError } from "../codec/code.ts";
import { Reader, type Writer } from "../codec/field.ts";

interface Exports {
  readonly memory: WebAssembly.Memory;
  abi_version(): number;
  alloc(length: number): number;
  free(pointer: number, length: number): void;
  create(pointer: number, length: number): number;
  step(handle: number, pointer: number, length: number): number;
  destroy(handle: number): void;
  derive(pointer: number, length: number): number;
  verify(pointer: number, length: number): number;
}

/** The buffer for inputs starts with this size: one frame and its header. */
const FIRST_INPUT = 128 * 1024;
/** An input buffer beyond this size is given back after use: bursts are rare and memory is shared. */
const KEEP_INPUT = 1024 * 1024;

/** What is allocated for an input: short ones share a buffer that grows by doubling, a long one gets what it needs. */
function sizeFor(length: number): number {
  if (length > KEEP_INPUT) return length;
  return Math.max(FIRST_INPUT, 2 ** Math.ceil(Math.log2(Math.max(length, 1))));
}

/** Which module an instance is of. */
export interface ModuleKind {
  /** What the file is called. */
  readonly file: string;
  /** Version of the boundary that this package speaks. */
  readonly version: number;
}

/** One instance of a module: its memory, and what lives in it by its handles. A trap in it reaches no other. */
export class ModuleInstance {
  readonly #exports: Exports;
  #input = 0;
  #inputSize = 0;

  private constructor(instance: WebAssembly.Instance, kind: ModuleKind) {
    this.#exports = instance.exports as unknown as Exports;
    const version = this.#exports.abi_version();
    if (version !== kind.version) {
      throw new MeshError(
        "BadConfig",
        `${kind.file} has version ${version} of the boundary, this package ${kind.version}: install them together`,
      );
    }
  }

  /** Makes an instance of its own. */
  static async of(module: WebAssembly.Module, kind: ModuleKind): Promise<ModuleInstance> {
    return new ModuleInstance(await WebAssembly.instantiate(module, {}), kind);
  }

  /** Creates what the configuration describes, which is wiped; returns its handle, 0 if it is refused. */
  create(config: Uint8Array): number {
    const handle = this.#exports.create(this.#place(config), config.length) >>> 0;
    this.#wipe(config.length);
    config.fill(0);
    return handle;
  }

  /** Feeds a batch of inputs and returns the batch of outputs, in a buffer of its own. A trap throws. */
  step(handle: number, batch: Uint8Array): Uint8Array<ArrayBuffer> {
    const header = this.#exports.step(handle, this.#place(batch), batch.length);
    return this.#copyOut(header);
  }

  /** Ends what has this handle. */
  destroy(handle: number): void {
    this.#exports.destroy(handle);
  }

  /** Size of the instance's memory, in bytes. */
  get memoryBytes(): number {
    return this.#exports.memory.buffer.byteLength;
  }

  /** Asks what needs no handle, and wipes the question; the answer begins with its status. */
  ask(family: "derive" | "verify", input: Writer): Reader {
    const bytes = input.written();
    const header = this.#exports[family](this.#place(bytes), bytes.length);
    this.#wipe(bytes.length);
    bytes.fill(0);
    return new Reader(this.#copyOut(header));
  }

  /** Writes bytes into the input buffer, which grows when they do not fit. */
  #place(bytes: Uint8Array): number {
    if (bytes.length > this.#inputSize || this.#inputSize > KEEP_INPUT) {
      if (this.#inputSize !== 0) this.#exports.free(this.#input, this.#inputSize);
      this.#inputSize = 0;
      const size = sizeFor(bytes.length);
      this.#input = this.#exports.alloc(size) >>> 0;
      if (this.#input === 0) throw new MeshError("TooLarge", `the module takes no ${size} bytes at a time`);
      this.#inputSize = size;
    }
    new Uint8Array(this.#exports.memory.buffer, this.#input, bytes.length).set(bytes);
    return this.#input;
  }

  /** Removes secrets from the input buffer. */
  #wipe(length: number): void {
    new Uint8Array(this.#exports.memory.buffer, this.#input, length).fill(0);
  }

  /** Copies what a header `{pointer u32, length u32}` names; the memory may have grown since the last view. */
  #copyOut(header: number): Uint8Array<ArrayBuffer> {
    const buffer = this.#exports.memory.buffer;
    const view = new DataView(buffer, header >>> 0, 8);
    return new Uint8Array(buffer, view.getUint32(0, true), view.getUint32(4, true)).slice();
  }
}
