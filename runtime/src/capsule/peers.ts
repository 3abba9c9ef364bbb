import type { CapsuleInput, CapsuleOutput } from "../codec/capsule.ts";
import { MeshError } from "../codec/code.ts";
import { toHex } from "../codec/hex.ts";
import { collect } from "../driver/collect.ts";
import { within } from "../driver/deadline.ts";
import type { Mesh } from "../driver/mesh.ts";
import { randomBytes } from "../driver/random.ts";
import type { Timers } from "../driver/timers.ts";
import { capsuleOf } from "./name.ts";
import { refusalOf } from "./request.ts";

/** Longest response of a replica: what a request may give, and what its last operation adds. */
const MAX_RESPONSE: number = 12 * 1024 * 1024;
/** Characters of what a server's failure is told with: others write some of it. */
const MAX_CAUSE = 200;
/** How long an answer may take: a replica reads megabytes of records for one. */
const ANSWER_MS = 30_000;

/** Sends a request of `docs/specification/capsules.md` and resolves with the response; nobody waits for it once `signal` aborts. */
export type Ask = (message: Uint8Array<ArrayBuffer>, signal: AbortSignal) => Promise<Uint8Array>;

/** What of a mesh asks its nodes; without `timers` those of the platform are used. */
export type AskingMesh = Pick<Mesh, "fetch"> & Partial<Pick<Mesh, "timers">>;

/** Another replica. */
export interface Peer {
  /** What it is known by here, 32 bytes. */
  readonly id: Uint8Array;
  /** Asks it. */
  readonly ask: Ask;
  /** Where it answers, for people; its id unless given. */
  readonly place?: string | undefined;
}

/** Asks the replica that answers at a URL, over HTTP. */
export function askUrl(url: string, fetch: typeof globalThis.fetch = globalThis.fetch, timers?: Timers): Ask {
  return (body, given) =>
    inTime(given, timers, async (signal) =>
      responseOf(await fetch(url, { method: "POST", body, signal, redirect: "manual" }), signal),
    );
}

/** Asks a node of the mesh, which serves each of its capsules under the capsule's name. */
export function askNode(mesh: AskingMesh, peer: string): Ask {
  return (body, given) =>
    inTime(given, mesh.timers, async (signal) => {
      const capsule = capsuleOf(body) ?? "";
      // It reserves no more memory for the request than that takes.
      const headers = { "content-length": `${body.length}` };
      const options = { unowned: true, peer, timeout_ms: ANSWER_MS, retries: 0, signal, headers };
      const response = await mesh.fetch(`https://${capsule}.mesh/`, { method: "POST", body, ...options });
      return responseOf(response, signal);
    });
}

/** A replica that answers at a URL; the same object each time, as replicas remember by it how far they have come. */
export function peerAt(url: string, fetch?: typeof globalThis.fetch, timers?: Timers): Peer {
  return { id: randomBytes(32), ask: askUrl(url, fetch, timers) };
}

/** The input that answers an `Ask`. */
export function answered(tag: number, response: Uint8Array | undefined): CapsuleInput {
  return {
    type: "Answered",
    tag,
    ok: response !== undefined,
    response: response ?? new Uint8Array(),
  };
}

/** One who is asked, and by how many it is known. */
interface Known {
  ask: Ask;
  place: string;
  holders: number;
  /** Why it did not answer the last time it was asked, or why it refused. */
  failure: string | undefined;
}

/** Those whom a module asks, by their ids. */
export class Peers {
  readonly #known: Map<string, Known> = new Map();
  readonly #answered: (tag: number, response: Uint8Array | undefined) => void;
  /** Aborts what is asked: answers to questions of an instance that has ended are nobody's. */
  #asking: AbortController = new AbortController();

  constructor(answer: (tag: number, response: Uint8Array | undefined) => void) {
    this.#answered = answer;
  }

  /** Knows one more, until the function that is returned is called. */
  add({ id, ask, place }: Peer): () => void {
    const key = toHex(id);
    const fresh: Known = { ask, place: place ?? key, holders: 0, failure: undefined };
    const known = this.#known.get(key) ?? fresh;
    known.ask = ask;
    known.place = place ?? key;
    known.holders++;
    this.#known.set(key, known);
    let isHeld = true;
    return () => {
      if (!isHeld) return;
      isHeld = false;
      if (--known.holders === 0) this.#known.delete(key);
    };
  }

  /** Nobody waits for answers to what was asked so far. */
  forget(): void {
    this.#asking.abort(new MeshError("Cancelled"));
    this.#asking = new AbortController();
  }

  /** Carries out what the module asks for. */
  ask({ tag, peer, message }: Extract<CapsuleOutput, { type: "Ask" }>): void {
    const { signal } = this.#asking;
    const known = this.#known.get(toHex(peer));
    const answer = (response: Uint8Array | undefined, failure: string | undefined): void => {
      if (signal.aborted) return;
      if (known !== undefined) known.failure = failure;
      this.#answered(tag, response);
    };
    const ask = known?.ask ?? unknown;
    ask(message.slice(), signal).then(
      (response) => answer(response, refusalOf(response)?.message),
      (error: unknown) => answer(undefined, causeOf(error)),
    );
  }

  /** Why those did not answer, or refused, who were asked in vain the last time: each with its place. */
  failures(): string[] {
    const failed = [...this.#known.values()].filter(({ failure }) => failure !== undefined);
    return failed.map(({ place, failure }) => `${place}: ${failure}`);
  }
}

/** What lies behind an error: `fetch` of Node only says that it failed. */
function causeOf(error: unknown): string {
  const cause = error instanceof Error ? (error.cause ?? error) : error;
  return (cause instanceof Error ? cause.message : String(cause)).slice(0, MAX_CAUSE);
}

async function unknown(): Promise<never> {
  throw new MeshError("Disconnected", "nobody knows this replica");
}

function inTime<T>(
  signal: AbortSignal,
  timers: Timers | undefined,
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  return within({ timeout_ms: ANSWER_MS, late: () => new MeshError("TimedOut"), signal, timers }, work);
}

async function responseOf({ status, headers, body }: Response, signal: AbortSignal): Promise<Uint8Array> {
  const tooLong = (): MeshError =>
    new MeshError("TooLarge", `a response of a replica has at most ${MAX_RESPONSE} bytes`);
  if (status !== 200) {
    return refuse(body, new MeshError("Disconnected", `a replica answered with the status ${status}`));
  }
  if (Number(headers.get("content-length")) > MAX_RESPONSE) return refuse(body, tooLong());
  return collect(body, { most: MAX_RESPONSE, tooLong, signal });
}

async function refuse(body: Response["body"], error: MeshError): Promise<never> {
  await body?.cancel();
  throw error;
}
