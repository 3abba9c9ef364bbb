import { MeshError } from "../codec/code.ts";
import { fromHex } from "../codec/hex.ts";
import { Logger, type LogSink } from "../driver/log.ts";
import type { Mesh } from "../driver/mesh.ts";
import { MAX_TIMER_MS } from "../driver/timers.ts";
import { detach, reasonOf } from "../guard.ts";
import { shuffled } from "../shuffled.ts";
import { nameOf } from "./name.ts";
import { askNode, type Peer, peerAt } from "./peers.ts";
import type { Replica } from "./replica.ts";

/** How often a capsule is compared with another replica's: what a push has lost is back after as long, for two small requests. */
const INTERVAL_MS = 30_000;
/** By how much of itself the interval varies, so that replicas that were started together do not ask together for ever. */
const JITTER = 0.5;

/** Where the other replicas are. */
export interface ReplicateOptions {
  /** Capsules, in base32, that this replica is to hold, and fetches if it does not; those that it holds are replicated anyway. */
  readonly keep?: readonly string[] | undefined;
  /** URLs of other replicas, each of which holds every capsule. */
  readonly urls?: readonly string[] | undefined;
  /** The mesh in which those that serve a capsule are found by its name. */
  readonly mesh?: Mesh | undefined;
  /** How often a capsule is compared, in milliseconds; 30 seconds unless given, and up to half of it more or less. */
  readonly interval_ms?: number | undefined;
  /** Sends requests to the URLs; the platform's unless given. */
  readonly fetch?: typeof globalThis.fetch | undefined;
  /** Where log records go; the console unless given. */
  readonly log?: LogSink | undefined;
}

/** A replica that keeps up with others. */
export interface Replicating {
  /** Resolves when each capsule was compared once, with the first replica that answered, and nothing is missing that it had. */
  readonly joined: Promise<void>;
  /** Compares each capsule now, in place of waiting for the interval to pass. */
  readonly round: () => Promise<void>;
  /** Compares nothing any more. What writers store is still pushed. */
  readonly stop: () => void;
}

/**
 * Keeps a replica at the same state as the other replicas of its capsules: what writers store here is pushed to them at once,
 * and from time to time each capsule is compared with one of them, so that what was lost on the way comes after all. It ends
 * with the replica.
 */
export function replicate(replica: Replica, options: ReplicateOptions): Replicating {
  const replicator = new Replicator(replica, options);
  let timer: ReturnType<typeof setTimeout> | undefined;
  const wait = (): void => {
    if (replicator.isStopped) return;
    const ahead_ms = Math.min(replicator.due_ms - performance.now(), MAX_TIMER_MS);
    timer = setTimeout(() => detach("a round of replication", replicator.round().then(wait)), ahead_ms);
  };
  const joined = replicator.round();
  detach("a round of replication", joined.then(wait));
  const stop = (): void => {
    replicator.stop();
    if (timer !== undefined) clearTimeout(timer);
  };
  replica.closed.addEventListener("abort", stop, { once: true });
  return { joined, round: () => replicator.round(), stop };
}

/** Compares one capsule after the other, when it is told to. */
export class Replicator {
  readonly #replica: Replica;
  readonly #options: ReplicateOptions;
  readonly #logger: Logger;
  readonly #known: readonly Peer[];
  readonly #interval_ms: number;
  readonly #ignore: () => void;
  #last: Promise<void> = Promise.resolve();
  #due_ms = 0;
  #isStopped = false;

  /** Compares new capsules from now on, and others with `round`. */
  constructor(replica: Replica, options: ReplicateOptions) {
    const { interval_ms = INTERVAL_MS, keep = [], urls = [], fetch, log } = options;
    if (!(interval_ms > 0))
      throw new MeshError("BadConfig", "interval_ms is a number of milliseconds above 0");
    for (const capsule of keep) nameOf(capsule);
    this.#replica = replica;
    this.#options = options;
    this.#logger = new Logger(log);
    this.#known = urls.map((url) => peerAt(url, fetch, replica.timers));
    this.#interval_ms = interval_ms;
    this.#ignore = replica.onCapsule((capsule) => detach("replication", this.#bring([capsule])));
  }

  /** When the next round is due, in milliseconds of the monotonic clock: a wall clock that is set back delays none. */
  get due_ms(): number {
    return this.#due_ms;
  }

  /** Whether it compares nothing any more. */
  get isStopped(): boolean {
    return this.#isStopped || this.#replica.closed.aborted;
  }

  /** Compares each capsule that is here or is to be, after those that are being compared; never rejects. */
  round(): Promise<void> {
    this.#waitOn();
    const capsules = new Set([...(this.#options.keep ?? []), ...this.#replica.capsules]);
    return this.#bring([...capsules]).then(() => this.#waitOn());
  }

  #waitOn(): void {
    this.#due_ms = performance.now() + this.#interval_ms * (1 + JITTER * (2 * Math.random() - 1));
  }

  /** Compares nothing any more. */
  stop(): void {
    this.#isStopped = true;
    this.#ignore();
  }

  #bring(capsules: readonly string[]): Promise<void> {
    this.#last = this.#last.then(async () => {
      for (const capsule of capsules) {
        if (this.isStopped) return;
        await this.#bringOne(capsule);
      }
    });
    return this.#last;
  }

  /** Compares a capsule with others, in random order, until it holds the same as one of them. */
  async #bringOne(capsule: string): Promise<void> {
    try {
      const peers = await this.#peersOf(capsule);
      if (this.isStopped) return;
      this.#replica.pushTo(capsule, peers);
      for (const peer of shuffled(peers)) if (await this.#agrees(capsule, peer)) return;
    } catch (error) {
      this.#warn(`the other replicas of ${capsule} are not found`, error);
    }
  }

  async #agrees(capsule: string, peer: Peer): Promise<boolean> {
    try {
      return (await this.#replica.synchronise(capsule, peer)).agreed;
    } catch (error) {
      this.#warn(`${capsule} was not compared`, error);
      return false;
    }
  }

  async #peersOf(capsule: string): Promise<readonly Peer[]> {
    const { mesh } = this.#options;
    if (mesh === undefined) return this.#known;
    const providers = await mesh.find(capsule, { unowned: true });
    const others = providers.filter(({ peer }) => peer !== mesh.id);
    const found = others.map(({ peer }) => ({
      id: fromHex(peer, 32, "a peer's id"),
      ask: askNode(mesh, peer),
    }));
    return [...this.#known, ...found];
  }

  #warn(what: string, error: unknown): void {
    if (this.isStopped) return;
    const code = error instanceof MeshError ? error.code : 0;
    const why = reasonOf(error);
    this.#logger.log("warn", `${what}: ${why}`, code);
  }
}
