import { MeshError } from "../codec/code.ts";
import { utf8 } from "../codec/field.ts";
import { concat } from "../concat.ts";
import { randomBytes } from "../driver/random.ts";

/** Length of the secret that a ticket key follows from. */
export const SECRET_BYTES = 32;
/** Memory of its own, which is wiped when the secret is needed no more. */
type Secret = Uint8Array<ArrayBuffer>;

const NEXT_SECRET = "selfsame/1 rpc next ticket secret";

/** The secrets of a service's ticket keys: the current one, the next one, and after a rotation the previous one. */
export class TicketKeys {
  #current: Secret;
  #next: Secret | undefined;
  #previous: Secret | undefined;
  /** Counts replacements and erasures, which no derivation outlives. */
  #life = 0;

  constructor(secret: Uint8Array) {
    this.#current = checkTicketKey(secret).slice();
  }

  /** Draws a secret. */
  static random(): TicketKeys {
    const secret = randomBytes(SECRET_BYTES);
    const keys = new TicketKeys(secret);
    secret.fill(0);
    return keys;
  }

  /** The secrets as the module takes them, those that are known: `derive` sees to the next one. Secret. */
  get bytes(): Uint8Array<ArrayBuffer> {
    return concat([this.#current, this.#next, this.#previous].filter((secret) => secret !== undefined));
  }

  /** The oldest secret that is left, from which the others follow. Secret. */
  get oldest(): Uint8Array {
    return this.#previous ?? this.#current;
  }

  /** Whether there was a rotation. */
  get hasPrevious(): boolean {
    return this.#previous !== undefined;
  }

  /** Derives the next secret, if it is not known yet. */
  async derive(): Promise<Secret> {
    for (;;) {
      if (this.#next !== undefined) return this.#next;
      const life = this.#life;
      const next = await secretAfter(this.#current);
      // Another derivation may have come first.
      if (life === this.#life && this.#next === undefined) this.#next = next;
      else next.fill(0);
    }
  }

  /** Makes the next secret the current one, and erases the one before the current one. It does nothing to keys that replace them meanwhile. */
  async rotate(): Promise<void> {
    const life = this.#life;
    const next = await this.derive();
    const after = await secretAfter(next);
    if (life === this.#life && next === this.#next) return this.#advance(next, after);
    after.fill(0);
    // Another rotation came first.
    if (life === this.#life) return this.rotate();
  }

  /** Replaces all of them. */
  replace(secret: Uint8Array): void {
    const current = checkTicketKey(secret).slice();
    this.erase();
    this.#current = current;
    this.#next = undefined;
    this.#previous = undefined;
  }

  /** Erases all of them. */
  erase(): void {
    this.#life += 1;
    for (const secret of [this.#current, this.#next, this.#previous]) secret?.fill(0);
  }

  #advance(next: Secret, after: Secret): void {
    this.#previous?.fill(0);
    this.#previous = this.#current;
    this.#current = next;
    this.#next = after;
  }
}

/** Returns the secret that follows one, from which that cannot be computed. */
async function secretAfter(secret: Secret): Promise<Secret> {
  const algorithm = { name: "HMAC", hash: "SHA-256" };
  const key = await crypto.subtle.importKey("raw", secret, algorithm, false, ["sign"]);
  return new Uint8Array(await crypto.subtle.sign("HMAC", key, new Uint8Array(utf8(NEXT_SECRET))));
}

/** Checks the secret that the routers and replicas of a service share, and returns a copy of it. */
export function checkRouterKey(secret: Uint8Array): Uint8Array {
  return checkSecret(secret, "routerKey", "which the routers and replicas of a service share").slice();
}

/** Checks the secret by which a client issues tickets of a service to itself. */
export function checkPreSharedKey(secret: Uint8Array, service: string): Uint8Array {
  return checkSecret(secret, `key of ${service}`, "which its servers have as ticketKey");
}

function checkTicketKey(secret: Uint8Array): Uint8Array {
  return checkSecret(
    secret,
    "ticketKey",
    "which the replicas of a service share, or what shareTicketKeys returns",
  );
}

function checkSecret(secret: Uint8Array, name: string, whose: string): Uint8Array {
  if (secret instanceof Uint8Array && secret.length === SECRET_BYTES) return secret;
  throw new MeshError("BadConfig", `${name} is a secret of ${SECRET_BYTES} bytes, ${whose}`);
}
