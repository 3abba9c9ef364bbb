/**
 * Runs instances of a module that ships, through the package's own code, for the attacks: `node module.ts core` or
 * `capsule`. Requests and responses are described in `src/module/node.rs`; it ends when its input does.
 */

import { readFileSync, readSync, writeSync } from "node:fs";
import process from "node:process";

import { CAPSULE_ABI_VERSION } from "../../runtime/src/codec/capsule.ts";
import { ABI_VERSION } from "../../runtime/src/codec/index.ts";
import { ModuleInstance } from "../../runtime/src/driver/instance.ts";

const OPERATION = { create: 1, step: 2, destroy: 3, memory: 4 } as const;
const [INPUT, OUTPUT] = [0, 1];
const REQUEST_HEAD = 9;

const name = process.argv[2] === "capsule" ? "capsule" : "core";
const kind = { file: `${name}.wasm`, version: name === "capsule" ? CAPSULE_ABI_VERSION : ABI_VERSION };
const wasm = readFileSync(new URL(`../../runtime/core/${kind.file}`, import.meta.url));
const module = await WebAssembly.compile(wasm);
const instances: ({ instance: ModuleInstance; handle: number } | undefined)[] = [];

/** Reads so many bytes, or none when the input has ended. */
function read(length: number): Uint8Array | undefined {
  const bytes = new Uint8Array(length);
  for (let at = 0; at < length; ) {
    const got = readSync(INPUT, bytes, at, length - at, null);
    if (got === 0) return undefined;
    at += got;
  }
  return bytes;
}

function write(trapped: boolean, bytes: Uint8Array): void {
  const response = new Uint8Array(5 + bytes.length);
  response[0] = trapped ? 1 : 0;
  new DataView(response.buffer).setUint32(1, bytes.length, true);
  response.set(bytes, 5);
  for (let at = 0; at < response.length; ) at += writeSync(OUTPUT, response, at);
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

for (;;) {
  const head = read(REQUEST_HEAD);
  if (head === undefined) break;
  const view = new DataView(head.buffer);
  const bytes = read(view.getUint32(5, true)) ?? new Uint8Array();
  try {
    write(false, await run(view.getUint8(0), view.getUint32(1, true), bytes));
  } catch (error) {
    write(true, new TextEncoder().encode(String(error)));
  }
}
