import { codeNumber, MeshError } from "../codec/code.ts";
import { collect } from "../driver/collect.ts";
import { Logger, type LogOptions } from "../driver/log.ts";
import type { Mesh } from "../driver/mesh.ts";
import { checkName } from "../driver/options.ts";
import { MAX_TIMER_MS, type Timer } from "../driver/timers.ts";
import { detach } from "../guard.ts";
import { shuffled } from "../shuffled.ts";
import { provenCaller } from "./caller.ts";
import {
  beginChain,
  decodeOffer,
  encodeOffer,
  isAhead,
  isLost,
  isPreferred,
  isSame,
  type KeyChain,
  type KeyOffer,
  keysOf,
  MAX_OFFER,
  PERIOD_S,
  rotationsOf,
} from "./key-chain.ts";
import { TicketKeys } from "./keys.ts";

/** Where the replicas of a service ask each other for ticket keys (RFC 8615). */
export const KEYS_PATH = "/.well-known/selfsame-rpc/keys";
/** Tickets are good for an hour unless a server says otherwise, and no key may be erased before those that it has issued. */
const ROTATION_S = 3600;
/** How long until replicas are asked again, at first and later. */
const FIRST_PAUSE_MS = 500;
const LONGEST_PAUSE_MS = 60_000;
const ANSWER_TIMEOUT_MS = 10_000;
/** Replicas that a newcomer asks at a time. */
const MAX_ASKED = 8;
/** How long what the ring says of a service's providers is believed, so that strangers who ask for keys cost it little. */
const PROVIDERS_MS = 1_000;
/** The replicas as far as they are known when the ring does not answer. */
const NOBODY: ReadonlySet<string> = /* @__PURE__ */ new Set();

/** How ticket keys are shared. */
export interface TicketKeySharing extends LogOptions {
  /** The mesh that the replicas are in. */
  readonly mesh: Pick<Mesh, "id" | "fetch" | "find" | "timers">;
  /** The service: a name of an owner, whose grant says who is a replica. */
  readonly service: string;
  /** Public key of the name's owner, in place of the configured one. */
  readonly owner?: string | undefined;
  /**
   * Seconds between two rotations, which is no less than tickets live; an hour unless given. That of the oldest replica, or of the latest
   * to renew, counts.
   */
  readonly rotation_s?: number | undefined;
}

/**
 * Ticket keys that the replicas of a service share over the mesh: the first replica draws a secret, others ask for it in sessions, and all
 * rotate by the clock. `shareTicketKeys` begins it; `renew` shuts out who knows the present keys and is no replica any more.
 */
export class SharedTicketKeys implements Disposable {
  readonly #mesh: TicketKeySharing["mesh"];
  readonly #service: string;
  readonly #owner: string | undefined;
  readonly #ownPeriod_s: number;
  readonly #logger: Logger;
  readonly #followers: Set<(secrets: Uint8Array) => void> = new Set();
  readonly #closing: AbortController = new AbortController();
  #chain: KeyChain;
  #keys: TicketKeys = TicketKeys.random();
  #rotations = 0;
  #providers: { readonly peers: Promise<ReadonlySet<string>>; readonly until_ms: number } | undefined;
  #asking: Timer | undefined;
  #rotating: Timer | undefined;

  constructor({ mesh, service, owner, rotation_s = ROTATION_S, log, logLevel }: TicketKeySharing) {
    if (typeof mesh?.find !== "function")
      throw new MeshError("BadConfig", "mesh is what the replicas of the service are in");
    const { least, most } = PERIOD_S;
    if (!Number.isInteger(rotation_s) || rotation_s < least || rotation_s > most) {
      throw new MeshError("BadConfig", `rotation_s is a whole number from ${least} to ${most}`);
    }
    this.#mesh = mesh;
    this.#service = checkName(service);
    this.#owner = owner;
    this.#ownPeriod_s = rotation_s;
    this.#logger = new Logger(log, logLevel);
    this.#chain = beginChain(0, rotation_s, Date.now());
    this.#askAfter(0);
    this.#rotateWhenDue();
  }

  /** The secrets that are known; throws once they are erased. Secret. */
  get bytes(): Uint8Array<ArrayBuffer> {
    this.#checkOpen();
    return this.#keys.bytes;
  }

