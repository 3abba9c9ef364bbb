import { MeshError } from "../codec/code.ts";

const TICKET_KEY_BYTES = 32;

/** The secret that the ticket keys of a service follow from, until the first rotation. */
export class TicketSecret {
  #secret: Uint8Array | undefined;

  constructor(secret: Uint8Array) {
    this.#secret = checkTicketKey(secret).slice();
  }

  /** Returns the secret, or throws if a rotation has erased it. */
  get bytes(): Uint8Array {
    if (this.#secret !== undefined) return this.#secret;
    throw new MeshError(
      "BadConfig",
      "the ticket key was erased with a rotation: call setTicketKey, or make the server anew",
    );
  }

  /** Replaces it. */
  set(secret: Uint8Array): void {
    const next = checkTicketKey(secret).slice();
    this.erase();
    this.#secret = next;
  }

  /** Erases it: an earlier ticket key follows from it. */
  erase(): void {
    this.#secret?.fill(0);
    this.#secret = undefined;
  }
}

function checkTicketKey(secret: Uint8Array): Uint8Array {
  if (secret instanceof Uint8Array && secret.length === TICKET_KEY_BYTES) return secret;
  throw new MeshError(
    "BadConfig",
    `ticketKey is a secret of ${TICKET_KEY_BYTES} bytes, which the replicas of a service share`,
  );
}
