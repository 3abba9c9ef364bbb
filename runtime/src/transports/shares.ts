import { isIPv6 } from "node:net";
import { isPublic } from "./public-address.ts";

/** What counts as one source of IPv6: the network that one customer gets, in groups of 16 bits. */
const NETWORK_GROUPS = 4;

/** How much each source holds of what there is for all, so that none can take everything. */
export class Shares {
  readonly #most: number;
  readonly #held: Map<string, number> = new Map();

  /** Lets each source hold so much. */
  constructor(most: number) {
    this.#most = most;
  }

  /** How many sources hold something. */
  get size(): number {
    return this.#held.size;
  }

  /** Takes one for an IP address and returns what gives it back, once; `undefined` when its source has its share. */
  take(ip: string): (() => void) | undefined {
    const source = sourceOf(ip);
    if (source === undefined) return () => undefined;
    const held = this.#held.get(source) ?? 0;
    if (held >= this.#most) return undefined;
    this.#held.set(source, held + 1);
    let isHeld = true;
    return () => {
      if (isHeld) this.#give(source);
      isHeld = false;
    };
  }

  #give(source: string): void {
    const left = (this.#held.get(source) ?? 0) - 1;
    // Only sources that hold something are remembered.
    if (left > 0) this.#held.set(source, left);
    else this.#held.delete(source);
  }
}

/**
 * The source of an IP address. Private ones are not counted: a proxy in front of the node, which counts for itself, brings
 * everybody's connections.
 */
function sourceOf(ip: string): string | undefined {
  const [bare = ""] = ip.split("%");
  if (!isPublic(bare)) return undefined;
  if (!isIPv6(bare)) return bare;
  const [, embedded] = /^::ffff:([\d.]+)$/i.exec(bare) ?? [];
  if (embedded !== undefined) return embedded;
  const [head = "", tail] = bare.split("::");
  const before = head === "" ? [] : head.split(":");
  const after = tail === undefined || tail === "" ? [] : tail.split(":");
  const zeros = Array.from({ length: Math.max(8 - before.length - after.length, 0) }, () => "0");
  return [...before, ...zeros, ...after].slice(0, NETWORK_GROUPS).join(":");
}
