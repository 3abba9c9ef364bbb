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

/** The frame as it may wait: a small view would keep all that the core said in the same step. */
export function detached(frame: Uint8Array): Uint8Array {
  return 2 * frame.length < frame.buffer.byteLength ? frame.slice() : frame;
}

/** Room for the first bytes of a frame that arrives in pieces. */
const FIRST_ROOM = 1024;

/** Takes frames apart as bytes arrive. Work and memory follow the bytes that came, whatever a length announces. */
export class FrameSplitter {
  #rest: Uint8Array = new Uint8Array();
  #length = 0;

  /** Whether all bytes so far were whole frames. */
  get isComplete(): boolean {
    return this.#length === 0;
  }

  /** The frames that are whole with these bytes. Throws when one is larger than a frame may be. */
  push(bytes: Uint8Array): Uint8Array[] {
    const all = this.#length === 0 ? bytes : this.#keep(bytes);
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
    // Frames are views into what was read, so what is kept moves to memory of its own.
    if (at > 0 || this.#length === 0) {
      this.#rest = new Uint8Array();
      this.#length = 0;
      if (at < all.length) this.#keep(all.subarray(at));
    }
    return frames;
  }

  /** Appends bytes to what is kept and returns all of it. */
  #keep(bytes: Uint8Array): Uint8Array {
    const length = this.#length + bytes.length;
    if (length > this.#rest.length) {
      const grown = new Uint8Array(Math.max(length, 2 * this.#rest.length, FIRST_ROOM));
      grown.set(this.#rest.subarray(0, this.#length));
      this.#rest = grown;
    }
    this.#rest.set(bytes, this.#length);
    this.#length = length;
    return this.#rest.subarray(0, length);
  }
}
