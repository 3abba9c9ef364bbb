import { codeNumber, MeshError } from "../codec/code.ts";
import { detach } from "../guard.ts";
import type { MeshStream } from "./streams.ts";
import { MAX_TIMER_MS } from "./timers.ts";

/** How a node is closed. */
export interface CloseOptions {
  /**
   * How long requests that are being answered may go on, in milliseconds. Meanwhile the names of the node are withdrawn, and new requests
   * are answered 503, which sends them to another provider. What then still goes on is reset, open WebSockets included. 0 unless given.
   */
  readonly drain?: number | undefined;
}

/** Checks how long requests may go on. */
export function checkDrain({ drain = 0 }: CloseOptions): number {
  if (Number.isFinite(drain) && drain >= 0 && drain <= MAX_TIMER_MS) return drain;
  throw new MeshError("BadConfig", `drain is a number of milliseconds from 0 to ${MAX_TIMER_MS}`);
}

/** The requests that a node is answering. */
export class Serving {
  readonly #streams: Set<MeshStream> = new Set();
  readonly #late: PromiseWithResolvers<void> = Promise.withResolvers();
  #finished: PromiseWithResolvers<void> | undefined;

  /** Follows a request until it is answered. */
  follow(stream: MeshStream, answering: Promise<void>): void {
    this.#streams.add(stream);
    const done = (): void => {
      this.#streams.delete(stream);
      if (this.#streams.size === 0) this.#finished?.resolve();
    };
    detach("an answer", answering.finally(done));
  }

  /** Waits until everything is answered and `more` is done, at most for so long; then ends what goes on, so that its caller hears so. */
  async drain(most_ms: number, more: Promise<unknown>): Promise<void> {
    this.#finished = Promise.withResolvers();
    if (this.#streams.size === 0) this.#finished.resolve();
    const timer = setTimeout(() => this.cut(), most_ms);
    try {
      await Promise.race([Promise.all([this.#finished.promise, more]), this.#late.promise]);
    } finally {
      clearTimeout(timer);
    }
    for (const stream of this.#streams) stream.reset(codeNumber("HandlerFailed"));
  }

  /** Waits no longer. */
  cut(): void {
    this.#late.resolve();
  }
}
