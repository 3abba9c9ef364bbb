/** Wrong passwords of one source in a while: enough for a person who mistypes, few for a program that guesses. */
const MAX_WRONG = 10;
/** The while, in milliseconds. */
const WINDOW_MS = 60_000;
/** Most sources that are remembered, of about a hundred bytes each; the one that began longest ago is forgotten first. */
const MAX_SOURCES = 10_000;

interface Recent {
  since_ms: number;
  wrong: number;
}

/** An attempt to sign in. */
export interface Attempt {
  /** Says that it is not to count. */
  isRight(): void;
}

/** The eight groups of an IPv6 address; an IPv4 address, also as part of one, has them as well. */
function groupsOf(text: string): string[] | undefined {
  const url = `http://[${/^\d+(?:\.\d+){3}$/.test(text) ? `::ffff:${text}` : text}]`;
  if (!URL.canParse(url)) return undefined;
  const [head = [], tail = []] = new URL(url).hostname
    .slice(1, -1)
    .split("::")
    .map((part) => (part === "" ? [] : part.split(":")));
  return [...head, ...Array<string>(8 - head.length - tail.length).fill("0"), ...tail];
}

/** An IPv4 address, or the /56 of an IPv6 address, of which one customer has all; what is neither, as it is. */
function networkOf(source: string): string {
  // Whoever is on the same link may come by any zone.
  const [address = ""] = source.split("%", 1);
  const groups = groupsOf(address);
  if (groups === undefined) return source;
  if (groups.slice(0, 6).join(":") === "0:0:0:0:0:ffff") return `::ffff:${groups.slice(6).join(":")}`;
  const [first, second, third, fourth = ""] = groups;
  return `${first}:${second}:${third}:${Number.parseInt(fourth, 16) >> 8}::/56`;
}

/** The attempts to sign in of each source: an IP address, of IPv6 its network, or a name. */
export class Attempts {
  readonly #recent: Map<string, Recent> = new Map();

  /** How many sources are remembered. */
  get size(): number {
    return this.#recent.size;
  }

  /**
   * Begins an attempt, which counts as a wrong one unless `isRight` is called. `undefined`, and nothing counts, when its source has
   * had too many wrong ones.
   */
  begin(source: string, now_ms: number = Date.now()): Attempt | undefined {
    const recent = this.#of(source, now_ms);
    if (recent.wrong >= MAX_WRONG) return undefined;
    // Counted now, as many may run at once.
    recent.wrong++;
    return {
      isRight: () => {
        recent.wrong--;
      },
    };
  }

  #of(address: string, now_ms: number): Recent {
    const source = networkOf(address);
    const known = this.#recent.get(source);
    const passed_ms = known === undefined ? 0 : now_ms - known.since_ms;
    if (known !== undefined && passed_ms >= 0 && passed_ms < WINDOW_MS) return known;
    this.#recent.delete(source);
    const [oldest] = this.#recent.keys();
    if (this.#recent.size >= MAX_SOURCES && oldest !== undefined) this.#recent.delete(oldest);
    const begun = { since_ms: now_ms, wrong: 0 };
    this.#recent.set(source, begun);
    return begun;
  }
}
