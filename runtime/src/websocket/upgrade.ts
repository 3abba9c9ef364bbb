import { MeshError } from "../codec/code.ts";
import type { HeaderList } from "../codec/http.ts";
import { type Connection, splice } from "./connection.ts";
import { answerFields, type Offered } from "./handshake.ts";
import { NativeConnection, socketOf } from "./native.ts";
import { type Established, MeshSocket } from "./socket.ts";

/** A WebSocket that a handler accepts. */
export interface Upgrade {
  /** The handler's side; it opens when the answer has been sent. */
  readonly socket: MeshSocket;
  /** The answer that the handler gives; middleware may copy it and set fields of it. Its status becomes 101. */
  readonly response: Response;
}

/** The field of an answer that accepts: middleware that copies the answer copies it, and it never travels. */
export const ACCEPT_FIELD = "selfsame-accept";
/** The status of such an answer while it is the application's: no platform lets a copy of a 101 be made. */
const ACCEPT_STATUS = 204;

/** How a WebSocket is accepted. */
export interface UpgradeOptions {
  /** The one of the offered subprotocols that is spoken; none unless given. */
  readonly protocol?: string | undefined;
}

/** An answer that accepts. */
export interface Accepted {
  /** Its fields of the handshake. */
  readonly fields: HeaderList;
  /** Takes the connection over. */
  readonly start: (connection: Connection) => void;
}

const offers: WeakMap<Request, Offer> = /* @__PURE__ */ new WeakMap();

/**
 * Accepts the WebSocket that a request over the mesh asks for: gives the socket, and the answer for the handler to return. In
 * a Worker a handler answers with a `WebSocketPair` instead. Throws `BadConfig` for a request that asks for none.
 */
export function upgradeWebSocket(request: Request, { protocol = "" }: UpgradeOptions = {}): Upgrade {
  const offer = offers.get(request);
  if (offer === undefined) {
    const text =
      "the request does not ask for a WebSocket over the mesh: give the handler's own Request, of a WebSocket";
    throw new MeshError("BadConfig", text);
  }
  return offer.accept(protocol);
}

/** A WebSocket that a request asks for, until the request is answered. */
export class Offer {
  readonly #offered: Offered;
  readonly #url: string;
  readonly #opening: PromiseWithResolvers<Established> = Promise.withResolvers();
  /** What tells the answer that accepts from all others: neither a caller nor another handler knows it. */
  readonly #token: string = crypto.randomUUID();
  #protocol: string | undefined;

  constructor(request: Request, offered: Offered) {
    this.#offered = offered;
    this.#url = request.url;
    // Without a socket nobody hears that the offer was not taken.
    this.#opening.promise.catch(() => undefined);
    offers.set(request, this);
  }

  /** Makes the socket of the handler, and its answer. */
  accept(protocol: string): Upgrade {
    if (this.#protocol !== undefined) throw new MeshError("BadConfig", "the WebSocket is accepted already");
    if (protocol !== "" && !this.#offered.protocols.includes(protocol)) {
      throw new MeshError("BadConfig", `the caller does not offer the subprotocol ${protocol}`);
    }
    this.#protocol = protocol;
    const socket = new MeshSocket(this.#url, this.#opening.promise, () => undefined);
    const headers = { [ACCEPT_FIELD]: this.#token };
    return { socket, response: new Response(null, { status: ACCEPT_STATUS, headers }) };
  }

  /** How an answer accepts the offer; `undefined` when it is an ordinary one, which declines it. */
  async answeredBy(response: Response): Promise<Accepted | undefined> {
    const native = socketOf(response);
    if (native !== undefined) {
      const protocol = response.headers.get("sec-websocket-protocol") ?? "";
      const start = (connection: Connection): void => splice(connection, new NativeConnection(native));
      return { fields: await answerFields(this.#offered, protocol), start };
    }
    const protocol = this.#protocol;
    const isMarked = response.headers.get(ACCEPT_FIELD) === this.#token;
    if (!isMarked || response.status !== ACCEPT_STATUS || protocol === undefined) {
      this.#opening.reject(new MeshError("Cancelled", "the handler gave another answer"));
      return undefined;
    }
    const start = (connection: Connection): void => this.#opening.resolve({ connection, protocol });
    return { fields: await answerFields(this.#offered, protocol), start };
  }

  /** Runs the handler; the socket of one that fails hears so. */
  async during<T>(handle: () => Promise<T>): Promise<T> {
    try {
      return await handle();
    } catch (error) {
      this.#opening.reject(error);
      throw error;
    }
  }
}
