import { MeshError } from "../codec/code.ts";
import { fromBase64Url, fromHex, toBase64Url, toHex } from "../codec/hex.ts";
import { detach } from "../guard.ts";
import { sameBytes } from "../stores/store.ts";
import type { Core, GrantInfo } from "./core.ts";
import type { Driver } from "./driver.ts";
import type { Logger } from "./log.ts";
import type { CheckedOptions } from "./options.ts";
import { checkPublication, type GrantOptions, type NameOptions, type PublishOptions } from "./service.ts";
import type { State } from "./state.ts";

const DAY_MS: number = 24 * 3_600_000;
/** A node that grants itself its names, for development, does so for 30 days and renews in the last ten. */
const SELF_GRANT_MS: number = 30 * DAY_MS;
const SELF_GRANT_RENEW_MS: number = 10 * DAY_MS;
/** How long before a grant expires the log says so, when somebody else has to make the next one. */
const EXPIRY_WARNING_MS: number = 3 * DAY_MS;
/** Times beyond this are no dates: a slip of the unit. */
const MAX_TIME_MS = 8.64e15;
/** A renewal that failed is tried again after this. */
const RENEWAL_RETRY_MS = 60_000;
/** Most peers that a grant revokes: the core's `MAX_REVOKED`. */
const MAX_REVOKED = 8;

/** What is needed to publish. */
export interface NamesParts {
  readonly driver: Driver;
  readonly tools: Core;
  readonly state: State;
  readonly logger: Logger;
  readonly options: CheckedOptions;
  /** The node's peer id. */
  readonly id: Uint8Array;
  /** Its public key as an owner of names, if it has an `ownerSeed`. */
  readonly ownerKey: Uint8Array | undefined;
}

/** A grant that may be used, and when something is to be done about it. */
interface Granted {
  /** The grant; empty for an unowned name. */
  readonly grant: Uint8Array;
  /** Public key of the name's owner; empty for an unowned name. */
  readonly owner: Uint8Array;
  /** When the grant is to be renewed, or its end is to be told. */
  readonly due_ms: number;
  /** Whether the node makes the next one itself. */
  readonly isOwn: boolean;
}

/** A name with a grant, ready to be published. */
export interface Prepared extends Granted {
  readonly name: string;
  readonly options: PublishOptions;
}

const NOBODY: Uint8Array = /* @__PURE__ */ new Uint8Array();

/** The names that a node publishes, with their grants. */
export class Names {
  readonly #parts: NamesParts;
  /** What is published, by owner and name: a name may be published for several owners. */
  readonly #published: Map<string, Prepared> = new Map();

  constructor(parts: NamesParts) {
    this.#parts = parts;
  }

  /** The owner's key of a name that is called; empty for an unowned one, which must be asked for. */
  ownerOf(name: string, whose: NameOptions): Uint8Array {
    const key = this.#keyOf(name, whose);
    if (key !== undefined) return key;
    throw new MeshError(
      "BadConfig",
      `no owner is configured for ${name}: set owner, or ask for unowned: true`,
    );
  }

  /** Whether it is known whose a name is. */
  knowsOwner(name: string, whose: NameOptions): boolean {
    return this.#keyOf(name, whose) !== undefined;
  }

