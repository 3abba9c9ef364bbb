import type { Dialler, Link, Opened, Path, PathHost } from "../driver/paths.ts";
import { detach, guarded } from "../guard.ts";
import { detached } from "./frames.ts";
import { KeepAlive } from "./keep-alive.ts";
import { DIAL_TIMEOUT_MS, dialUrl, MAX_BUFFERED, PING, PONG, SUBPROTOCOL } from "./protocol.ts";

/** The state of a socket that is closed. */
const CLOSED = 3;

/** What the platforms' sockets have in common: browsers, Deno, Node and the package `ws`. */
export interface Socket {
  binaryType: string;
  readonly bufferedAmount: number;
  readonly readyState: number;
  send(data: string | Uint8Array<ArrayBuffer>): void;
  close(code?: number, reason?: string): void;
  /** Drops the connection; only the package `ws` can. */
  terminate?(): void;
  /** Says whether it keeps the process alive once it is open; only sockets that were dialled from a process can. */
  hold?(holds: boolean): void;
  addEventListener(type: "message", listener: (event: { data: unknown }) => void): void;
  addEventListener(
    type: "open" | "close" | "error",
    listener: (event?: { readonly message?: string }) => void,
  ): void;
}

/** Carries the frames of a path over an open socket. */
export function carry(socket: Socket, host: PathHost, opened: Opened): Path {
  const keepAlive = new KeepAlive({
    dialled: opened.dial !== 0,
    ask: () => socket.send(PING),
    giveUp: () => path.close(1001, "no answer"),
  });
  const link: Link = {
    get waitingBytes() {
      // A socket that is closed keeps its last figure.
      return socket.readyState === CLOSED ? 0 : socket.bufferedAmount;
    },
    send: (frame) => {
      const waits = socket.bufferedAmount;
      if (waits > MAX_BUFFERED) throw new Error("the peer takes its frames too slowly");
      // What goes to the system at once is not copied.
      socket.send((waits > 0 ? detached(frame) : frame) as Uint8Array<ArrayBuffer>);
    },
    close: (code, reason) => {
      keepAlive.stop();
      closeSocket(socket, code, reason);
    },
    abort: (code, reason) => {
      keepAlive.stop();
      // Its close would wait until the peer has read all that was sent.
      if (socket.terminate !== undefined) socket.terminate();
      else closeSocket(socket, code, reason);
    },
  };
  const path = host.open(link, opened);
  socket.binaryType = "arraybuffer";
  const hear = ({ data }: { data: unknown }): void => {
    keepAlive.heard();
    if (data instanceof ArrayBuffer) path.received(new Uint8Array(data));
    else if (data === PING) answerPing(socket);
    else if (data !== PONG) path.close(1003, "frames are binary");
  };
  socket.addEventListener("message", guarded("a socket", hear));
  const closed = guarded("a socket", () => {
    keepAlive.stop();
    path.closed();
  });
  socket.addEventListener("close", closed);
  socket.addEventListener("error", closed);
  return path;
}

/** Answers a ping, unless bytes wait that will say so too: a peer that does not read must not make the queue grow. */
function answerPing(socket: Socket): void {
  if (socket.bufferedAmount === 0) socket.send(PONG);
}

/** Closes a socket with its reason where the platform allows the code, which browsers do for few. */
export function closeSocket(socket: Pick<Socket, "close">, code: number, reason: string): void {
  try {
    socket.close(code, reason);
  } catch {
    socket.close();
  }
}

/** Looks up where a URL leads, and resolves with what opens a socket there. */
export type FindSocket = (url: URL) => Promise<() => Socket>;

/** Hears of a socket that is being opened: one of the two, once. */
export interface Opening {
  /** It is open. */
  opened(socket: Socket): void;
  /** It could not be opened. */
  failed(error: Error): void;
}

/** Opens a socket; returns what gives that up. */
export function openSocket(url: URL, find: FindSocket, { opened, failed }: Opening): () => void {
  let socket: Socket | undefined;
  let isPending = true;
  const settle = guarded("a dial", (act: () => void): void => {
    if (!isPending) return;
    isPending = false;
    clearTimeout(timer);
    act();
  });
  const fail = (error: Error): void => settle(() => failed(error));
  const timer = setTimeout(() => {
    fail(new Error("no answer in time"));
    socket?.close();
  }, DIAL_TIMEOUT_MS);
  const open = (create: () => Socket): void => {
    if (!isPending) return;
    const opening = create();
    socket = opening;
    opening.addEventListener("open", () => settle(() => opened(opening)));
    opening.addEventListener("error", (event) => fail(new Error(event?.message || "refused")));
    opening.addEventListener("close", () => fail(new Error("closed")));
  };
  const dialled = find(url).then(open);
  detach(
    "a dial",
    dialled.catch((error: unknown) => fail(error instanceof Error ? error : new Error(String(error)))),
  );
  return () =>
    settle(() => {
      socket?.close();
    });
}

/** Dials `ws` and `wss`. */
export class WebSocketDialler implements Dialler {
  readonly schemes: readonly string[] = ["ws", "wss"];
  readonly #find: FindSocket;

  /** `find` gives the sockets, by default the platform's own. */
  constructor(find: FindSocket = platformSocket(SUBPROTOCOL)) {
    this.#find = find;
  }

  dial(dial: number, address: string, host: PathHost): void {
    const url = dialUrl(address);
    openSocket(url, this.#find, {
      opened: (socket) => carry(socket, host, { dial, kind: "Ordered", remote: url.host }),
      failed: ({ message }) => host.dialFailed(dial, `${address}: ${message}`),
    });
  }
}

/** Finds the platform's own sockets, which speak a subprotocol. */
export function platformSocket(protocol: string): FindSocket {
  return async (url) => () => new WebSocket(url.href, protocol) as unknown as Socket;
}

/** Dials each address with the dialler of its scheme. */
export class SchemeDialler implements Dialler {
  readonly schemes: readonly string[];
  readonly #byScheme: ReadonlyMap<string, Dialler>;

  constructor(diallers: readonly Dialler[]) {
    this.#byScheme = new Map(
      diallers.flatMap((dialler) => dialler.schemes.map((scheme) => [scheme, dialler])),
    );
    this.schemes = [...this.#byScheme.keys()];
  }

  dial(dial: number, address: string, host: PathHost): void {
    try {
      const scheme = new URL(address).protocol.slice(0, -1);
      const dialler = this.#byScheme.get(scheme);
      if (dialler === undefined) host.dialFailed(dial, `${scheme} cannot be dialled from here`);
      else dialler.dial(dial, address, host);
    } catch (error) {
      host.dialFailed(dial, `${address}: ${error instanceof Error ? error.message : error}`);
    }
  }
}
