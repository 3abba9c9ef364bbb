/**
 * Runs instances of a module that ships, through the package's own code, for the attacks: `node module.ts core` or
 * `capsule`. Requests and responses are described in `src/module/node.rs`; it ends when its input does.
 */

import { Buffer } from "node:buffer";
import { readFileSync } from "node:fs";
import process from "node:process";

import { CAPSULE_ABI_VERSION } from "../../runtime/src/codec/capsule.ts";
import { ABI_VERSION } from "../../runtime/src/codec/index.ts";
import { ModuleInstance } from "../../runtime/src/driver/instance.ts";

const OPERATION = { create: 1, step: 2, destroy: 3, memory: 4 } as const;
const REQUEST_HEAD = 9;

const name = process.argv[2] === "capsule" ? "capsule" : "core";
const kind = { file: `${name}.wasm`, version: name === "capsule" ? CAPSULE_ABI_VERSION : ABI_VERSION };
const wasm = readFileSync(new URL(`../../runtime/core/${kind.file}`, import.meta.url));
const module = await WebAssembly.compile(wasm);
const instances: ({ instance: ModuleInstance; handle: number } | undefined)[] = [];

/** Takes bytes from the input as requests need them. */
class Input {
  readonly #chunks: AsyncIterator<Uint8Array> = process.stdin[Symbol.asyncIterator]();
  #parts: Uint8Array[] = [];
  #length = 0;

  /** So many bytes, or none when the input has ended. */
  async take(length: number): Promise<Uint8Array | undefined> {
    while (this.#length < length) {
      const { value, done } = await this.#chunks.next();
      if (done === true) return undefined;
      this.#parts.push(value);
      this.#length += value.length;
    }
    const all = Buffer.concat(this.#parts);
    this.#parts = [all.subarray(length)];
    this.#length -= length;
    // A copy: the module's host wipes what it was given.
    return Uint8Array.from(all.subarray(0, length));
  }
}

function write(trapped: boolean, bytes: Uint8Array): void {
  const head = new Uint8Array(5);
  head[0] = trapped ? 1 : 0;
  new DataView(head.buffer).setUint32(1, bytes.length, true);
  process.stdout.write(Buffer.concat([head, bytes]));
}

function number(value: number): Uint8Array {
  const bytes = new Uint8Array(4);
  new DataView(bytes.buffer).setUint32(0, value, true);
  return bytes;
}

function existing(index: number): { instance: ModuleInstance; handle: number } {
  const found = instances[index];
  if (found === undefined) throw new Error(`there is no instance ${index}`);
  return found;
}

async function run(operation: number, index: number, bytes: Uint8Array): Promise<Uint8Array> {
  switch (operation) {
    case OPERATION.create: {
      const instance = await ModuleInstance.of(module, kind);
      const handle = instance.create(bytes);
      if (handle === 0) return new Uint8Array();
      return number(instances.push({ instance, handle }) - 1);
    }
    case OPERATION.step: {
      const { instance, handle } = existing(index);
      return instance.step(handle, bytes);
    }
    case OPERATION.destroy:
      instances[index] = undefined;
      return new Uint8Array();
    case OPERATION.memory:
      return number(existing(index).instance.memoryBytes);
    default:
      throw new Error(`there is no operation ${operation}`);
  }
}

const input = new Input();
for (;;) {
  const head = await input.take(REQUEST_HEAD);
  if (head === undefined) break;
  const view = new DataView(head.buffer);
  const bytes = (await input.take(view.getUint32(5, true))) ?? new Uint8Array();
  try {
    write(false, await run(view.getUint8(0), view.getUint32(1, true), bytes));
  } catch (error) {
    write(true, new TextEncoder().encode(String(error)));
  }
}
