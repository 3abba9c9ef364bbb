import { MeshError } from "../codec/code.ts";
import { fromHex } from "../codec/hex.ts";
import { Logger, type LogSink } from "../driver/log.ts";
import type { Mesh } from "../driver/mesh.ts";
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
 * and from time to time each capsule is compared with one of them, so that what was lost on the way comes after all.
 */
export function replicate(replica: Replica, options: ReplicateOptions): Replicating {
  const { interval_ms = INTERVAL_MS } = options;
  const replicator = new Replicator(replica, options);
  const ignore = replica.onCapsule((capsule) => void replicator.bring([capsule]));
  let timer: ReturnType<typeof setTimeout> | undefined;
  let isStopped = false;
  const round = (): Promise<void> => replicator.bring(replicator.capsules());
  const wait = (): void => {
    if (isStopped) return;
    const varied = interval_ms * (1 + JITTER * (2 * Math.random() - 1));
    timer = setTimeout(() => void round().then(wait), varied);
  };
  const joined = round();
  void joined.then(wait);
  const stop = (): void => {
    isStopped = true;
    if (timer !== undefined) clearTimeout(timer);
    ignore();
  };
  return { joined, round, stop };
}

/** Compares one capsule after the other. */
class Replicator {
  readonly #replica: Replica;
  readonly #options: ReplicateOptions;
  readonly #logger: Logger;
  readonly #known: readonly Peer[];
  #last: Promise<void> = Promise.resolve();

  constructor(replica: Replica, options: ReplicateOptions) {
    this.#replica = replica;
    this.#options = options;
    this.#logger = new Logger(options.log);
    this.#known = (options.urls ?? []).map((url) => peerAt(url, options.fetch));
  }

  /** Those that are here or are to be. */
  capsules(): string[] {
    return [...new Set([...(this.#options.keep ?? []), ...this.#replica.capsules])];
  }

  /** Compares these after those before; never rejects. */
  bring(capsules: readonly string[]): Promise<void> {
    this.#last = this.#last.then(async () => {
      for (const capsule of capsules) await this.#bring(capsule);
    });
    return this.#last;
  }

  /** Compares a capsule with others, in random order, until it holds the same as one of them. */
  async #bring(capsule: string): Promise<void> {
    try {
      const peers = await this.#peersOf(capsule);
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
    const code = error instanceof MeshError ? error.code : 0;
    const why = error instanceof Error ? error.message : String(error);
    this.#logger.log("warn", `${what}: ${why}`, code);
  }
}

function shuffled<T>(all: readonly T[]): T[] {
  return all
    .map((one) => ({ one, place: Math.random() }))
    .sort((a, b) => a.place - b.place)
    .map(({ one }) => one);
}
