import { InputBatch, readItems } from "../codec/batch.ts";
import { codeNumber, MeshError } from "../codec/code.ts";
import type { Config } from "../codec/config.ts";
import { type Command, type Input, inputCodec } from "../codec/input.ts";
import { readOperations, writeEntries } from "../codec/operation.ts";
import { type Output, outputCodec } from "../codec/output.ts";
import { detach, guarded, reasonOf } from "../guard.ts";
import { isPromise, type MaybePromise } from "../stores/store.ts";
import type { Confirm } from "./admission.ts";
import { Core } from "./core.ts";
import { eventOf, type MeshEvent } from "./event.ts";
import { FailureHints } from "./failure-hints.ts";
import type { Logger } from "./log.ts";
import { lookUp } from "./newcomers.ts";
import {
  type Dialler,
  type Link,
  type Opened,
  type Path,
  type PathHost,
  PathTable,
  type Resumed,
} from "./paths.ts";
import { randomBytes } from "./random.ts";
import { Routing } from "./routed.ts";
import type { State } from "./state.ts";
import { MeshStream } from "./streams.ts";
import type { Timers, WakeTimer } from "./timers.ts";
import { Traps } from "./traps.ts";
import type { NameWatch, Watcher } from "./watch.ts";

/** A core that has not loaded its state by then never will: the store hangs. */
const START_TIMEOUT_MS = 30_000;
const MAX_TAG = 0xffff_ffff;

/** What a driver is made of. */
export interface DriverParts {
  /** The compiled core. */
  readonly module: WebAssembly.Module;
  /** The configuration at the first start, but for its entropy. */
  readonly config: Omit<Config, "entropy">;
  /** The checked store. */
  readonly state: State;
  /** Opens paths. */
  readonly dialler: Dialler;
  /** Makes the timer that wakes the driver. */
  readonly timer: (wake: () => void) => WakeTimer;
  /** Timers of what is not the core's. */
  readonly timers: Timers;
  /** Looks newcomers to a closed network up; the configuration says whether the core asks. */
  readonly confirm: Confirm | undefined;
  /** The log. */
  readonly logger: Logger;
  /** Hears of events. */
  readonly onEvent: (event: MeshEvent) => void;
  /** Serves a stream that a peer opened. */
  readonly onStream: (stream: MeshStream) => void;
  /** The core was started again after a trap: what was joined and published must be again. */
  readonly onRestart: () => void;
}

interface Pending {
  readonly resolve: (value: Uint8Array | MeshStream) => void;
  readonly reject: (error: unknown) => void;
  /** Whether nobody waits any more, so that a stream that opens is reset. */
  cancelled: boolean;
}

/** Drives one core: collects inputs, steps, and carries out what the core asks for. */
export class Driver implements PathHost {
  /** Messages from member to member. */
  readonly routing: Routing = new Routing((build, signal) => this.command(build, signal));
  readonly #parts: DriverParts;
  readonly #batch: InputBatch<Input> = new InputBatch(inputCodec);
  #tags: number[] = [];
  /** What arrived before the core had loaded its state, which it must not see yet. */
  #held: Input[] = [];
  readonly #paths: PathTable;
  readonly #streams: Map<number, MeshStream> = new Map();
  readonly #pending: Map<number, Pending> = new Map();
  readonly #watches: Map<number, NameWatch> = new Map();
  readonly #timer: WakeTimer;
  /** The configuration, with the certificate that is in use. */
  #config: DriverParts["config"];
  #core: Core | undefined;
  #handle = 0;
  #nextTag = 1;
  #flushing = false;
  #scheduled: Promise<void> | undefined;
  #ready: PromiseWithResolvers<void> = defer();
  #failure: MeshError | undefined;
  readonly #traps: Traps = new Traps();
  #generation = 0;
  #isReady = false;
  #wasReady = false;
  /** Why commands are refused until the core is started again. */
  #down: MeshError | undefined;
  #restart: ReturnType<typeof setTimeout> | undefined;
  #hung: ReturnType<typeof setTimeout> | undefined;
  readonly #hints: FailureHints = new FailureHints();

