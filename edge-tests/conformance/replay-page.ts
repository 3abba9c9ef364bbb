// Replays the script beside the page in a browser; whoever opened the page calls `replayed`.
import { replay } from "./replay.ts";

async function load(name: string): Promise<Uint8Array<ArrayBuffer>> {
  return (await fetch(name)).bytes();
}

/** The transcript in base64 and the sha256 of the core that ran. */
async function replayed(): Promise<{ transcript: string; sha256: string }> {
  const module = await WebAssembly.compileStreaming(fetch("core.wasm"));
  const transcript = await replay(module, await load("script.bin"));
  const digest = await crypto.subtle.digest("SHA-256", await load("core.wasm"));
  return { transcript: transcript.toBase64(), sha256: new Uint8Array(digest).toHex() };
}

Object.assign(globalThis, { replayed });
