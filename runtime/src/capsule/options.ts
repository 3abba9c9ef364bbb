import { MeshError } from "../codec/code.ts";
import { fromHex, toHex } from "../codec/hex.ts";
import type { LogOptions } from "../driver/log.ts";
import type { Mesh } from "../driver/mesh.ts";
import type { StoreFactory } from "../stores/store.ts";
import { nameOf } from "./name.ts";
import { type Ask, type AskingMesh, askNode, askUrl, type Peer } from "./peers.ts";
import type { Replica } from "./replica.ts";
import { freshRequest, readResult } from "./request.ts";

/** What of a mesh finds the servers of a capsule and asks them. */
export type CapsuleMesh = Pick<Mesh, "find"> & AskingMesh;

/** Most servers of a client. */
const MAX_SERVERS = 32;
/** For servers on the internet: a second server is asked when nine in ten answers have come. */
export const TIMING = { hedge_ms: 250, attempt_ms: 5_000, avoid_ms: 10_000, deadline_ms: 30_000 } as const;

/** A server of a capsule. */
export interface CapsuleServer {
  /** The public key that it signs with, 64 hex digits. */
  readonly key: string;
  /** Where it answers. */
  readonly url: string;
}

/** A replica in the same program, which is asked without HTTP. */
export type LocalReplica = Pick<Replica, "key" | "request">;

/** How long a client waits, in milliseconds. */
export interface CapsuleTiming {
  /** Before it asks a second server what the first has not answered; 250 unless given. */
  readonly hedge_ms?: number | undefined;
  /** Before it gives up a request; 5 seconds unless given. */
  readonly attempt_ms?: number | undefined;
  /** For how long it asks others first after a server has failed or lied; 10 seconds unless given. */
  readonly avoid_ms?: number | undefined;
  /** Before it gives up what it was asked for; 30 seconds unless given. */
  readonly deadline_ms?: number | undefined;
}

/** How a capsule is opened. */
export interface CapsuleOptions extends LogOptions {
  /** The capsule's name in base32; not needed with its metadata. */
  readonly name?: string | undefined;
  /** Its signed metadata, as `signMetadata` gives them for a new one; the servers are asked unless given. */
  readonly metadata?: Uint8Array | undefined;
  /**
   * Its servers, at most 32: where they answer, or a `Replica` of this program itself. A quorum is worth something if you know whose
   * they are: found in the mesh, they may be anybody's.
   */
  readonly servers?: readonly (CapsuleServer | LocalReplica)[] | undefined;
  /** The mesh in which servers are found by the capsule's name, unless they are given; the client uses its timers. */
  readonly mesh?: CapsuleMesh | undefined;
  /** Secret seed of the owner, a writer or a reader, 64 hex digits, in place of the one that the store makes and keeps. */
  readonly seed?: string | undefined;
  /**
   * Where the client keeps what it must not forget: which sequence numbers it has used, and what it has seen, so that it
   * notices when it is shown an older state. A store of its own for each capsule.
   */
  readonly storage: StoreFactory;
  /** How many servers must have stored something before it counts as written; more than half unless given. */
  readonly writeQuorum?: number | undefined;
  /** How many servers must have said which records are the newest; more than half unless given. */
  readonly readQuorum?: number | undefined;
  /** How long it waits. */
  readonly timing?: CapsuleTiming | undefined;
  /** Sends requests to the servers' URLs; the platform's unless given. */
  readonly fetch?: typeof globalThis.fetch | undefined;
}

/** The servers of a capsule, each by the key that it signs with. */
export async function serversOf(options: CapsuleOptions, capsule: string): Promise<Peer[]> {
  const { servers, mesh, fetch } = options;
  if (servers !== undefined) {
    checkServers(servers);
    return servers.map((server) => ({
      id: fromHex(server.key, 32, "the key of a server"),
      place: "url" in server ? server.url : undefined,
      ask: "url" in server ? askUrl(server.url, fetch, mesh?.timers) : (message) => server.request(message),
    }));
  }
  if (mesh === undefined) {
    throw new MeshError("BadConfig", "say who serves the capsule (servers), or where they are found (mesh)");
  }
  const providers = await mesh.find(capsule, { unowned: true });
  // One that is silent does not keep the others from being used.
  const signal = AbortSignal.timeout(options.timing?.attempt_ms ?? TIMING.attempt_ms);
  const asked = providers.slice(0, MAX_SERVERS).map(async ({ peer }) => {
    const ask = askNode(mesh, peer);
    return { id: await keyOf(ask, capsule, signal), ask };
  });
  const answers = await Promise.allSettled(asked);
  const found = answers.flatMap((answer) => (answer.status === "fulfilled" ? [answer.value] : []));
  if (found.length === 0) throw new MeshError("NoProvider", `nobody in the mesh serves ${capsule}`);
  // Who says another's key is none more.
  return [...new Map(found.toReversed().map((peer) => [toHex(peer.id), peer])).values()].reverse();
}

/** Refuses servers that are none, too many, without a key, or named twice. */
function checkServers(servers: readonly (CapsuleServer | LocalReplica)[]): void {
  if (servers.length === 0 || servers.length > MAX_SERVERS) {
    throw new MeshError("BadConfig", `name 1 to ${MAX_SERVERS} servers of a capsule; got ${servers.length}`);
  }
  const keys = new Set<string>();
  for (const server of servers) {
    const place = "url" in server ? server.url : "a replica of this program";
    // A program without types may leave it out, and then everything else would be told.
    const key: unknown = server.key;
    if (typeof key !== "string") {
      throw new MeshError("BadConfig", `say with which key the server ${place} signs: { url, key }`);
    }
    if (keys.has(key.toLowerCase())) {
      throw new MeshError(
        "BadConfig",
        `the server ${place} has the key of another one: name each server once`,
      );
    }
    keys.add(key.toLowerCase());
  }
}

/** How many servers are a quorum of the kind that is named: more than half unless it is said. */
export function quorumOf(name: string, servers: number, said: number | undefined): number {
  const quorum = said ?? Math.floor(servers / 2) + 1;
  if (!Number.isInteger(quorum) || quorum < 1 || quorum > servers) {
    throw new MeshError("BadConfig", `${name} of ${servers} servers is 1 to ${servers}; got ${quorum}`);
  }
  return quorum;
}

/**
 * The key that a server says it signs with: nothing is believed of it, as what is signed with another key counts for nothing.
 */
async function keyOf(ask: Ask, capsule: string, signal: AbortSignal): Promise<Uint8Array> {
  const reader = readResult(await ask(freshRequest(nameOf(capsule)), signal));
  reader.u64();
  return reader.take(32).slice();
}
