import type { Input, PathKind } from "../codec/input.ts";
import { reasonOf } from "../guard.ts";
import { Backlog } from "./backlog.ts";

/** Largest frame, in bytes; a socket that carries a larger one is closed. */
export const MAX_FRAME: number = 64 * 1024;

/** How a transport carries the frames of one path; what throws closes the path. */
export interface Link {
  /** Bytes that wait to be sent, also once the path is closed; 0 where the platform does not tell. */
  readonly waitingBytes: number;
  /** Sends one frame. The bytes may be kept, detached from a larger buffer: nobody changes them. */
  send(frame: Uint8Array): void;
  /** Closes the path after the bytes that wait; `code` is one of WebSocket. */
  close(code: number, reason: string): void;
  /** Closes the path, also one that is closing, and drops the bytes that wait where the platform can. */
  abort(code: number, reason: string): void;
  /** Keeps the core's snapshot with a hibernating path. */
  snapshot?(snapshot: Uint8Array): void;
  /** Hears whether the core awaits something on an exchange path. */
  busy?(busy: boolean): void;
}

/** What a transport knows of a path that it opened or accepted. */
export interface Opened {
  /** The number of the core's `Dial`, or 0 for an incoming path. */
  readonly dial: number;
  /** How the path carries frames. */
  readonly kind: PathKind;
  /** The peer's address as the host sees it. */
  readonly remote: string;
}

/** A path that survived the loss of memory. */
export interface Resumed {
  /** The number it had. */
  readonly path: number;
  /** The peer's address as it was seen. */
  readonly remote: string;
  /** The last snapshot that the core gave of it; empty when there was none. */
  readonly snapshot: Uint8Array;
}

/** What a transport tells the driver. */
export interface PathHost {
  /** A path is open. */
  open(link: Link, opened: Opened): Path;
  /** A path survived. */
  resume(link: Link, resumed: Resumed): Path;
  /** A dial came to nothing; `reason` goes to the log. */
  dialFailed(dial: number, reason: string): void;
  /** Resolves when the core has seen everything that was told so far. */
  settled(): Promise<void>;
}

/** Opens paths to addresses. */
export interface Dialler {
  /** The schemes it can dial, without the colon. */
  readonly schemes: readonly string[];
  /** Dials; tells the host `open` or `dialFailed` with the number. */
  dial(dial: number, address: string, host: PathHost): void;
}

/** An open path, as its transport sees it. */
export class Path {
  /** Number of the path on the boundary. */
  readonly number: number;
  readonly #table: PathTable;
  readonly link: Link;

  constructor(table: PathTable, number: number, link: Link) {
    this.#table = table;
    this.number = number;
    this.link = link;
  }

  /** Bytes that wait to be sent. */
  get waitingBytes(): number {
    return this.link.waitingBytes;
  }

  /** A frame arrived. One that is too large closes the path. */
  received(frame: Uint8Array): void {
    if (!this.#table.has(this)) return;
    if (frame.length > MAX_FRAME) {
      this.close(1009, "a frame has at most 65536 bytes");
    } else {
      this.#table.push({ type: "Received", path: this.number, frame });
    }
  }

  /** The path closed by itself. May be told more than once; the last time when no byte waits any more. */
  closed(): void {
    this.#table.closed(this);
  }

  /** Closes the path because its transport failed; `reason` names the address and the cause. */
  fail(reason: string): void {
    if (!this.#table.has(this)) return;
    this.#table.failed(this, reason);
    this.close(1006, "the transport failed");
  }

  /** Closes the path from this side. */
  close(code: number, reason: string): void {
    if (!this.#table.has(this)) return;
    this.closed();
    this.link.close(code, reason);
    // What waited may be gone with it.
    this.closed();
  }
}

/** The open paths of one core, by number. Numbers are never reused while the core lives. */
export class PathTable {
  readonly #paths: Map<number, Path> = new Map();
  readonly #backlog: Backlog<Path> = new Backlog();
  readonly #push: (input: Input) => void;
  readonly #onFailure: (path: number, reason: string) => void;
  #next = 1;

  /** `onFailure` hears why a path is closed that failed, before it is. */
  constructor(
    push: (input: Input) => void,
    onFailure: (path: number, reason: string) => void = () => undefined,
  ) {
    this.#push = push;
    this.#onFailure = onFailure;
  }

  /** How many paths are open. */
  get size(): number {
    return this.#paths.size;
  }

  /** The path with this number, if it is open. */
  get(number: number): Path | undefined {
    return this.#paths.get(number);
  }

  /** Whether this very path is open. */
  has(path: Path): boolean {
    return this.#paths.get(path.number) === path;
  }

  /** Hands an input on. */
  push(input: Input): void {
    this.#push(input);
  }

  /** Adds an open path. */
  open(link: Link, opened: Opened): Path {
    const path = this.#add(this.#next, link, opened.remote);
    this.#push({ type: "PathOpened", path: path.number, ...opened });
    return path;
  }

  /** Adds a path that survived. */
  resume(link: Link, { path: number, remote, snapshot }: Resumed): Path {
    const path = this.#add(number, link, remote);
    this.#push({ type: "PathResumed", path: number, remote, snapshot });
    return path;
  }

  /** Sends a frame on a path if it is open. If too many bytes wait on all paths, those with the most fail. */
  send(number: number, frame: Uint8Array): void {
    const path = this.#paths.get(number);
    if (path === undefined) return;
    this.use(number, (link) => link.send(frame));
    for (const slow of this.#backlog.sent(path)) this.#fail(slow, "too many bytes wait on all paths");
  }

  /** Does something with the link of a path if it is open; one that throws fails. */
  use(number: number, act: (link: Link) => void): void {
    const path = this.#paths.get(number);
    if (path === undefined) return;
    try {
      act(path.link);
    } catch (error) {
      this.#fail(path, reasonOf(error));
    }
  }

  /** A path is closed, or nothing waits any more on one that was. */
  closed(path: Path): void {
    if (this.has(path)) {
      this.#paths.delete(path.number);
      this.#push({ type: "PathClosed", path: path.number });
    }
    this.#backlog.closed(path);
  }

  /** Tells why a path is about to be closed. */
  failed(path: Path, reason: string): void {
    this.#onFailure(path.number, reason);
  }

  /** Closes every path without telling the core, which is gone. */
  closeAll(code: number, reason: string): void {
    const paths = [...this.#paths.values()];
    this.#paths.clear();
    for (const path of paths) {
      try {
        path.link.close(code, reason);
      } catch {
        // The socket is gone already.
      }
      this.#backlog.closed(path);
    }
  }

  /** Closes a path without its bytes that wait: whoever does not take them would keep them here for long. */
  #fail(path: Path, reason: string): void {
    this.failed(path, reason);
    this.closed(path);
    this.#backlog.dropped(path);
    path.link.abort(1011, "the path failed");
  }

  #add(number: number, link: Link, remote: string): Path {
    const path = new Path(this, number, link);
    this.#paths.set(number, path);
    this.#backlog.add(path, remote);
    this.#next = Math.max(this.#next, number + 1);
    return path;
  }
}
