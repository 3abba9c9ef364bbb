/**
 * The calls of a soak test, as an application makes them. What it may try again follows the documented policy (`retries` in the
 * README of the package, the classes in `docs/errors.md`): a call whose method is idempotent, and that failed with an error of the class
 * Unreachable or Limit, an answer of 502, 503 or 504, or a body that broke off, is made again after a pause, until 30 s have
 * passed since its first attempt. A POST is made once: the mesh itself tries another provider where nothing was sent.
 */
import { ID_FIELD, LARGE_BYTES } from "./service.ts";
import type { Order, Outcome } from "./settings.ts";

/** Longest time from the first attempt to the beginning of the last one. */
const PATIENCE_MS = 30_000;
/** Pause before a second attempt, which doubles up to the longest. */
const FIRST_PAUSE_MS = 100;
const LONGEST_PAUSE_MS = 2_000;
/** Longest time for one attempt: until its answer begins, and for all of it. */
const TIMEOUT_MS = 10_000;
const ATTEMPT_MS = 30_000;
/** When calls are aborted: before the answer of a slow service, which takes 2 s. */
const ABORT_MS = 50;
/** An aborted call settles within this time. */
const ABORTED_MS = 5_000;
/** Pieces of a body of unknown length. */
const PIECES = 3;
const PIECE_BYTES = 8 * 1024;
/** Events that are read before the reader leaves. */
const EVENTS = 3;

/** A socket of any platform. */
export interface CallingSocket {
  send(data: string): void;
  close(code?: number): void;
  addEventListener(type: "open" | "close", listener: () => void): void;
  addEventListener(type: "message", listener: (event: { readonly data: unknown }) => void): void;
  addEventListener(type: "error", listener: (event: { readonly error?: unknown }) => void): void;
}

/** How a runtime calls services. */
export interface Client {
  fetch(url: string, init: RequestInit & { timeout_ms?: number }): Promise<Response>;
  socket(url: string): CallingSocket;
}

/** An answer with a status that may be tried again. */
class Refused extends Error {}
/** What must not happen, however often it is tried. */
class Wrong extends Error {}

/** Makes a call, with the attempts that it may have. */
export async function perform(client: Client, order: Order): Promise<Outcome> {
  const begun = performance.now();
  const reasons: string[] = [];
  for (let pause_ms = FIRST_PAUSE_MS; ; pause_ms = Math.min(2 * pause_ms, LONGEST_PAUSE_MS)) {
    try {
      await within(ATTEMPT_MS, attempt(client, order));
      return { ok: true, attempts: reasons.length + 1, reasons, took_ms: performance.now() - begun };
    } catch (error) {
      reasons.push(reasonOf(error));
      const isLate = performance.now() - begun > PATIENCE_MS;
      if (order.kind === "post" || error instanceof Wrong || isLate) {
        return { ok: false, attempts: reasons.length, reasons, took_ms: performance.now() - begun };
      }
    }
    await new Promise((resolve) => setTimeout(resolve, pause_ms));
  }
}

function attempt(client: Client, { kind, service, id }: Order): Promise<void> {
  const url = `https://${service}.mesh`;
  switch (kind) {
    case "large":
      return large(client, url);
    case "post":
      return post(client, url, id);
    case "stream":
      return stream(client, url);
    case "events":
      return leaveEvents(client, url);
    case "socket":
      return leaveSocket(client, url.replace("https", "wss"));
    case "abort":
      return abort(client, url, Number(id.at(-1)) % 2 === 0);
    default:
      return small(client, url);
  }
}

async function small(client: Client, url: string): Promise<void> {
  const response = await ask(client, `${url}/small`, {});
  expect(await response.text(), "small");
}

async function large(client: Client, url: string): Promise<void> {
  const response = await ask(client, `${url}/large`, {});
  const { length } = new Uint8Array(await response.arrayBuffer());
  if (length !== LARGE_BYTES) throw new Wrong(`an answer of ${length} bytes in place of ${LARGE_BYTES}`);
}

