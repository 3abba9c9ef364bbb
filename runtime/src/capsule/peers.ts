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

/** Sends a request of `docs/specification/capsules.md` and resolves with the response. */
export type Ask = (message: Uint8Array<ArrayBuffer>) => Promise<Uint8Array>;

/** Another replica. */
export interface Peer {
  /** What it is known by here, 32 bytes. */
  readonly id: Uint8Array;
  /** Asks it. */
  readonly ask: Ask;
}

/** Asks the replica that answers at a URL, over HTTP. */
export function askUrl(url: string, fetch: typeof globalThis.fetch = globalThis.fetch): Ask {
  return async (body) => {
    const signal = AbortSignal.timeout(ANSWER_MS);
    return responseOf(await fetch(url, { method: "POST", body, signal }));
  };
}

/** Asks a node of the mesh, which serves each of its capsules under the capsule's name. */
export function askNode(mesh: Mesh, peer: string): Ask {
  return async (body) => {
    const capsule = capsuleOf(body) ?? "";
    const options = { unowned: true, peer, timeout_ms: ANSWER_MS, retries: 0 };
    return responseOf(await mesh.fetch(`https://${capsule}.mesh/`, { method: "POST", body, ...options }));
  };
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

/** Those whom a module asks, by their ids. */
export class Peers {
  readonly #asks: Map<string, Ask> = new Map();
  readonly #answered: (tag: number, response: Uint8Array | undefined) => void;
  /** Answers to questions of an instance that has ended are nobody's. */
  #generation = 0;

  constructor(answer: (tag: number, response: Uint8Array | undefined) => void) {
    this.#answered = answer;
  }

  /** Knows one more. */
  add({ id, ask }: Peer): void {
    this.#asks.set(toHex(id), ask);
  }

  /** Nobody waits for answers to what was asked so far. */
  forget(): void {
    this.#generation++;
  }

  /** Carries out what the module asks for. */
  ask({ tag, peer, message }: Extract<CapsuleOutput, { type: "Ask" }>): void {
    const generation = this.#generation;
    const answer = (response: Uint8Array | undefined): void => {
      if (generation === this.#generation) this.#answered(tag, response);
    };
    const ask = this.#asks.get(toHex(peer)) ?? unknown;
    ask(message.slice()).then(answer, () => answer(undefined));
  }
}

async function unknown(): Promise<never> {
  throw new MeshError("Disconnected", "nobody knows this replica");
}

async function responseOf(response: Response): Promise<Uint8Array> {
  if (response.status !== 200) {
    await response.body?.cancel();
    throw new MeshError("Disconnected", `a replica answered with the status ${response.status}`);
  }
  return readBounded(response, MAX_RESPONSE, "a response of a replica");
}
