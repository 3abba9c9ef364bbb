/** The subprotocol that both sides name. */
export const SUBPROTOCOL = "selfsame.1";
/** Where servers accept paths unless configured otherwise. */
export const MESH_PATH = "/.mesh";
/** The text that the dialling side sends on an idle socket, and the answer. */
export const PING = "ping";
/** The answer to a ping. */
export const PONG = "pong";
/** A connection that takes longer to open counts as failed. */
export const DIAL_TIMEOUT_MS = 10_000;
/** A peer that takes its frames more slowly than they are made is cut off here, so that memory stays bounded. */
export const MAX_BUFFERED: number = 16 * 1024 * 1024;

/** Whether a request offers a subprotocol, that of the mesh unless given. */
export function offersSubprotocol(header: string | null | undefined, wanted: string = SUBPROTOCOL): boolean {
  return header?.split(",").some((name) => name.trim() === wanted) ?? false;
}

/** The URL to connect to: without the peer id, and with the usual path where the address names none. */
export function dialUrl(address: string): URL {
  const url = new URL(address);
  url.hash = "";
  if (url.pathname === "/") url.pathname = MESH_PATH;
  return url;
}

/** Counts what keeps a node busy: requests it answers, POSTs that run, answers that are held open. */
export class Activity {
  readonly #onIdle: () => void;
  #count = 0;

  /** `onIdle` is called when the last work ends. */
  constructor(onIdle: () => void = () => undefined) {
    this.#onIdle = onIdle;
  }

  /** Whether nothing is going on. */
  get isIdle(): boolean {
    return this.#count === 0;
  }

  /** Begins a piece of work and returns what ends it, once. */
  begin(): () => void {
    let isOver = false;
    this.#count++;
    return () => {
      if (isOver) return;
      isOver = true;
      this.#count--;
      if (this.#count === 0) this.#onIdle();
    };
  }
}