async function post(client: Client, url: string, id: string): Promise<void> {
  const response = await ask(client, `${url}/post`, {
    method: "POST",
    body: id,
    headers: { [ID_FIELD]: id },
  });
  expect(await response.text(), id);
}

async function stream(client: Client, url: string): Promise<void> {
  let left = PIECES;
  const body = new ReadableStream<Uint8Array<ArrayBuffer>>({
    pull(controller) {
      if (left-- > 0) controller.enqueue(new Uint8Array(PIECE_BYTES));
      else controller.close();
    },
  });
  const init = { method: "PUT", body, duplex: "half" };
  const response = await ask(client, `${url}/stream`, init as RequestInit);
  expect(await response.text(), `${PIECES * PIECE_BYTES}`);
}

async function leaveEvents(client: Client, url: string): Promise<void> {
  const response = await ask(client, `${url}/events`, {});
  const reader = response.body?.getReader();
  const decoder = new TextDecoder();
  for (let text = ""; text.split("\n\n").length <= EVENTS; ) {
    const read = await reader?.read();
    if (read?.value === undefined) throw new Refused("the events have ended");
    text += decoder.decode(read.value, { stream: true });
  }
  await reader?.cancel();
}

async function leaveSocket(client: Client, url: string): Promise<void> {
  const socket = client.socket(`${url}/socket`);
  try {
    await new Promise<void>((resolve, reject) => {
      socket.addEventListener("open", () => socket.send("hello"));
      socket.addEventListener("message", ({ data }) => {
        if (data === "hello") resolve();
        else reject(new Wrong(`the socket answers ${String(data)}`));
      });
      socket.addEventListener("error", ({ error }) => reject(error ?? new Refused("the socket failed")));
      socket.addEventListener("close", () => reject(new Refused("the socket was closed")));
    });
  } finally {
    socket.close(1000);
  }
}

/** Gives a call up before its answer begins, or when it has begun. */
async function abort(client: Client, url: string, isBegun: boolean): Promise<void> {
  const controller = new AbortController();
  const { signal } = controller;
  let settled: Promise<unknown>;
  if (isBegun) {
    const response = await ask(client, `${url}/events`, { signal });
    const reader = response.body?.getReader();
    await reader?.read();
    controller.abort();
    settled = drain(reader);
  } else {
    settled = client.fetch(`${url}/slow`, { signal });
    setTimeout(() => controller.abort(), ABORT_MS);
  }
  const late = new Wrong(`an aborted call did not settle within ${ABORTED_MS} ms`);
  await within(
    ABORT_MS + ABORTED_MS,
    settled.catch(() => undefined),
  ).catch(() => Promise.reject(late));
}

async function drain(reader: ReadableStreamDefaultReader<Uint8Array> | undefined): Promise<void> {
  while ((await reader?.read())?.done === false);
}

async function ask(client: Client, url: string, init: RequestInit): Promise<Response> {
  const response = await client.fetch(url, { ...init, timeout_ms: TIMEOUT_MS });
  if (response.status === 200) return response;
  const text = await response.text();
  const { code = text } = (text.startsWith("{") ? JSON.parse(text) : {}) as { code?: string };
  throw new Refused(`status ${response.status} ${code.slice(0, 200)}`);
}

function expect(text: string, wanted: string): void {
  if (text !== wanted) throw new Wrong(`the answer is ${text.slice(0, 100)}`);
}

/** What went wrong, short enough to be counted. */
export function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const { name, message } = error;
  return `${name}: ${message}`.replaceAll(/[0-9a-f]{16,}/g, "ID").slice(0, 240);
}

function within<T>(limit_ms: number, work: Promise<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    const late = (): void => reject(new Error(`nothing came of it within ${limit_ms / 1000} s`));
    const timer = setTimeout(late, limit_ms);
    work.then(resolve, reject).finally(() => clearTimeout(timer));
  });
}
