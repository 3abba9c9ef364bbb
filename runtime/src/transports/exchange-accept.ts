import type { Link, Path, PathHost } from "../driver/paths.ts";
import { platformTimers, type Timer, type Timers } from "../driver/timers.ts";
import { guarded } from "../guard.ts";
import { BEGUN_BYTES, BodyError, receiveBody } from "./bounded-body.ts";
import { detached, FRAMES_TYPE, FrameSplitter, joinFrames, MAX_BODY, PATH_HEADER } from "./frames.ts";
import { Activity } from "./protocol.ts";
import { type Share, Shares } from "./shares.ts";

/** An answer is held open for at most so long: below the 30 s after which proxies cut. */
const HOLD_MS = 20_000;
/** A path without a POST for so long is closed. */
const SILENCE_MS = 60_000;
/** Most paths at a time: as many as the core has sessions. Each costs little, but anybody can open one. */
const MAX_PATHS = 1024;
/** Most bytes of bodies that are held until the core has seen them: an eighth of the 128 MB that an isolate has in Workers. */
const MAX_HELD: number = 16 * MAX_BODY;
/** Most paths and bytes of one source, which leave most to the others. */
const SOURCE_PATHS: number = MAX_PATHS / 4;
const SOURCE_HELD: number = MAX_HELD / 4;
/** Frames that wait for a reader or the next POST, in bytes; beyond it the peer does not fetch them and the path closes. */
const MAX_QUEUED: number = 4 * MAX_BODY;
/** A piece of an answer holds no further frame once it is this long. */
const PIECE_BYTES: number = 64 * 1024;

const CROWDED = "too many bodies are under way";

// Frames are sealed and say who sent them; a page of any origin may carry them.
const CORS = {
  "access-control-allow-origin": "*",
  "access-control-allow-methods": "POST",
  "access-control-allow-headers": `content-type, ${PATH_HEADER}`,
  "access-control-max-age": "86400",
};

function refuse(status: number, text: string): Response {
  const headers = new Headers(CORS);
  if (status === 405) headers.set("allow", "GET, OPTIONS, POST");
  if (status === 503) headers.set("retry-after", "1");
  return new Response(`${text}\n`, { status, headers });
}

/** Answers the POSTs of peers that dial over HTTP. */
export class ExchangeAcceptor {
  readonly #host: PathHost;
  readonly #activity: Activity;
  readonly #timers: Timers;
  readonly #links: Map<string, AcceptedLink> = new Map();
  /** Tokens of paths that were closed, and when on the monotonic clock: a POST that follows is told so. */
  readonly #closed: Map<string, number> = new Map();
  readonly #paths: Shares = new Shares(SOURCE_PATHS, MAX_PATHS);
  readonly #bodies: Shares = new Shares(SOURCE_HELD, MAX_HELD);

  /** `activity` counts the answers that are held open. */
  constructor(host: PathHost, activity: Activity = new Activity(), timers: Timers = platformTimers) {
    this.#host = host;
    this.#activity = activity;
    this.#timers = timers;
  }

