import { MeshError } from "../../codec/code.ts";
import { MAX_MESSAGE } from "../limits.ts";
import type { Answered, ProcedureCalls, ProcedureOptions } from "./calls.ts";
import { readJson } from "./json.ts";
import type { StreamProcedure } from "./procedure.ts";
import { type Batch, writeAsk, writeEnd } from "./wire.ts";

/** How long a server may take to hear that a stream is ended, in milliseconds: it ends by itself when nobody asks. */
const END_TIMEOUT_MS = 5000;

/** Gives the items of a stream. */
export async function* pull(
  calls: ProcedureCalls,
  { stream: schema }: StreamProcedure,
  begin: () => Promise<Answered>,
  options: ProcedureOptions,
): AsyncGenerator<unknown, void, undefined> {
  for await (const { items } of pullBatches(calls, begin, options)) {
    for (const item of listIn(items)) {
      options.signal?.throwIfAborted();
      yield await calls.check(schema, item, "an item");
    }
  }
}

/** What a batch holds. */
export interface PulledBatch {
  /** Its items. */
  readonly items: Uint8Array;
  /** Asks for the latest batch again, so that the server keeps the stream for a consumer that takes long. */
  readonly keep: () => Promise<unknown>;
}

/** Gives what the batches of a stream hold, and asks for one batch while the one before is taken. */
export async function* pullBatches(
  calls: ProcedureCalls,
  begin: () => Promise<Answered>,
  options: ProcedureOptions,
): AsyncGenerator<PulledBatch, void, undefined> {
  const { message, server } = await begin();
  let batch = batchIn(message, 0);
  const { stream } = batch;
  const stopping = new AbortController();
  const { signal: given } = options;
  const signal = given === undefined ? stopping.signal : AbortSignal.any([given, stopping.signal]);
  const ask = async (number: number): Promise<Batch> => {
    // A batch that is asked for again is the same one.
    const answered = await calls.send(writeAsk(stream, number), {
      ...options,
      signal,
      server,
      idempotent: true,
    });
    return batchIn(answered.message, number);
  };
  let isOpen = true;
  try {
    for (;;) {
      isOpen = !batch.isLast;
      const number = batch.number + 1;
      const next = isOpen ? ask(number) : undefined;
      // Its failure comes after the items.
      next?.catch(() => undefined);
      yield { items: batch.items, keep: async () => isOpen && ask(number) };
      if (next === undefined) return;
      batch = await next.catch((error: unknown) => {
        isOpen = given?.aborted === true;
        throw error;
      });
    }
  } finally {
    stopping.abort();
    if (isOpen) {
      const ending = { server, idempotent: true, timeout_ms: END_TIMEOUT_MS };
      // One that does not hear of it stops by itself.
      calls.send(writeEnd(stream), ending).catch(() => undefined);
    }
  }
}

function batchIn(message: Answered["message"], number: number): Batch {
  if (message.type === "Batch" && message.number === number) return message;
  throw new MeshError("BadMessage", "the service answers with what is not the batch that was asked for");
}

function listIn(items: Uint8Array): readonly unknown[] {
  const list = readJson(items, MAX_MESSAGE, "a batch");
  if (Array.isArray(list)) return list;
  throw new MeshError("BadMessage", "the items of a stream are no array");
}
