import { toHex } from "../codec/hex.ts";
import type { Dialler, Link, Path, PathHost } from "../driver/paths.ts";
import { randomBytes } from "../driver/random.ts";
import { platformTimers, type Timer, type Timers } from "../driver/timers.ts";
import { detach, guarded } from "../guard.ts";
import { detached, FRAMES_TYPE, FrameSplitter, joinFrames, MAX_BODY, PATH_HEADER } from "./frames.ts";
import { Activity, dialUrl } from "./protocol.ts";

/** POSTs of one path at a time: workerd allows six connections, and one stays free for lookups. */
const MAX_POSTS = 5;
/** An answer that takes longer is lost: the other side holds it for at most 20 s. */
const ANSWER_TIMEOUT_MS = 30_000;
/** A poll that was answered at once with nothing is repeated after a pause that doubles up to the longest. */
const FIRST_PAUSE_MS = 100;
const LONGEST_PAUSE_MS = 5_000;
/** The POST with the last frames of a path is given up after so long. */
const LAST_TIMEOUT_MS = 5_000;
/** Frames that wait for a POST, in bytes; beyond it the peer is too slow and the path closes. */
const MAX_QUEUED = 4 * MAX_BODY;

/** Sends a request, like the platform's `fetch` or that of a stub. */
export type Fetch = (url: string, init: RequestInit) => Promise<Response>;

/** Dials `https` and `http`: frames go as bodies of POSTs and come back as bodies of their answers. */
export class ExchangeDialler implements Dialler {
  readonly schemes: readonly string[] = ["https", "http"];
  readonly #fetch: (address: string) => Fetch;
  readonly #activity: Activity;
  readonly #timers: Timers;

  /** `choose` picks how an address is reached, by default with the platform's `fetch`; `activity` counts the POSTs. */
  constructor(
    choose?: (address: string) => Fetch | undefined,
    activity: Activity = new Activity(),
    timers: Timers = platformTimers,
  ) {
    this.#activity = activity;
    this.#timers = timers;
    this.#fetch = (address) => choose?.(address) ?? ((url, init) => fetch(url, init));
  }

  dial(dial: number, address: string, host: PathHost): void {
    const url = dialUrl(address);
    const link = new ExchangeLink(url.href, this.#fetch(address), this.#activity, this.#timers);
    link.path = host.open(link, { dial, kind: "Exchange", remote: url.host });
  }
}

class ExchangeLink implements Link {
  path: Path | undefined;
  readonly #url: string;
  readonly #fetch: Fetch;
  readonly #activity: Activity;
  readonly #timers: Timers;
  readonly #token: string = toHex(randomBytes(16));
  readonly #abort: AbortController = new AbortController();
  #queue: Uint8Array[] = [];
  #queued = 0;
  /** Bytes of POSTs that were not answered. */
  #posted = 0;
  #posts = 0;
  #isBusy = false;
  #isScheduled = false;
  #pause_ms = 0;
  #timer: Timer | undefined;

  constructor(url: string, fetch: Fetch, activity: Activity, timers: Timers) {
    this.#url = url;
    this.#fetch = fetch;
    this.#activity = activity;
    this.#timers = timers;
  }

  get waitingBytes(): number {
    return this.#queued + this.#posted;
  }

  send(frame: Uint8Array): void {
    this.#queue.push(detached(frame));
    this.#queued += frame.length;
    if (this.#queued > MAX_QUEUED) throw new Error("the peer takes its frames too slowly");
    this.#schedule();
  }

  busy(busy: boolean): void {
    this.#isBusy = busy;
    this.#pause_ms = 0;
    this.#timer?.cancel();
    this.#timer = undefined;
    this.#schedule();
  }

  close(): void {
    this.#stop();
    // The last frames tell the peer that the session ends; nobody waits for an answer to them.
    if (this.#queue.length > 0) {
      const last = AbortSignal.timeout(LAST_TIMEOUT_MS);
      this.#send(this.#take(), last)
        .then((response) => response.body?.cancel())
        .catch(() => undefined);
    }
    this.#drop();
  }

  abort(): void {
    this.#stop();
    this.#drop();
  }

  #stop(): void {
    this.#timer?.cancel();
    this.#abort.abort();
  }