  /** Answers one request. `remote` is the peer's address as the host sees it. */
  async handle(request: Request, remote: string): Promise<Response> {
    if (request.method === "OPTIONS") return new Response(null, { status: 204, headers: CORS });
    if (request.method !== "POST") return refuse(405, "frames come by POST or WebSocket");
    if (request.headers.get("content-type") !== FRAMES_TYPE) return refuse(415, `send ${FRAMES_TYPE}`);
    const token = request.headers.get(PATH_HEADER) ?? "";
    if (!/^[0-9a-f]{32}$/.test(token)) return refuse(400, `${PATH_HEADER} has 32 hex digits`);
    const held = this.#bodies.take(remote, BEGUN_BYTES);
    if (held === undefined) {
      await request.body?.cancel();
      return refuse(503, CROWDED);
    }
    try {
      const receiving = { most: MAX_BODY, held, crowded: CROWDED, timers: this.#timers };
      return await this.#take(token, remote, await receiveBody(request, receiving));
    } catch (error) {
      if (error instanceof BodyError) return refuse(error.status, error.message);
      throw error;
    } finally {
      held.release();
    }
  }

  /** Hands the frames of a body in and begins the answer. */
  async #take(token: string, remote: string, body: Uint8Array): Promise<Response> {
    const frames = split(body);
    if (frames === undefined) return refuse(400, "the body holds no whole frames");
    if (this.#closed.has(token)) return refuse(410, "the path is closed");
    const link = this.#links.get(token) ?? this.#accept(token, remote);
    if (link === undefined) return refuse(503, "too many paths are open");
    const { response, answer } = link.answer();
    for (const frame of frames) link.path?.received(frame);
    await this.#host.settled();
    // What was sent for a session of which this node knows nothing is to be sent on another one at once.
    if (this.#closed.has(token) && !link.hasAnswered) return refuse(410, "the path is closed");
    link.finishUnlessBusy(answer);
    return response;
  }

  /** Closes the paths that were silent for too long; called now and then. */
  sweep(): void {
    const oldest = performance.now() - SILENCE_MS;
    for (const link of this.#links.values()) if (link.heard < oldest) link.path?.close(1001, "silent");
    for (const [token, closed] of this.#closed) if (closed < oldest) this.#closed.delete(token);
  }

  #forget(token: string): void {
    this.#links.delete(token);
    this.#closed.set(token, performance.now());
    if (this.#closed.size <= MAX_PATHS) return;
    // In the order in which they were closed.
    const [oldest] = this.#closed.keys();
    if (oldest !== undefined) this.#closed.delete(oldest);
  }

  #accept(token: string, remote: string): AcceptedLink | undefined {
    const share = this.#paths.take(remote) ?? this.#takeSwept(remote);
    if (share === undefined) return undefined;
    const gone = (): void => {
      share.release();
      this.#forget(token);
    };
    const link = new AcceptedLink(gone, this.#activity, this.#timers);
    this.#links.set(token, link);
    link.path = this.#host.open(link, { dial: 0, kind: "Exchange", remote });
    return link;
  }

  #takeSwept(remote: string): Share | undefined {
    this.sweep();
    return this.#paths.take(remote);
  }
}

/** The body of an answer: its reader gets a piece whenever it wants one, so that nothing is kept in the stream. */
interface Answer {
  controller: ReadableStreamDefaultController<Uint8Array> | undefined;
  wantsPiece: boolean;
  /** Whether it ends once the frames that wait are read. */
  isEnding: boolean;
}

class AcceptedLink implements Link {
  path: Path | undefined;
  heard: number = performance.now();
  /** Whether the answer that is open, or was last, holds a frame. */
  hasAnswered: boolean = false;
  readonly #gone: () => void;
  readonly #activity: Activity;
  readonly #timers: Timers;
  #done: (() => void) | undefined;
  #answer: Answer | undefined;
  #timer: Timer | undefined;
  #queue: Uint8Array[] = [];
  #queued = 0;
  #isBusy = false;
  #isClosed = false;

  constructor(gone: () => void, activity: Activity, timers: Timers) {
    this.#gone = gone;
    this.#activity = activity;
    this.#timers = timers;
  }

  /** Begins an answer. The one before it ends: the newest carries what comes. */
  answer(): { response: Response; answer: Answer } {
    this.heard = performance.now();
    this.#end();
    const answer: Answer = { controller: undefined, wantsPiece: false, isEnding: false };
    const pull = (): void => {
      answer.wantsPiece = true;
      if (answer === this.#answer) this.#flush(answer);
    };
    const cancel = (): void => {
      // Only this answer: a newer one may be open by now.
      if (answer !== this.#answer) return;
      answer.controller = undefined;
      this.#end();
    };
    const start = (controller: ReadableStreamDefaultController<Uint8Array>): void => {
      answer.controller = controller;
    };
    const body = new ReadableStream<Uint8Array>({ start, pull, cancel }, { highWaterMark: 0 });
    this.#answer = answer;
    this.#done = this.#activity.begin();
    this.#timer = this.#timers.after(
      HOLD_MS,
      guarded("the end of an answer", () => this.#end()),
    );
    this.hasAnswered = this.#queue.length > 0;
    const headers = { "content-type": FRAMES_TYPE, "cache-control": "no-store", ...CORS };
    return { response: new Response(body as ReadableStream<Uint8Array<ArrayBuffer>>, { headers }), answer };
  }

  /** Ends the answer when the core awaits nothing that could come on it. */
  finishUnlessBusy(answer: Answer | undefined): void {
    if (!this.#isBusy && answer === this.#answer) this.#finish();
  }

  get waitingBytes(): number {
    return this.#queued;
  }

  send(frame: Uint8Array): void {
    this.#queue.push(detached(frame));
    this.#queued += frame.length;
    if (this.#queued > MAX_QUEUED) throw new Error("the peer does not fetch its frames");
    if (this.#answer === undefined) return;
    this.hasAnswered = true;
    this.#flush(this.#answer);
  }

  busy(busy: boolean): void {
    this.#isBusy = busy;
    // The frames of the same batch may follow.
    if (!busy) queueMicrotask(guarded("the end of an answer", () => this.finishUnlessBusy(this.#answer)));
  }

  close(): void {
    this.#isClosed = true;
    this.#gone();
    if (this.#answer === undefined) this.#end();
    else this.#finish();
  }

  abort(): void {
    if (!this.#isClosed) this.#gone();
    this.#isClosed = true;
    this.#end();
  }

  /** Ends the answer after the frames that wait. */
  #finish(): void {
    if (this.#answer === undefined) return;
    this.#answer.isEnding = true;
    this.#flush(this.#answer);
  }

  /** Gives frames to the reader if it wants any. */
  #flush(answer: Answer): void {
    if (answer.wantsPiece && this.#queue.length > 0) {
      answer.wantsPiece = false;
      answer.controller?.enqueue(this.#takePiece());
    }
    if (answer.isEnding && answer === this.#answer && this.#queue.length === 0) this.#end();
  }

  #takePiece(): Uint8Array {
    let [count, bytes] = [0, 0];
    for (const frame of this.#queue) {
      if (bytes >= PIECE_BYTES) break;
      count++;
      bytes += frame.length;
    }
    this.#queued -= bytes;
    return joinFrames(this.#queue.splice(0, count));
  }

  /** Ends the answer now; frames that wait go into the next one, if the path is open. */
  #end(): void {
    this.#timer?.cancel();
    const answer = this.#answer;
    this.#answer = undefined;
    answer?.controller?.close();
    this.#done?.();
    if (!this.#isClosed) return;
    this.#queue = [];
    this.#queued = 0;
    this.path?.closed();
  }
}

/** The frames of a whole body, or `undefined` when it holds anything else. */
function split(body: Uint8Array): Uint8Array[] | undefined {
  const splitter = new FrameSplitter();
  try {
    const frames = splitter.push(body);
    return splitter.isComplete ? frames : undefined;
  } catch {
    return undefined;
  }
}
