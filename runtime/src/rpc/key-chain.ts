import { CborDecoder, CborEncoder } from "../codec/cbor.ts";
import { MeshError } from "../codec/code.ts";
import { toHex } from "../codec/hex.ts";
import { randomBytes } from "../driver/random.ts";
import { SECRET_BYTES, TicketKeys } from "./keys.ts";

const VERSION = 1;
const ID_BYTES = 16;
/** The longest offer. */
export const MAX_OFFER = 128;
/** Shortest and longest time between two rotations, in seconds. */
export const PERIOD_S: { readonly least: number; readonly most: number } = { least: 1, most: 30 * 86_400 };
/** Rotations that a secret may be behind: those of a replica that runs are of the time. */
const MAX_BEHIND = 16;
/** How far the clock of the replica that has begun a chain may be ahead. */
const MAX_AHEAD_MS = 60_000;

/** A chain of ticket keys: those of all replicas follow from one secret, and its rotations are told by the clock. */
export interface KeyChain {
  /** Counts renewals: of two chains that of more renewals is used. */
  readonly series: number;
  /** When it began, in milliseconds since 1970: else the older chain is used. */
  readonly born_ms: number;
  /** Random. */
  readonly id: Uint8Array;
  /** Seconds between two rotations. */
  readonly period_s: number;
}

/** A chain with the oldest secret that a replica has, for another replica. Secret. */
export interface KeyOffer extends KeyChain {
  /** How many rotations come before the secret. */
  readonly rotations: number;
  /** The secret. */
  readonly secret: Uint8Array;
}

/** Begins a chain. */
export function beginChain(series: number, period_s: number, now_ms: number): KeyChain {
  return { series, born_ms: now_ms, id: randomBytes(ID_BYTES), period_s };
}

/** Returns how many rotations a chain has behind it. */
export function rotationsOf({ born_ms, period_s }: KeyChain, now_ms: number): number {
  return Math.max(0, Math.floor((now_ms - born_ms) / (period_s * 1000)));
}

/** Whether a clock has leapt since a chain was begun or its secrets were of the time: how many rotations are due is not known then. */
export function isLost(chain: KeyChain, rotations: number, now_ms: number): boolean {
  return chain.born_ms > now_ms + MAX_AHEAD_MS || rotationsOf(chain, now_ms) - rotations > MAX_BEHIND;
}

/** Whether a chain has more rotations behind it than a replica's whose clock is a little ahead. */
export function isAhead(chain: KeyChain, rotations: number, now_ms: number): boolean {
  return rotations > rotationsOf(chain, now_ms) + 1;
}

/** Whether both are the same chain. */
export function isSame(one: KeyChain, other: KeyChain): boolean {
  return toHex(one.id) === toHex(other.id);
}

/** Whether replicas that have both chains use the first. */
export function isPreferred(one: KeyChain, other: KeyChain): boolean {
  if (one.series !== other.series) return one.series > other.series;
  if (one.born_ms !== other.born_ms) return one.born_ms < other.born_ms;
  return toHex(one.id) < toHex(other.id);
}

/** Encodes `[version: 1, series: uint, born: uint, id: bytes .size 16, period: uint, rotations: uint, secret: bytes .size 32]`. Secret. */
export function encodeOffer(offer: KeyOffer): Uint8Array<ArrayBuffer> {
  const encoder = new CborEncoder().array(7).uint(VERSION).uint(offer.series).uint(offer.born_ms);
  return encoder.bytes(offer.id).uint(offer.period_s).uint(offer.rotations).bytes(offer.secret).finish();
}

/** Decodes an offer as another replica gives it. The secret is a view. */
export function decodeOffer(bytes: Uint8Array): KeyOffer {
  try {
    const decoder = new CborDecoder(bytes);
    decoder.arrayOf(7);
    if (decoder.uint() !== VERSION) throw new MeshError("WrongVersion");
    const [series, born_ms] = [decoder.uint(), decoder.uint()];
    const id = decoder.fixed(ID_BYTES).slice();
    const [period_s, rotations] = [decoder.uint(PERIOD_S.most), decoder.uint()];
    const secret = decoder.fixed(SECRET_BYTES);
    decoder.finish();
    if (period_s < PERIOD_S.least) throw new MeshError("BadMessage");
    return { series, born_ms, id, period_s, rotations, secret };
  } catch (cause) {
    throw new MeshError("BadMessage", "the ticket keys of a replica do not follow the specification", {
      cause,
    });
  }
}

/** Returns the keys that an offer leads to, and how many rotations they have behind them. */
export async function keysOf(
  offer: KeyOffer,
  now_ms: number,
): Promise<{ keys: TicketKeys; rotations: number }> {
  // Nobody renews once a second for decades; a larger series would leave no room for one that shuts its replica out.
  const isRenewable = offer.series <= now_ms / 1000;
  if (!isRenewable || isAhead(offer, offer.rotations, now_ms) || isLost(offer, offer.rotations, now_ms)) {
    throw new MeshError("WrongClock", "the clock of another replica tells another time: set both");
  }
  const keys = new TicketKeys(offer.secret);
  const rotations = Math.max(rotationsOf(offer, now_ms), offer.rotations);
  for (let at = offer.rotations; at < rotations; at++) await keys.rotate();
  return { keys, rotations };
}
