import { MAX_FRAME } from "../driver/paths.ts";

/** Most bytes of frames in one POST, so that either side can hold one in memory. */
export const MAX_BODY: number = 1024 * 1024;
/** Type of a body of frames. */
export const FRAMES_TYPE = "application/selfsame";
/** Header that names the path, 32 hex digits chosen by the side that dials. */
export const PATH_HEADER = "selfsame-path";

/** Frames one after another, each after its `u32` length. */
export function joinFrames(frames: readonly Uint8Array[]): Uint8Array<ArrayBuffer> {
  const length = frames.reduce((sum, frame) => sum + 4 + frame.length, 0);
  const body = new Uint8Array(length);
  const view = new DataView(body.buffer);
  let at = 0;
  for (const frame of frames) {
    view.setUint32(at, frame.length, true);
    body.set(frame, at + 4);
    at += 4 + frame.length;
  }
  return body;
}

/** Takes frames apart as bytes arrive. */
export class FrameSplitter {
  #rest: Uint8Array = new Uint8Array();

  /** Whether all bytes so far were whole frames. */
  get isComplete(): boolean {
    return this.#rest.length === 0;
  }

  /** The frames that are whole with these bytes. Throws when one is larger than a frame may be. */
  push(bytes: Uint8Array): Uint8Array[] {
    const all = this.#rest.length === 0 ? bytes : concat(this.#rest, bytes);
    const view = new DataView(all.buffer, all.byteOffset, all.byteLength);
    const frames: Uint8Array[] = [];
    let at = 0;
    while (all.length - at >= 4) {
      const length = view.getUint32(at, true);
      if (length > MAX_FRAME) throw new RangeError(`a frame has at most ${MAX_FRAME} bytes`);
      if (all.length - at - 4 < length) break;
      frames.push(all.subarray(at + 4, at + 4 + length));
      at += 4 + length;
    }
    this.#rest = all.subarray(at);
    return frames;
  }
}

function concat(left: Uint8Array, right: Uint8Array): Uint8Array {
  const both = new Uint8Array(left.length + right.length);
  both.set(left);
  both.set(right, left.length);
  return both;
}

/** Reads a whole body of at most `max` bytes, or says with `undefined` that it is longer. */
export async function readBody(
  body: ReadableStream<Uint8Array> | null,
  max: number,
): Promise<Uint8Array | undefined> {
  const chunks: Uint8Array[] = [];
  let length = 0;
  const reader = body?.getReader();
  for (let next = await reader?.read(); next !== undefined && !next.done; next = await reader?.read()) {
    length += next.value.length;
    if (length > max) {
      await reader?.cancel();
      return undefined;
    }
    chunks.push(next.value);
  }
  const bytes = new Uint8Array(length);
  let at = 0;
  for (const chunk of chunks) {
    bytes.set(chunk, at);
    at += chunk.length;
  }
  return bytes;
}
