import type { CapsuleInput, CapsuleOutput } from "../codec/capsule.ts";
import { MeshError } from "../codec/code.ts";
import { toHex } from "../codec/hex.ts";
import { randomBytes } from "../driver/driver.ts";
import type { Mesh } from "../driver/mesh.ts";
import { readBounded } from "./body.ts";
import { capsuleOf } from "./name.ts";

/** Longest response of a replica: what a request may give, and what its last operation adds. */
const MAX_RESPONSE: number = 12 * 1024 * 1024;
/** How long an answer may take: a replica reads megabytes of records for one. */
const ANSWER_MS = 30_000;

/** Sends a request of `docs/specification/capsules.md` and resolves with the response; nobody waits for it once `signal` aborts. */
export type Ask = (message: Uint8Array<ArrayBuffer>, signal: AbortSignal) => Promise<Uint8Array>;

/** Another replica. */
export interface Peer {
  /** What it is known by here, 32 bytes. */
  readonly id: Uint8Array;
  /** Asks it. */
  readonly ask: Ask;
}

/** Asks the replica that answers at a URL, over HTTP. */
export function askUrl(url: string, fetch: typeof globalThis.fetch = globalThis.fetch): Ask {
  return (body, given) =>
    inTime(given, async (signal) => responseOf(await fetch(url, { method: "POST", body, signal })));
}

/** Asks a node of the mesh, which serves each of its capsules under the capsule's name. */
export function askNode(mesh: Pick<Mesh, "fetch">, peer: string): Ask {
  return (body, given) =>
    inTime(given, async (signal) => {
      const capsule = capsuleOf(body) ?? "";
      const options = { unowned: true, peer, timeout_ms: ANSWER_MS, retries: 0, signal };
      return responseOf(await mesh.fetch(`https://${capsule}.mesh/`, { method: "POST", body, ...options }));
    });
}

/** A replica that answers at a URL; the same object each time, as replicas remember by it how far they have come. */
export function peerAt(url: string, fetch?: typeof globalThis.fetch): Peer {
  return { id: randomBytes(32), ask: askUrl(url, fetch) };
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
  holders: number;
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
  add({ id, ask }: Peer): () => void {
    const key = toHex(id);
    const known = this.#known.get(key) ?? { ask, holders: 0 };
    known.ask = ask;
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
    const answer = (response: Uint8Array | undefined): void => {
      if (!signal.aborted) this.#answered(tag, response);
    };
    const ask = this.#known.get(toHex(peer))?.ask ?? unknown;
    ask(message.slice(), signal).then(answer, () => answer(undefined));
  }
}

async function unknown(): Promise<never> {
  throw new MeshError("Disconnected", "nobody knows this replica");
}

/** Does something that is given up after `ANSWER_MS`, or when the signal aborts; no timer is left when it has ended. */
async function inTime<T>(given: AbortSignal, work: (signal: AbortSignal) => Promise<T>): Promise<T> {
  const ending = new AbortController();
  const giveUp = (): void => ending.abort(given.reason);
  if (given.aborted) giveUp();
  given.addEventListener("abort", giveUp, { once: true });
  const timer = setTimeout(() => ending.abort(new MeshError("TimedOut")), ANSWER_MS);
  try {
    return await work(ending.signal);
  } finally {
    clearTimeout(timer);
    given.removeEventListener("abort", giveUp);
  }
}

async function responseOf(response: Response): Promise<Uint8Array> {
  if (response.status !== 200) {
    await response.body?.cancel();
    throw new MeshError("Disconnected", `a replica answered with the status ${response.status}`);
  }
  return readBounded(response, MAX_RESPONSE, "a response of a replica");
}