  constructor(parts: DriverParts) {
    this.#parts = parts;
    this.#config = parts.config;
    this.#paths = new PathTable(
      (input) => this.#tell(input),
      (path, reason) => {
        this.#hints.path = reason;
        parts.logger.log("debug", `a path failed: ${reason}`, 0, path);
      },
    );
    this.#timer = parts.timer(guarded("a wake-up", () => this.flush()));
  }

  /** Starts the core and resolves when it has loaded its state. */
  async start(): Promise<void> {
    const generation = this.#generation;
    const core = await Core.instantiate(this.#parts.module);
    if (generation !== this.#generation || this.#failure !== undefined) return;
    this.#core = core;
    try {
      this.#handle = core.create({ ...this.#config, entropy: randomBytes(32) });
    } catch (error) {
      this.#fail(error instanceof MeshError ? error : new MeshError("BadConfig", String(error)));
      throw error;
    }
    this.flush();
    // It may have trapped already.
    if (this.#core !== core) return this.#ready.promise;
    this.#hung = setTimeout(() => {
      this.#fail(new MeshError("StoreFailed", `${this.#parts.state.location} does not answer`));
    }, START_TIMEOUT_MS);
    try {
      await this.#ready.promise;
    } finally {
      clearTimeout(this.#hung);
    }
  }

  /** Resolves when commands are taken. */
  whenReady(): Promise<void> {
    return this.#ready.promise;
  }

  /** Open paths, for the status. */
  get pathCount(): number {
    return this.#paths.size;
  }

  /** Streams and commands that somebody waits for. */
  get workCount(): number {
    return this.#streams.size + this.#pending.size;
  }

  /** Sends a command and resolves with the body of its reply. */
  async command(build: (tag: number) => Command, signal?: AbortSignal | null): Promise<Uint8Array> {
    return (await this.#ask(build, signal)) as Uint8Array;
  }

  /** Goes on with another certificate, also when the core is started again. */
  async certify(certificate: Uint8Array): Promise<void> {
    await this.command((tag) => ({ type: "Certify", tag, certificate }));
    const { admission } = this.#config;
    if (admission !== "open") this.#config = { ...this.#config, admission: { ...admission, certificate } };
  }

  /** Sends a `Call` or `CallPeer` and resolves with the stream. */
  async openStream(build: (tag: number) => Command, signal?: AbortSignal | null): Promise<MeshStream> {
    return (await this.#ask(build, signal)) as MeshStream;
  }

  /**
   * Follows who serves a name until the function that is returned is called, also when the core is started again meanwhile;
   * the watcher is told the encoded providers.
   */
  watch(owner: Uint8Array, name: string, watcher: Watcher<Uint8Array>): () => void {
    if (this.#failure !== undefined) throw this.#failure;
    const tag = this.#takeTag();
    this.#watches.set(tag, { owner, name, watcher });
    if (this.#isReady) this.#push({ type: "Watch", tag, owner, name });
    return () => {
      if (this.#watches.delete(tag) && this.#isReady) this.#tell({ type: "Cancel", tag });
    };
  }

  open(link: Link, opened: Opened): Path {
    return this.#paths.open(link, opened);
  }

  resume(link: Link, resumed: Resumed): Path {
    return this.#paths.resume(link, resumed);
  }

  dialFailed(dial: number, reason: string): void {
    this.#hints.dial = reason;
    this.#parts.logger.log("debug", `a dial failed: ${reason}`, codeNumber("DialFailed"));
    this.#tell({ type: "DialFailed", dial });
  }

  async settled(): Promise<void> {
    await this.#scheduled;
  }

  /** Steps at once with what was collected; the platform calls it when a wake-up is due. */
  flush(): void {
    if (this.#flushing || this.#core === undefined) return;
    this.#flushing = true;
    try {
      do this.#step(this.#core);
      while (this.#batch.count > 0 && this.#core !== undefined);
    } catch (error) {
      this.#trap(error);
    } finally {
      this.#flushing = false;
    }
  }

  /** Ends the node: closes its paths and fails what is pending. */
  close(): void {
    if (this.#failure !== undefined) return;
    this.#endWatches();
    this.#fail(new MeshError("NotJoined", "the node was closed"));
  }

  async #ask(
    build: (tag: number) => Command,
    signal: AbortSignal | null | undefined,
  ): Promise<Uint8Array | MeshStream> {
    signal?.throwIfAborted();
    if (this.#down !== undefined) throw this.#down;
    // A core that is ready gets the command at once: the order of calls is the order of commands.
    if (!this.#isReady) await unlessAborted(this.#ready.promise, signal);
    signal?.throwIfAborted();
    const tag = this.#takeTag();
    const { promise, resolve, reject } = Promise.withResolvers<Uint8Array | MeshStream>();
    const pending: Pending = { resolve, reject, cancelled: false };
    const cancel = (): void => {
      pending.cancelled = true;
      this.#tell({ type: "Cancel", tag });
      reject(signal?.reason);
    };
    this.#pending.set(tag, pending);
    signal?.addEventListener("abort", cancel, { once: true });
    try {
      this.#push(build(tag), tag);
      return await promise;
    } finally {
      signal?.removeEventListener("abort", cancel);
      if (!pending.cancelled) this.#pending.delete(tag);
    }
  }

  #takeTag(): number {
    const tag = this.#nextTag;
    this.#nextTag = tag === MAX_TAG ? 1 : tag + 1;
    return tag;
  }

  #push(input: Input, tag = 0): void {
    if (this.#failure !== undefined) throw this.#failure;
    if (!this.#isReady && !isPartOfLoading(input)) {
      this.#held.push(input);
      return;
    }
    if (input.type === "Join") this.#hints.joins();
    this.#batch.push(input);
    this.#tags.push(tag);
    if (this.#flushing || this.#scheduled !== undefined || this.#core === undefined) return;
    // One step for all that arrives in the same turn.
    this.#scheduled = Promise.resolve().then(() => {
      this.#scheduled = undefined;
      this.flush();
    });
    detach("a step of the core", this.#scheduled);
  }

  #tell(input: Input): void {
    if (this.#failure === undefined) this.#push(input);
  }

  /** Tells this core, and none that is started after it. */
  #teller(): (input: Input) => void {
    const generation = this.#generation;
    return (input) => {
      if (generation === this.#generation) this.#tell(input);
    };
  }

  #step(core: Core): void {
    const outputs = core.step(this.#handle, this.#batch.finish(Date.now()));
    const tags = this.#tags;
    this.#batch.clear();
    this.#tags = [];
    const decoded = readItems(outputs).map((item) => outputCodec.decode(item));
    // A snapshot is kept before any frame of its batch is sent: the counters that it holds must never repeat.
    for (const output of decoded) if (output.type === "Snapshot") this.#carryOut(output, tags);
    for (const output of decoded) if (output.type !== "Snapshot") this.#carryOut(output, tags);
    this.#hints.path = "";
  }

  /** Carries out one output; what goes wrong outside the core is no fault of it. */
  #carryOut(output: Output, tags: readonly number[]): void {
    try {
      this.#dispatch(output, tags);
    } catch (error) {
      if (error === this.#failure) return;
      this.#parts.logger.log(
        "error",
        `${output.type} failed: ${error instanceof Error ? error.message : error}`,
      );
    }
  }

  #dispatch(output: Output, tags: readonly number[]): void {
    switch (output.type) {
      case "Transmit":
        return this.#paths.send(output.path, output.frame);
      case "Dial":
        return this.#parts.dialler.dial(output.dial, output.address, this);
      case "ClosePath":
        return this.#paths.get(output.path)?.close(1000, "");
      case "Snapshot":
        return this.#paths.use(output.path, (link) => link.snapshot?.(output.snapshot));
      case "Busy":
        return this.#paths.use(output.path, (link) => link.busy?.(output.busy));
      case "NeedEntropy":
        return this.#push({ type: "Entropy", bytes: randomBytes(32) });
      case "LookUp":
        return this.#lookUp(output);
      case "StoreGet":
      case "StoreScan":
        return this.#read(output);
      case "StoreCommit":
        return this.#commit(output);
      case "StreamOpened":
        return this.#streamOpened(output);
      case "StreamData":
        return this.#streams.get(output.stream)?.onData(output.data);
      case "StreamEnd":
        return this.#streams.get(output.stream)?.onEnd();
      case "StreamReset":
        return this.#streams.get(output.stream)?.fail(new MeshError(output.code));
      case "StreamCredit":
        return this.#streams.get(output.stream)?.onCredit(output.bytes);
      case "Reply":
        return this.#answered(output.tag)?.resolve(output.body);
      case "Failed":
        return this.#failed(output);
      case "Providers":
        return this.#watches.get(output.tag)?.watcher.tell(output.body);
      case "Routed":
        return this.routing.accept(output, this.#teller());
      case "Refused":
        return this.#refused(output.code, tags[output.input] ?? 0);
      case "Event":
        return this.#event(eventOf(output.event, output.body));
      case "Log":
        return this.#log(output);
      case "Wake":
        // A node that has ended in this very step sleeps for good.
        if (this.#failure === undefined) this.#timer.schedule(output.at_ms);
        return;
      default:
        return output satisfies never;
    }
  }

  #lookUp(output: Extract<Output, { type: "LookUp" }>): void {
    const { confirm, logger } = this.#parts;
    if (confirm === undefined) return;
    detach(
      "looking a newcomer up",
      lookUp(output, confirm, logger).then((input) => this.#tell(input)),
    );
  }

  #read(output: Extract<Output, { type: "StoreGet" | "StoreScan" }>): void {
    const { state } = this.#parts;
    const { tag } = output;
    const failed: Input = { type: "StoreRead", tag, ok: false, entries: new Uint8Array() };
    this.#answer(failed, () => {
      if (output.type === "StoreGet") {
        const { key } = output;
        return then(state.get(key), (value) => {
          const entries = writeEntries(value === undefined ? [] : [[key, value]]);
          return { type: "StoreRead", tag, ok: true, entries };
        });
      }
      return then(state.scan(output.start, output.end, output.limit), (found) => {
        const entries = writeEntries(found.map(([key, value]) => [state.strip(key), value]));
        return { type: "StoreRead", tag, ok: true, entries };
      });
    });
  }

  #commit({ tag, durable, operations }: Extract<Output, { type: "StoreCommit" }>): void {
    this.#answer({ type: "StoreCommitted", tag, ok: false }, () =>
      then(this.#parts.state.commit(readOperations(operations), durable), () => {
        return { type: "StoreCommitted", tag, ok: true };
      }),
    );
  }

  /** Answers the core with what the store gives, now or later; an answer to a core that is gone is dropped. */
  #answer(failed: Input, work: () => MaybePromise<Input>): void {
    const deliver = this.#teller();
    const failure = (error: unknown): Input => {
      const code = error instanceof MeshError ? error.code : codeNumber("StoreFailed");
      this.#hints.store = reasonOf(error);
      this.#parts.logger.log("error", this.#hints.store, code);
      return failed;
    };
    let answer: MaybePromise<Input>;
    try {
      answer = work();
    } catch (error) {
      answer = failure(error);
    }
    if (!isPromise(answer)) return this.#push(answer);
    detach(
      "the store",
      answer.then(deliver, (error: unknown) => deliver(failure(error))),
    );
  }

  #streamOpened(output: Extract<Output, { type: "StreamOpened" }>): void {
    const gone = (stream: MeshStream): void => {
      this.#streams.delete(stream.number);
    };
    const stream = new MeshStream(output, this.#parts.timers, (input) => this.#tell(input), gone);
    this.#streams.set(stream.number, stream);
    if (output.tag === 0) return this.#parts.onStream(stream);
    const pending = this.#answered(output.tag);
    if (pending === undefined || pending.cancelled) return stream.reset(codeNumber("Cancelled"));
    pending.resolve(stream);
  }

  #answered(tag: number): Pending | undefined {
    const pending = this.#pending.get(tag);
    this.#pending.delete(tag);
    return pending;
  }

  #failed({ tag, code, detail }: Extract<Output, { type: "Failed" }>): void {
    const error = this.#hints.errorOf(code, detail, this.#config.bootstraps);
    if (tag === 0) return this.#end(error);
    const watch = this.#watches.get(tag);
    this.#watches.delete(tag);
    watch?.watcher.end(error);
    this.#answered(tag)?.reject(error);
  }

  #endWatches(error?: MeshError): void {
    const watches = [...this.#watches.values()];
    this.#watches.clear();
    for (const { watcher } of watches) watcher.end(error);
  }

  #refused(code: number, tag: number): void {
    const pending = this.#answered(tag);
    if (pending !== undefined) return pending.reject(new MeshError(code));
    // A stream may end in the step that gets more for it: neither side is at fault, and each call may do so.
    const level = code === codeNumber("UnknownStream") ? "debug" : "warn";
    this.#parts.logger.log(level, "the core refused an input", code);
  }

  #event(event: MeshEvent): void {
    if (event.type === "ready") {
      this.#isReady = true;
      this.#wasReady = true;
      this.#ready.resolve();
      for (const input of this.#held.splice(0)) this.#push(input);
      for (const [tag, { owner, name }] of this.#watches) this.#push({ type: "Watch", tag, owner, name });
    }
    this.#parts.onEvent(event);
  }

  #log({ level, text, code, path }: Extract<Output, { type: "Log" }>): void {
    this.#hints.logged(code, text);
    this.#parts.logger.log(level, text, code, path);
  }

  /** The node as a whole cannot go on. */
  #end(reason: MeshError): void {
    if (this.#failure !== undefined) return;
    const { location } = this.#parts.state;
    const isUnplaced = reason.class === "Store" && !reason.message.startsWith(location);
    const error = isUnplaced ? new MeshError(reason.code, `${location}: ${reason.message}`) : reason;
    this.#parts.logger.log("error", `the node has ended: ${error.message}`, error.code);
    this.#fail(error);
    this.#parts.onEvent({ type: "ended", error });
  }

  /** The instance is poisoned: a new one starts from the stored state. */
  #trap(error: unknown): void {
    if (this.#failure !== undefined) return;
    const reason = reasonOf(error);
    const text =
      "the core stopped and is started again from its store: the request may have been carried out";
    const down = new MeshError("Disconnected", text, { cause: error });
    if (!this.#wasReady) return this.#fail(down);
    this.#abandon(down, 1012, "the node starts again");
    this.#down = down;
    const { pause_ms, traps, isUnstable } = this.#traps.note(performance.now());
    this.#parts.logger.log(
      "error",
      `the core trapped, and is started again in ${pause_ms / 1000} s: ${reason}`,
    );
    if (isUnstable) this.#parts.onEvent({ type: "unstable", traps, reason });
    this.#restart = setTimeout(() => {
      this.#down = undefined;
      detach("the restart of the core", this.#startAgain(reason));
    }, pause_ms);
  }

  async #startAgain(reason: string): Promise<void> {
    const generation = this.#generation;
    try {
      await this.start();
    } catch (error) {
      return this.#trap(error);
    }
    if (generation !== this.#generation) return;
    this.#parts.onEvent({ type: "restarted", reason });
    this.#parts.onRestart();
  }

  /** Ends for good. */
  #fail(error: MeshError): void {
    if (this.#failure !== undefined) return;
    const core = this.#core;
    const handle = this.#handle;
    this.#abandon(error, 1001, "the node closes");
    this.#failure = error;
    if (this.#restart !== undefined) clearTimeout(this.#restart);
    this.#endWatches(error);
    this.#ready.reject(error);
    try {
      core?.destroy(handle);
    } catch {
      // An instance that trapped cannot be asked any more; its memory goes with it.
    }
  }

  /** Lets go of the core and of everything that depends on it. */
  #abandon(error: MeshError, code: number, reason: string): void {
    this.#generation++;
    this.#core = undefined;
    this.#handle = 0;
    this.#batch.clear();
    this.#tags = [];
    this.#held = [];
    this.#timer.cancel();
    if (this.#hung !== undefined) clearTimeout(this.#hung);
    if (this.#isReady) {
      this.#ready = defer();
      this.#isReady = false;
    }
    this.#paths.closeAll(code, reason);
    for (const pending of this.#pending.values()) pending.reject(error);
    this.#pending.clear();
    for (const stream of [...this.#streams.values()]) stream.fail(error);
    this.#streams.clear();
  }
}

/** Whether an input is one of the few that a core takes before its event `Ready`. */
function isPartOfLoading({ type }: Input): boolean {
  return type === "StoreRead" || type === "StoreCommitted" || type === "Entropy";
}

/** Applies `use` now, or when the value is there. */
function then<T, U>(value: MaybePromise<T>, use: (value: T) => U): MaybePromise<U> {
  return isPromise(value) ? value.then(use) : use(value);
}

/** Waits for a promise, unless it is cancelled meanwhile. */
async function unlessAborted(promise: Promise<void>, signal: AbortSignal | null | undefined): Promise<void> {
  const { promise: aborted, reject } = Promise.withResolvers<never>();
  const abort = (): void => reject(signal?.reason);
  signal?.addEventListener("abort", abort, { once: true });
  try {
    await Promise.race([promise, aborted]);
  } finally {
    signal?.removeEventListener("abort", abort);
  }
}

function defer(): PromiseWithResolvers<void> {
  const deferred = Promise.withResolvers<void>();
  // Whoever waits hears of the failure; nobody may be waiting.
  deferred.promise.catch(() => undefined);
  return deferred;
}
