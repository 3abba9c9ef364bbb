/**
 * Replays a recorded script on a module: nothing but the exports and bytes, so that it is the same few lines in every
 * language.
 *
 * ```text
 * script:     { operation u8 | slot u8 | length u32 | payload }
 * transcript: { length u32 | bytes }, one for each operation: what the module answered; for `create` one byte, 1 if
 *             there is a handle
 * ```
 */

/** What a record of a script asks for. */
export const OPERATION = { create: 1, step: 2, destroy: 3, derive: 4, verify: 5 } as const;

type Exports = {
  readonly memory: WebAssembly.Memory;
  alloc(length: number): number;
  free(pointer: number, length: number): void;
  create(pointer: number, length: number): number;
  step(handle: number, pointer: number, length: number): number;
  destroy(handle: number): void;
  derive(pointer: number, length: number): number;
  verify(pointer: number, length: number): number;
};

/** A fresh instance of a module with its machines in numbered slots. */
export class Instance {
  readonly #exports: Exports;
  readonly #handles: Map<number, number> = new Map();

  private constructor(exports: Exports) {
    this.#exports = exports;
  }

  /** Instantiates a compiled module. */
  static async of(module: WebAssembly.Module): Promise<Instance> {
    const instance = await WebAssembly.instantiate(module, {});
    return new Instance(instance.exports as unknown as Exports);
  }

  /** Carries out one record and returns what the transcript says of it. */
  run(operation: number, slot: number, payload: Uint8Array): Uint8Array {
    const exports = this.#exports;
    const pointer = exports.alloc(payload.length) >>> 0;
    new Uint8Array(exports.memory.buffer, pointer, payload.length).set(payload);
    try {
      switch (operation) {
        case OPERATION.create: {
          const handle = exports.create(pointer, payload.length);
          this.#handles.set(slot, handle);
          return Uint8Array.of(handle === 0 ? 0 : 1);
        }
        case OPERATION.step:
          return this.#read(exports.step(this.#handle(slot), pointer, payload.length));
        case OPERATION.destroy:
          exports.destroy(this.#handle(slot));
          this.#handles.delete(slot);
          return new Uint8Array();
        case OPERATION.derive:
          return this.#read(exports.derive(pointer, payload.length));
        case OPERATION.verify:
          return this.#read(exports.verify(pointer, payload.length));
        default:
          throw new Error(`the script has an operation ${operation}`);
      }
    } finally {
      exports.free(pointer, payload.length);
    }
  }

  #handle(slot: number): number {
    const handle = this.#handles.get(slot);
    if (handle === undefined) throw new Error(`the script names a slot ${slot} before it is created`);
    return handle;
  }

  #read(header: number): Uint8Array {
    const { buffer } = this.#exports.memory;
    const view = new DataView(buffer, header >>> 0, 8);
    return new Uint8Array(buffer, view.getUint32(0, true), view.getUint32(4, true)).slice();
  }
}

/** Replays a script and returns the transcript. */
export async function replay(
  module: WebAssembly.Module,
  script: Uint8Array,
): Promise<Uint8Array<ArrayBuffer>> {
  const instance = await Instance.of(module);
  const view = new DataView(script.buffer, script.byteOffset, script.length);
  const answers: Uint8Array[] = [];
  for (let at = 0; at < script.length; ) {
    const [operation, slot, length] = [
      view.getUint8(at),
      view.getUint8(at + 1),
      view.getUint32(at + 2, true),
    ];
    const end = at + 6 + length;
    answers.push(instance.run(operation, slot, script.subarray(at + 6, end)));
    at = end;
  }
  return join(answers);
}

/** Puts each part after its length. */
export function join(parts: readonly Uint8Array[]): Uint8Array<ArrayBuffer> {
  const joined = new Uint8Array(parts.reduce((sum, part) => sum + 4 + part.length, 0));
  const view = new DataView(joined.buffer);
  let at = 0;
  for (const part of parts) {
    view.setUint32(at, part.length, true);
    joined.set(part, at + 4);
    at += 4 + part.length;
  }
  return joined;
}
