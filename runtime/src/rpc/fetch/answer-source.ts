import { codeName, MeshError } from "../../codec/code.ts";
import { fromHex } from "../../codec/hex.ts";
import type { Input } from "../../codec/input.ts";
import type { Endpoint } from "../../driver/serve.ts";
import { MeshStream } from "../../driver/streams.ts";
import type { Timers } from "../../driver/timers.ts";
import { detach } from "../../guard.ts";
import type { Share } from "../../transports/shares.ts";
import { RpcRefusal } from "../handler.ts";
import { BATCH_BYTES } from "../procedures/limits.ts";
import type { Exchange } from "./message.ts";

/** A request that an endpoint answers. */
export interface Served extends Exchange {
  readonly service: string;
  /** The caller's peer id, 64 hex digits. */
  readonly caller: string;
  /** The memory of the request, until its answer ends: who answers may read the body as late as that. */
  readonly held: Share;
}

/** Gives the bytes that an endpoint answers a request with, on a stream that ends in this process, as long as the signal does not abort. */
export async function* answerOf(
  endpoint: Endpoint,
  { service, caller, head, body, held }: Served,
  signal: AbortSignal,
  timers: Timers,
): AsyncGenerator<Uint8Array, void, undefined> {
  const source = new AnswerSource();
  const opened = { stream: 0, peer: fromHex(caller, 32, "caller"), service, head };
  const stream = new MeshStream(opened, timers, source.push, source.wake);
  const stop = (): void => stream.fail(new MeshError("Cancelled", "the caller has given the request up"));
  signal.addEventListener("abort", stop, { once: true });
  if (signal.aborted) stop();
  stream.onData(body);
  stream.onEnd();
  stream.onCredit(BATCH_BYTES);
  detach("an answer", endpoint.serve(stream));
  try {
    for (let bytes = await source.next(stream); bytes !== undefined; bytes = await source.next(stream)) {
      yield bytes;
      stream.onCredit(bytes.length);
    }
  } finally {
    signal.removeEventListener("abort", stop);
    held.release();
  }
}

/** What an endpoint has written to a stream. */
class AnswerSource {
  readonly #written: Uint8Array[] = [];
  #isEnded = false;
  #wake: () => void = () => undefined;

  /** Takes what the stream tells its peer. */
  readonly push = (input: Input): void => {
    // Its writer may use its memory again.
    if (input.type === "StreamData") this.#written.push(input.data.slice());
    else if (input.type === "StreamEnd") this.#isEnded = true;
    this.wake();
  };

  readonly wake = (): void => this.#wake();

  /** Waits for the next bytes; `undefined` after the last. Throws a refusal when the answer is broken off. */
  async next(stream: MeshStream): Promise<Uint8Array | undefined> {
    for (;;) {
      const bytes = this.#written.shift();
      if (bytes !== undefined) return bytes;
      if (this.#isEnded) return undefined;
      if (stream.error !== undefined) throw new RpcRefusal(codeName(stream.error.code) ?? "HandlerFailed");
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
  }
}