  /** Seconds between two rotations. */
  get rotation_s(): number {
    return this.#chain.period_s;
  }

  /** Sees to it that the next secret is known. */
  async derive(): Promise<void> {
    await this.#keys.derive();
  }

  /** Tells the secrets when they change, until the returned function is called. */
  follow(follower: (secrets: Uint8Array) => void): () => void {
    this.#followers.add(follower);
    return () => this.#followers.delete(follower);
  }

  /**
   * Draws another secret, which the other replicas have within some minutes: tickets that are out open nothing any more, and who has known the keys learns
   * nothing of later ones unless the owner's grant still makes a replica of them.
   */
  async renew(): Promise<void> {
    const keys = TicketKeys.random();
    await keys.derive();
    if (this.#closing.signal.aborted) keys.erase();
    this.#checkOpen();
    // The period is its own: that of the chain may be the choice of whoever is to be shut out.
    this.#use(beginChain(this.#chain.series + 1, this.#ownPeriod_s, Date.now()), keys, 0);
  }

  /** Answers another replica of the service; others get 403. */
  async fetch(request: Request, context?: unknown): Promise<Response> {
    if (request.method !== "POST") return new Response(null, { status: 405, headers: { allow: "POST" } });
    const caller = provenCaller(request, context);
    const isReplica = caller !== undefined && (await this.#replicas().catch(() => NOBODY)).has(caller);
    if (!isReplica) return new Response(null, { status: 403 });
    // Erased keys are zeros, which everybody knows.
    if (this.#closing.signal.aborted) return new Response(null, { status: 503 });
    const offer = encodeOffer(this.#offer());
    return new Response(offer, { headers: { "cache-control": "no-store" } });
  }

  /** Asks no more, and erases the keys. */
  close(): void {
    this.#closing.abort(new MeshError("Cancelled", "the ticket keys are shared no more"));
    this.#asking?.cancel();
    this.#rotating?.cancel();
    this.#followers.clear();
    this.#keys.erase();
  }

  [Symbol.dispose](): void {
    this.close();
  }

  #checkOpen(): void {
    this.#closing.signal.throwIfAborted();
  }

  #offer(): KeyOffer {
    const rotations = this.#rotations - (this.#keys.hasPrevious ? 1 : 0);
    return { ...this.#chain, rotations, secret: this.#keys.oldest };
  }

  /** Returns who serves the name by its owner's grant, as the ring says. */
  #replicas(): Promise<ReadonlySet<string>> {
    const now_ms = performance.now();
    if (this.#providers !== undefined && this.#providers.until_ms > now_ms) return this.#providers.peers;
    const finding = this.#mesh.find(this.#service, { owner: this.#owner });
    const peers = finding.then((found) => new Set(found.map(({ peer }) => peer)));
    this.#providers = { peers, until_ms: now_ms + PROVIDERS_MS };
    return peers;
  }

  #askAfter(delay_ms: number): void {
    this.#asking?.cancel();
    const ask = (): void => detach("sharing ticket keys", this.#ask(delay_ms));
    this.#asking = this.#mesh.timers.after(delay_ms, ask);
    this.#asking.unref();
  }

  /** Asks other replicas: all until all have answered and the ring knows this one, then one at a time. */
  async #ask(paused_ms: number): Promise<void> {
    const isSettled = paused_ms >= LONGEST_PAUSE_MS;
    let next_ms = Math.min(Math.max(2 * paused_ms, FIRST_PAUSE_MS), LONGEST_PAUSE_MS);
    try {
      const peers = await this.#replicas();
      const others = shuffled([...peers].filter((peer) => peer !== this.#mesh.id));
      const asked = await Promise.allSettled(
        others.slice(0, isSettled ? 1 : MAX_ASKED).map((peer) => this.#askPeer(peer)),
      );
      const failed = asked.find((one) => one.status === "rejected");
      if (failed !== undefined) throw failed.reason;
      if (peers.has(this.#mesh.id)) next_ms = LONGEST_PAUSE_MS;
    } catch (error) {
      if (this.#closing.signal.aborted) return;
      const [text, code] = error instanceof MeshError ? [error.message, error.code] : [String(error)];
      this.#logger.log("info", `the ticket keys of ${this.#service} were not compared: ${text}`, code);
    }
    if (!this.#closing.signal.aborted) this.#askAfter(next_ms);
  }

  async #askPeer(peer: string): Promise<void> {
    const signal = AbortSignal.any([this.#closing.signal, AbortSignal.timeout(ANSWER_TIMEOUT_MS)]);
    const init = { method: "POST", peer, owner: this.#owner, retries: 0, signal };
    const response = await this.#mesh.fetch(`https://${this.#service}.mesh${KEYS_PATH}`, init);
    if (response.status !== 200) {
      await response.body?.cancel();
      throw new MeshError("NotGranted", `${peer} answers ${response.status} to a request for ticket keys`);
    }
    const tooLong = (): MeshError =>
      new MeshError("BadMessage", `ticket keys have at most ${MAX_OFFER} bytes`);
    const bytes = await collect(response.body, { most: MAX_OFFER, tooLong, signal });
    try {
      await this.#consider(decodeOffer(bytes));
    } finally {
      bytes.fill(0);
    }
  }

  /** Uses the chain of another replica if it is preferred. */
  async #consider(offer: KeyOffer): Promise<void> {
    if (!this.#wants(offer)) return;
    const { keys, rotations } = await keysOf(offer, Date.now());
    await keys.derive();
    // Another one may have been adopted meanwhile.
    if (!this.#closing.signal.aborted && this.#wants(offer)) this.#use(offer, keys, rotations);
    else keys.erase();
  }

  /** Whether to use an offer: of another chain that is preferred, or of the same one whose secrets this replica has rotated too early. */
  #wants(offer: KeyOffer): boolean {
    if (!isSame(offer, this.#chain)) return isPreferred(offer, this.#chain);
    return isAhead(this.#chain, this.#rotations, Date.now());
  }

  #use({ series, born_ms, id, period_s }: KeyChain, keys: TicketKeys, rotations: number): void {
    this.#keys.erase();
    this.#chain = { series, born_ms, id, period_s };
    this.#keys = keys;
    this.#rotations = rotations;
    this.#tell();
    this.#rotateWhenDue();
  }

  #tell(): void {
    for (const follower of this.#followers) follower(this.#keys.bytes);
  }

  #rotateWhenDue(): void {
    this.#rotating?.cancel();
    const { born_ms, period_s } = this.#chain;
    const period_ms = period_s * 1000;
    const due_ms = born_ms + (this.#rotations + 1) * period_ms - Date.now();
    // The clock may leap meanwhile.
    const longest_ms = Math.min(period_ms, MAX_TIMER_MS);
    const rotate = (): void => detach("rotating ticket keys", this.#rotate());
    this.#rotating = this.#mesh.timers.after(Math.min(Math.max(due_ms, 0), longest_ms), rotate);
    this.#rotating.unref();
  }

  async #rotate(): Promise<void> {
    const [chain, keys, now_ms] = [this.#chain, this.#keys, Date.now()];
    if (isLost(chain, this.#rotations, now_ms)) return this.#beginAnew(chain);
    while (this.#rotations < rotationsOf(chain, now_ms)) {
      await keys.rotate();
      if (chain !== this.#chain || this.#closing.signal.aborted) return;
      this.#rotations += 1;
    }
    this.#tell();
    this.#rotateWhenDue();
  }

  /** Draws another secret after the clock has leapt: rotations are for good, and the other replicas may not have made them. */
  async #beginAnew(lost: KeyChain): Promise<void> {
    const text = `the clock has leapt: another secret takes the place of the ticket keys of ${this.#service}`;
    this.#logger.log("warn", text, codeNumber("WrongClock"));
    const keys = TicketKeys.random();
    await keys.derive();
    if (lost !== this.#chain || this.#closing.signal.aborted) return keys.erase();
    this.#use(beginChain(lost.series, this.#ownPeriod_s, Date.now()), keys, 0);
  }
}

/** Shares the ticket keys of a service among its replicas. */
export function shareTicketKeys(options: TicketKeySharing): SharedTicketKeys {
  return new SharedTicketKeys(options);
}
