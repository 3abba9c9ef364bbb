import { lookupOf } from "./checked-fetch.ts";
import { type DialOptions, Permission, placeOfUrl } from "./place.ts";
import type { FindSocket, Socket } from "./websocket.ts";
import { WebSocket } from "./ws.ts";

/** What is spoken over a socket. */
export interface Spoken {
  /** The subprotocol. */
  readonly protocol: string;
  /** Largest message that is taken, in bytes. */
  readonly maxPayload: number;
}

/** Finds sockets of the package `ws`, as the platforms' own resolve names by themselves. They follow no redirect. */
export function checkedSocket(options: DialOptions, { protocol, maxPayload }: Spoken): FindSocket {
  const permission = new Permission(["ws", "wss"], options);
  return async (url) => {
    const lookup = lookupOf(await permission.resolve(placeOfUrl(url)));
    const dialling = { lookup, maxPayload, perMessageDeflate: false };
    return () => new DialledWebSocket(url, protocol, dialling) as unknown as Socket;
  };
}

/** A socket that keeps the process alive only as long as it should. */
class DialledWebSocket extends WebSocket {
  #connection: { ref(): unknown; unref(): unknown } | undefined;

  constructor(...given: ConstructorParameters<typeof WebSocket>) {
    super(...given);
    this.once("upgrade", ({ socket }) => {
      this.#connection = socket;
    });
  }

  hold(holds: boolean): void {
    if (holds) this.#connection?.ref();
    else this.#connection?.unref();
  }
}
