import { guarded } from "../guard.ts";
import { ABNORMAL, type Connection, INTERNAL_ERROR, type Listener, NO_CODE } from "./connection.ts";

/** The header with which a Worker collects a socket from the object that opened it. */
export const TICKET_HEADER = "selfsame-ticket";

/** A socket of workerd, as far as it is used here. */
export interface NativeSocket {
  binaryType?: string;
  accept(): void;
  send(data: string | Uint8Array): void;
  close(code?: number, reason?: string): void;
  addEventListener(type: "message", listener: (event: { data: string | ArrayBuffer }) => void): void;
  addEventListener(type: "close", listener: (event: { code: number; reason: string }) => void): void;
  addEventListener(type: "error", listener: (event: unknown) => void): void;
}

/** Makes a pair of sockets, as workerd does: what one sends arrives at the other. */
export type SocketPair = new () => { readonly 0: NativeSocket; readonly 1: NativeSocket };

/** The platform's pairs of sockets; only workerd has them. */
export function socketPair(): SocketPair | undefined {
  return (globalThis as { WebSocketPair?: SocketPair }).WebSocketPair;
}

/** The socket that an answer holds, as those of workerd may. */
export function socketOf(response: Response): NativeSocket | undefined {
  return (response as { webSocket?: NativeSocket | null }).webSocket ?? undefined;
}

/** An answer of status 101 that holds a socket. */
export function answerWith(webSocket: NativeSocket, headers: HeadersInit): Response {
  return new Response(null, { status: 101, headers, webSocket } as ResponseInit);
}

/** A connection over a socket of workerd. */
export class NativeConnection implements Connection {
  /** workerd does not tell. */
  readonly bufferedAmount = 0;
  readonly #socket: NativeSocket;
  #isAccepted = false;
  #isClosed = false;

  constructor(socket: NativeSocket) {
    this.#socket = socket;
  }

  listen(listener: Listener): void {
    const socket = this.#socket;
    let hasEnded = false;
    const end = (code: number, reason: string, error: Error | undefined): void => {
      if (hasEnded) return;
      hasEnded = true;
      // Depending on its compatibility date, workerd leaves the answer to the application.
      this.close(code, reason);
      listener.ended({ code, reason, error });
    };
    socket.binaryType = "arraybuffer";
    const hear = ({ data }: { data: string | ArrayBuffer }): void =>
      listener.message(typeof data === "string" ? data : new Uint8Array(data));
    socket.addEventListener("message", guarded("a socket", hear));
    const closed = ({ code, reason }: { code: number; reason: string }): void => {
      if (!this.#isClosed) listener.closing();
      const error = code === ABNORMAL ? new Error("the socket ended without a close frame") : undefined;
      end(code, reason, error);
    };
    socket.addEventListener("close", guarded("a socket", closed));
    const failed = (): void => end(ABNORMAL, "", new Error("the socket failed"));
    socket.addEventListener("error", guarded("a socket", failed));
    this.#accept();
  }

  send(data: string | Uint8Array): void {
    if (this.#isClosed) return;
    this.#accept();
    this.#socket.send(data);
  }

  close(code: number, reason: string): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    try {
      this.#accept();
      if (code === NO_CODE) this.#socket.close();
      else this.#socket.close(code === ABNORMAL ? INTERNAL_ERROR : code, reason);
    } catch {
      // It is closed already.
    }
  }

  abort(): void {
    this.close(INTERNAL_ERROR, "the connection through the mesh broke");
  }

  /** workerd neither sends nor closes before a socket is accepted; what arrives is told in a later turn, to whoever listens by then. */
  #accept(): void {
    if (this.#isAccepted) return;
    this.#isAccepted = true;
    this.#socket.accept();
  }
}
