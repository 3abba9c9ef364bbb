import { MeshError } from "../codec/code.ts";
import { utf8 } from "../codec/field.ts";
import { concat } from "../concat.ts";

/** Length of the secret that a ticket key follows from. */
export const SECRET_BYTES = 32;
const NEXT_SECRET = "selfsame/1 rpc next ticket secret";

/** The secrets of a service's ticket keys: the current one, the next one, and after a rotation the previous one. */
export class TicketKeys {
  #current: Uint8Array;
  #next: Uint8Array | undefined;
  #previous: Uint8Array | undefined;

  constructor(secret: Uint8Array) {
    this.#current = checkTicketKey(secret).slice();
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
  async derive(): Promise<Uint8Array> {
    for (;;) {
      if (this.#next !== undefined) return this.#next;
      const current = this.#current;
      const next = await secretAfter(current);
      if (current === this.#current) this.#next ??= next;
    }
  }

  /** Makes the next secret the current one, and erases the one before the current one. */
  async rotate(): Promise<void> {
    const next = await this.derive();
    const after = await secretAfter(next);
    // Another rotation came first.
    if (next !== this.#next) return this.rotate();
    this.#previous?.fill(0);
    this.#previous = this.#current;
    this.#current = next;
    this.#next = after;
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
    for (const secret of [this.#current, this.#next, this.#previous]) secret?.fill(0);
  }
}

/** Returns the secret that follows one, from which that cannot be computed. */
async function secretAfter(secret: Uint8Array): Promise<Uint8Array> {
  const algorithm = { name: "HMAC", hash: "SHA-256" };
  const key = await crypto.subtle.importKey("raw", new Uint8Array(secret), algorithm, false, ["sign"]);
  return new Uint8Array(await crypto.subtle.sign("HMAC", key, new Uint8Array(utf8(NEXT_SECRET))));
}

/** Checks the secret that the routers and replicas of a service share, and returns a copy of it. */
export function checkRouterKey(secret: Uint8Array): Uint8Array {
  return checkSecret(secret, "routerKey", "which the routers and replicas of a service share").slice();
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
