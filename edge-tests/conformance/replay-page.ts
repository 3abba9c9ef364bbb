// Replays the script beside the page in a browser; whoever opened the page calls `replayed`.
import { replay } from "./replay.ts";
import { base64, sha256 } from "./text.ts";

async function load(name: string): Promise<Uint8Array<ArrayBuffer>> {
  return new Uint8Array(await (await fetch(name)).arrayBuffer());
}

/** The transcript in base64 and the sha256 of the module that ran. */
async function replayed(): Promise<{ transcript: string; sha256: string }> {
  const module = await WebAssembly.compileStreaming(fetch("module.wasm"));
  const transcript = await replay(module, await load("script.bin"));
  return { transcript: base64(transcript), sha256: await sha256(await load("module.wasm")) };
}

Object.assign(globalThis, { replayed });