  #keyOf(name: string, { unowned, owner }: NameOptions): Uint8Array | undefined {
    if (unowned === true) return NOBODY;
    if (owner !== undefined) return fromHex(owner, 32, "owner");
    const { options, ownerKey } = this.#parts;
    const key = options.owner instanceof Uint8Array ? options.owner : options.owner?.get(name);
    return key ?? ownerKey;
  }

  /** Checks how a name is to be published, and finds or makes its grant. */
  async prepare(name: string, options: PublishOptions): Promise<Prepared> {
    checkPublication(options);
    return { name, options, ...(await this.#granted(name, options)) };
  }

  /** Checks how a name that may be published already is to be from now on: what is not given stays as it is. */
  async amend(name: string, options: PublishOptions): Promise<Prepared> {
    const before = this.#of(name);
    const isStated = options.unowned !== undefined || options.grant !== undefined;
    const { unowned, grant } = (isStated ? options : before[0]?.options) ?? {};
    const granted = await this.#granted(name, { unowned, grant });
    const same = before.find(({ owner }) => sameBytes(owner, granted.owner));
    const given = Object.entries(options).filter(([, value]) => value !== undefined);
    const merged = { ...same?.options, ...Object.fromEntries(given), unowned, grant };
    checkPublication(merged);
    return { ...granted, name, options: merged };
  }

  /** Signs that a peer may serve a name of this node's owner key. */
  grant(name: string, peer: string, { expires, revoke = [] }: GrantOptions): string {
    const { tools, options } = this.#parts;
    if (options.ownerSeed === undefined) {
      throw new MeshError("BadConfig", "only the owner can grant a name: this node has no ownerSeed");
    }
    const [issued_ms, expires_ms] = [Date.now(), expires.getTime()];
    if (!(expires_ms > issued_ms && expires_ms < MAX_TIME_MS)) {
      throw new MeshError("BadConfig", "a grant expires at a time to come, in milliseconds since 1970");
    }
    if (revoke.length > MAX_REVOKED) {
      throw new MeshError("BadConfig", `a grant revokes the grants of at most ${MAX_REVOKED} peers`);
    }
    const revoked = Uint8Array.from(revoke.flatMap((id) => [...fromHex(id, 32, "revoke")]));
    const terms = { name, peer: fromHex(peer, 32, "peer"), issued_ms, expires_ms, revoked };
    return toBase64Url(tools.deriveGrant(options.ownerSeed, options.network, terms));
  }

  /**
   * Publishes; resolves when the responsible nodes have stored it. If that fails, a name that was not published before is given up unless
   * it is to be tried on: the core would find somebody who stores it later.
   */
  async publish(prepared: Prepared, triesOn = false): Promise<void> {
    const { name, options, owner, grant } = prepared;
    const key = keyOf(prepared);
    const before = this.#published.get(key);
    this.#published.set(key, prepared);
    try {
      const publication = checkPublication(options);
      await this.#parts.driver.command((tag) => ({ type: "Publish", tag, grant, name, ...publication }));
    } catch (error) {
      const isLast = this.#published.get(key) === prepared;
      if (isLast && before !== undefined) this.#published.set(key, before);
      else if (isLast && !triesOn) {
        this.#published.delete(key);
        const withdrawn = this.#parts.driver.command((tag) => ({ type: "Withdraw", tag, owner, name }));
        // The core knows nothing of one that it has refused.
        withdrawn.catch(() => undefined);
      }
      throw error;
    }
  }

  /** Publishes no more, for whichever owner it was. */
  async withdraw(name: string): Promise<void> {
    const published = this.#of(name);
    if (published.length === 0) throw new MeshError("NoService", `this node does not publish ${name}`);
    const withdrawals = published.map(async (prepared) => {
      const { owner } = prepared;
      await this.#parts.driver.command((tag) => ({ type: "Withdraw", tag, owner, name }));
      if (this.#published.get(keyOf(prepared)) === prepared) this.#published.delete(keyOf(prepared));
    });
    await Promise.all(withdrawals);
  }

  /** Publishes nothing any more. */
  async withdrawAll(): Promise<void> {
    const names = new Set([...this.#published.values()].map(({ name }) => name));
    await Promise.all([...names].map((name) => this.withdraw(name)));
  }

  /** Publishes again what was, after the core was started again. */
  async restore(): Promise<void> {
    await Promise.all([...this.#published.values()].map((prepared) => this.publish(prepared)));
  }

  /** Renews grants whose time has come. */
  renew(): void {
    const now = Date.now();
    for (const [key, prepared] of this.#published) {
      if (now < prepared.due_ms) continue;
      // Not again before this attempt is over, or at once.
      const { isOwn, name } = prepared;
      const due_ms = isOwn ? now + RENEWAL_RETRY_MS : Number.POSITIVE_INFINITY;
      this.#published.set(key, { ...prepared, due_ms });
      if (isOwn) detach("the renewal of a grant", this.#renewOwn(name, prepared.options));
      else this.#parts.logger.log("warn", `the grant of ${name} expires soon: publish it with a new one`);
    }
  }

  async #renewOwn(name: string, options: PublishOptions): Promise<void> {
    try {
      await this.publish(await this.prepare(name, options));
    } catch (error) {
      const reason = error instanceof Error ? error.message : error;
      this.#parts.logger.log("warn", `the grant of ${name} could not be renewed: ${reason}`);
    }
  }

  #of(name: string): Prepared[] {
    return [...this.#published.values()].filter((prepared) => prepared.name === name);
  }

  async #granted(name: string, { grant, unowned }: PublishOptions): Promise<Granted> {
    const { options, ownerKey } = this.#parts;
    const never = Number.POSITIVE_INFINITY;
    if (unowned === true) return { grant: NOBODY, owner: NOBODY, due_ms: never, isOwn: false };
    if (grant !== undefined) {
      const bytes = fromBase64Url(grant, "a grant");
      const { owner, expires_ms } = this.#verify(bytes);
      return { grant: bytes, owner, due_ms: expires_ms - EXPIRY_WARNING_MS, isOwn: false };
    }
    const { ownerSeed } = options;
    if (ownerSeed === undefined || ownerKey === undefined) {
      throw new MeshError(
        "BadConfig",
        `${name} needs its owner's grant: give grant, or publish it with unowned: true`,
      );
    }
    const { bytes, expires_ms } = await this.#grantOneself(name, ownerSeed, ownerKey);
    return { grant: bytes, owner: ownerKey, due_ms: expires_ms - SELF_GRANT_RENEW_MS, isOwn: true };
  }

  async #grantOneself(
    name: string,
    ownerSeed: Uint8Array,
    ownerKey: Uint8Array,
  ): Promise<{ bytes: Uint8Array; expires_ms: number }> {
    const { tools, state, id, options } = this.#parts;
    const { network } = options;
    // A grant that is kept does not change what is published, and so costs nothing when a node wakes.
    const key = `grant:${name}:${toHex(ownerKey)}:${network}`;
    const kept = await state.own(key);
    const kept_ms = kept === undefined ? 0 : this.#expiryOf(kept);
    if (kept !== undefined && kept_ms - Date.now() > SELF_GRANT_RENEW_MS) {
      return { bytes: kept, expires_ms: kept_ms };
    }
    const issued_ms = Date.now();
    const expires_ms = issued_ms + SELF_GRANT_MS;
    const terms = { name, peer: id, issued_ms, expires_ms, revoked: NOBODY };
    const bytes = tools.deriveGrant(ownerSeed, network, terms);
    await state.setOwn({ [key]: bytes });
    return { bytes, expires_ms };
  }

  #verify(grant: Uint8Array): GrantInfo {
    try {
      return this.#parts.tools.verifyGrant(grant, this.#parts.options.network, Date.now());
    } catch (cause) {
      throw new MeshError("BadGrant", "", { cause });
    }
  }

  /** When a stored grant expires; 0 if it is of no use to this node. */
  #expiryOf(grant: Uint8Array): number {
    try {
      const { expires_ms, peer } = this.#verify(grant);
      return sameBytes(peer, this.#parts.id) ? expires_ms : 0;
    } catch {
      return 0;
    }
  }
}

function keyOf({ owner, name }: Prepared): string {
  return `${toHex(owner)} ${name}`;
}
