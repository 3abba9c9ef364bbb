import { MeshError } from "../codec/code.ts";
import { toHex } from "../codec/hex.ts";
import { sourceOf } from "./source.ts";

/** Most bytes of a request. */
export const MAX_REQUEST: number = 8 * 1024 * 1024;
/** Most bytes of requests under way: an isolate has 128 MB, which hold them more than once. */
const MAX_HELD: number = 3 * MAX_REQUEST;
/** Most bytes that the requests of one source reserve, a third of all: its largest request has room, and others have more. */
const SOURCE_RESERVED: number = MAX_REQUEST;
/** Most requests of one source that wait for its share: as many as it may have in the module when that is busy. */
const MAX_WAITING = 512;
/** Most files that are stored and made at a time, as in the wasmtime host: each has an instance of the module. */
const MAX_FILES = 4;
/** Most of them of one source. */
const SOURCE_FILES: number = MAX_FILES / 2;

/** The holdings of a source; remembered while there are any. */
interface Source {
  readonly key: string;
  reserved: number;
  /** Requests and files. */
  places: number;
  files: number;
  readonly waiting: Waiting[];
}

interface Waiting {
  readonly bytes: number;
  readonly admit: (place: RequestPlace) => void;
  readonly refuse: (error: unknown) => void;
}

/** Memory for the requests to a replica, and places for its files, shared out among the sources that they come from. */
export class Room {
  readonly #sources: Map<string, Source> = new Map();
  #held = 0;
  #files = 0;

  /** How many sources hold something or wait. */
  get size(): number {
    return this.#sources.size;
  }

  /** Reserves bytes in the share of a source; `undefined` if it has to wait until another request of it has ended. */
  reserve(from: string | undefined, bytes: number): RequestPlace | undefined {
    const source = this.#sourceOf(from);
    if (source.waiting.length > 0 || source.reserved + bytes > SOURCE_RESERVED) return undefined;
    return this.#admit(source, bytes);
  }

  /** Waits for the bytes of the share of a source, in turn. */
  async wait(from: string | undefined, bytes: number, signal: AbortSignal): Promise<RequestPlace> {
    signal.throwIfAborted();
    const source = this.#sourceOf(from);
    if (source.waiting.length >= MAX_WAITING) throw new MeshError("TooManyRequests");
    const { promise, resolve, reject } = Promise.withResolvers<RequestPlace>();
    const waiting = { bytes, admit: resolve, refuse: reject };
    source.waiting.push(waiting);
    const giveUp = (): void => {
      const at = source.waiting.indexOf(waiting);
      if (at < 0) return;
      source.waiting.splice(at, 1);
      reject(signal.reason);
      this.#changed(source);
    };
    signal.addEventListener("abort", giveUp, { once: true });
    this.#changed(source);
    try {
      return await promise;
    } finally {
      signal.removeEventListener("abort", giveUp);
    }
  }

  /** Takes a place for a request of the replica's own, which has no source. */
  own(): RequestPlace {
    return new RequestPlace(0, (_, held) => this.#hold(held));
  }

  /** Takes a place for a file and returns what gives it back. */
  openFile(from: string | undefined): () => void {
    const source = this.#sourceOf(from);
    if (this.#files >= MAX_FILES || source.files >= SOURCE_FILES) {
      throw new MeshError("TooManyRequests", "too many files are stored and made at present");
    }
    const change = (by: number): void => {
      this.#files += by;
      source.files += by;
      source.places += by;
      this.#changed(source);
    };
    this.#sources.set(source.key, source);
    change(1);
    let isOpen = true;
    return () => {
      if (isOpen) change(-1);
      isOpen = false;
    };
  }

  /** Refuses those who wait: the replica is closed. */
  close(error: MeshError): void {
    for (const source of this.#sources.values()) {
      for (const { refuse } of source.waiting.splice(0)) refuse(error);
      this.#changed(source);
    }
  }

  #sourceOf(from: string | undefined): Source {
    const key = toHex(sourceOf(from));
    return this.#sources.get(key) ?? { key, reserved: 0, places: 0, files: 0, waiting: [] };
  }

  #admit(source: Source, bytes: number): RequestPlace {
    source.places++;
    source.reserved += bytes;
    this.#sources.set(source.key, source);
    return new RequestPlace(bytes, (reserved, held, isOver) => {
      this.#hold(held);
      source.reserved += reserved;
      if (isOver) source.places--;
      this.#changed(source);
    });
  }

  /** Counts bytes that have arrived, or were given back. */
  #hold(more: number): void {
    if (more > 0 && this.#held + more > MAX_HELD) throw new MeshError("TooManyRequests");
    this.#held += more;
  }

  /** Admits those of a source who have waited and have room now, and forgets a source that holds nothing. */
  #changed(source: Source): void {
    for (let [next] = source.waiting; next !== undefined; [next] = source.waiting) {
      if (source.reserved + next.bytes > SOURCE_RESERVED) break;
      source.waiting.shift();
      next.admit(this.#admit(source, next.bytes));
    }
    if (source.places > 0 || source.waiting.length > 0) this.#sources.set(source.key, source);
    else this.#sources.delete(source.key);
  }
}

/** Changes what is reserved and held by so much. Throws, and changes nothing, if too much would be held. */
type Change = (reserved: number, held: number, isOver: boolean) => void;

/** The memory of one request. */
export class RequestPlace {
  readonly #change: Change;
  #reserved: number;
  #held = 0;
  #isOpen = true;

  /** Has reserved these bytes. */
  constructor(reserved: number, change: Change) {
    this.#reserved = reserved;
    this.#change = change;
  }

  /** Takes bytes that have arrived; throws if all requests together hold too many. */
  take(bytes: number): void {
    this.#change(0, bytes, false);
    this.#held += bytes;
  }

  /** Gives back what was reserved for bytes that did not come: the request is whole. */
  settle(): void {
    const reserved = Math.min(this.#held, this.#reserved);
    this.#change(reserved - this.#reserved, 0, false);
    this.#reserved = reserved;
  }

  /** Gives everything back, once. */
  release(): void {
    if (this.#isOpen) this.#change(-this.#reserved, -this.#held, true);
    this.#isOpen = false;
  }
}