  #drop(): void {
    this.#queue = [];
    this.#queued = 0;
  }

  /** One POST for all frames of the same turn. */
  #schedule(): void {
    if (this.#isScheduled) return;
    this.#isScheduled = true;
    queueMicrotask(
      guarded("a POST", () => {
        this.#isScheduled = false;
        this.#pump();
      }),
    );
  }

  #pump(): void {
    if (this.#abort.signal.aborted) return;
    while (this.#queue.length > 0 && this.#posts < MAX_POSTS) this.#start(this.#take());
    if (this.#posts > 0 || !this.#isBusy || this.#timer !== undefined) return;
    if (this.#pause_ms === 0) return this.#start([]);
    const ask = guarded("a poll", () => {
      this.#timer = undefined;
      if (this.#isBusy && this.#posts === 0) this.#start([]);
    });
    this.#timer = this.#timers.after(this.#pause_ms, ask);
  }

  /** As many frames as fit in one body. */
  #take(): Uint8Array[] {
    let size = 0;
    let count = 0;
    for (const frame of this.#queue) {
      size += 4 + frame.length;
      if (size > MAX_BODY) break;
      this.#queued -= frame.length;
      count++;
    }
    return this.#queue.splice(0, count);
  }

  #start(frames: readonly Uint8Array[]): void {
    this.#posts++;
    const posted = this.#post(frames).then(
      (received) => {
        this.#posts--;
        // An answer with nothing in it, to nothing that was asked, must not be asked for again at once.
        const isIdle = frames.length === 0 && received === 0;
        this.#pause_ms = isIdle
          ? Math.min(Math.max(this.#pause_ms * 2, FIRST_PAUSE_MS), LONGEST_PAUSE_MS)
          : 0;
        this.#schedule();
      },
      (error: unknown) => {
        this.#posts--;
        this.path?.fail(`${this.#url}: ${causeOf(error)}`);
      },
    );
    detach("a POST", posted);
  }

  /** Sends one POST and hands on the frames of its answer as they arrive; resolves with their number. */
  async #post(frames: readonly Uint8Array[]): Promise<number> {
    const done = this.#activity.begin();
    const expired = this.#timers.after(ANSWER_TIMEOUT_MS, () => this.#abort.abort());
    try {
      const response = await this.#send(frames, this.#abort.signal);
      if (response.status !== 200) {
        await response.body?.cancel();
        throw new Error(`the answer to a POST has status ${response.status}`);
      }
      return await this.#receive(response.body);
    } finally {
      expired.cancel();
      done();
    }
  }

  async #send(frames: readonly Uint8Array[], signal: AbortSignal): Promise<Response> {
    const body = joinFrames(frames);
    this.#posted += body.length;
    try {
      return await this.#fetch(this.#url, {
        method: "POST",
        headers: { "content-type": FRAMES_TYPE, [PATH_HEADER]: this.#token },
        body,
        signal,
        redirect: "manual",
      });
    } finally {
      this.#posted -= body.length;
      if (this.#abort.signal.aborted) this.path?.closed();
    }
  }

  async #receive(body: ReadableStream<Uint8Array> | null): Promise<number> {
    if (body === null) return 0;
    const splitter = new FrameSplitter();
    const reader = body.getReader();
    let count = 0;
    for (let next = await reader.read(); !next.done; next = await reader.read()) {
      for (const frame of splitter.push(next.value)) {
        this.path?.received(frame);
        count++;
      }
    }
    if (!splitter.isComplete) throw new Error("an answer ends within a frame");
    return count;
  }
}

/** Why a request failed: the cause that a platform names says more than its error, which is the same for all. */
function causeOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const { cause, message } = error;
  return (cause instanceof Error && cause.message) || message;
}
