import { MeshError } from "../codec/code.ts";
import { utf8 } from "../codec/field.ts";
import { guarded } from "../guard.ts";
import { ABNORMAL, type Connection, type Ended, NO_CODE } from "./connection.ts";
import { mayBeSent } from "./frames.ts";
import { Outbox, type Sendable } from "./outbox.ts";

/** Longest reason of a close frame, in bytes (RFC 6455, 5.5). */
const MAX_REASON = 123;

/** A message arrived. */
export interface MessageArrived extends Event {
  /** A text, or bytes as `binaryType` says. */
  readonly data: string | ArrayBuffer | Blob;
}

/** The connection has ended. */
export class SocketClosed extends Event {
  /** The close code: 1005 when the other side gave none, 1006 when the connection broke. */
  readonly code: number;
  /** The reason that the other side gave. */
  readonly reason: string;
  /** Whether both sides closed it. */
  readonly wasClean: boolean;

  constructor({ code, reason, error }: Ended) {
    super("close");
    this.code = code;
    this.reason = reason;
    this.wasClean = error === undefined && code !== ABNORMAL;
  }
}

/** The connection could not be opened, or broke. */
export class SocketFailed extends Event {
  /** Why. */
  readonly error: Error;
  /** Its text. */
  readonly message: string;

  constructor(error: Error) {
    super("error");
    this.error = error;
    this.message = error.message;
  }
}

/** What a socket tells, by the names of the events. */
export interface SocketEvents {
  /** The connection is open. */
  readonly open: Event;
  /** A message arrived. */
  readonly message: MessageArrived;
  /** The connection could not be opened, or broke; `close` follows. */
  readonly error: SocketFailed;
  /** The connection has ended. */
  readonly close: SocketClosed;
}

type SocketListener<E> = ((event: E) => void) | { handleEvent(event: E): void } | null;

type ListenerOptions = { capture?: boolean; once?: boolean; signal?: AbortSignal } | boolean;

/** A target of these events, which the platforms' types describe each in its own way. */
interface SocketTarget {
  addEventListener<T extends keyof SocketEvents>(
    type: T,
    listener: SocketListener<SocketEvents[T]>,
    options?: ListenerOptions,
  ): void;
  removeEventListener<T extends keyof SocketEvents>(
    type: T,
    listener: SocketListener<SocketEvents[T]>,
    options?: ListenerOptions,
  ): void;
  dispatchEvent(event: Event): boolean;
}

const Target: new () => SocketTarget = EventTarget as never;

/** A connection that is open. */
export interface Established {
  /** The connection, not listened to yet. */
  readonly connection: Connection;
  /** The subprotocol that was chosen, or the empty text. */
  readonly protocol: string;
}

/**
 * A WebSocket through the mesh, with the interface of the standard one. `close` takes every code that a frame may hold,
 * and a message is a text, an `ArrayBuffer`, a view of one or a `Blob`.
 */
export class MeshSocket extends Target {
  static readonly CONNECTING = 0;
  static readonly OPEN = 1;
  static readonly CLOSING = 2;
  static readonly CLOSED = 3;
  readonly CONNECTING = 0;
  readonly OPEN = 1;
  readonly CLOSING = 2;
  readonly CLOSED = 3;
  /** The address of the service, `wss://NAME.mesh/path`. */
  readonly url: string;
  /** None is used. */
  readonly extensions = "";
  /** What messages of bytes arrive as. */
  binaryType: "blob" | "arraybuffer" = "blob";
  /** Hears when the connection is open. */
  onopen: ((event: Event) => void) | null = null;
  /** Hears of messages. */
  onmessage: ((event: MessageArrived) => void) | null = null;
  /** Hears of the end. */
  onclose: ((event: SocketClosed) => void) | null = null;
  readonly #cancel: (error: MeshError) => void;
  /** What the target calls for each listener: removing one finds it so. */
  readonly #guards: WeakMap<object, unknown> = new WeakMap();
  #onerror: ((event: SocketFailed) => void) | null = null;
  #outbox: Outbox | undefined;
  #state: 0 | 1 | 2 | 3 = 0;
  #protocol = "";

  /** A socket to `url`, of https or wss. `opening` resolves when the connection is open; `cancel` gives that up. */
  constructor(url: string, opening: Promise<Established>, cancel: (error: MeshError) => void) {
    super();
    this.url = url.replace(/^https/, "wss");
    this.#cancel = cancel;
    this.addEventListener("open", (event) => this.onopen?.(event));
    this.addEventListener("message", (event) => this.onmessage?.(event));
    this.addEventListener("error", (event) => this.#onerror?.(event));
    this.addEventListener("close", (event) => this.onclose?.(event));
    opening.then(
      (established) => this.#open(established),
      (error: unknown) => this.#fail(error),
    );
  }

  override addEventListener<T extends keyof SocketEvents>(
    type: T,
    listener: SocketListener<SocketEvents[T]>,
    options?: ListenerOptions,
  ): void {
    super.addEventListener(type, this.#guard(listener), options);
  }

  override removeEventListener<T extends keyof SocketEvents>(
    type: T,
    listener: SocketListener<SocketEvents[T]>,
    options?: ListenerOptions,
  ): void {
    super.removeEventListener(type, this.#guard(listener), options);
  }

  /** Hears why there is no connection; as in the standard one, whoever reads it may call it with any event. */
  get onerror(): ((event: Event) => void) | null {
    return this.#onerror as ((event: Event) => void) | null;
  }

  set onerror(listener: ((event: SocketFailed) => void) | null) {
    this.#onerror = listener;
  }

  /** `CONNECTING`, `OPEN`, `CLOSING` or `CLOSED`. */
  get readyState(): 0 | 1 | 2 | 3 {
    return this.#state;
  }

  /** The subprotocol that was chosen, or the empty text. */
  get protocol(): string {
    return this.#protocol;
  }

  /** Bytes of messages that were not sent yet. The connection breaks when they are more than 32 MiB. */
  get bufferedAmount(): number {
    return this.#outbox?.bufferedAmount ?? 0;
  }

  /** Sends a message; once the socket closes nothing happens. */
  send(data: Sendable): void {
    if (this.#outbox === undefined) {
      throw new DOMException("the socket is not open yet: send after its event open", "InvalidStateError");
    }
    if (this.#state === MeshSocket.OPEN) this.#outbox.send(data);
  }

  /** Closes the connection after all messages that were sent. */
  close(code?: number, reason = ""): void {
    if (code !== undefined && !mayBeSent(code)) {
      throw new DOMException(`${code} is no close code: 1000, or 3000 to 4999`, "InvalidAccessError");
    }
    if (utf8(reason).length > MAX_REASON) {
      throw new DOMException(`a reason has at most ${MAX_REASON} bytes`, "SyntaxError");
    }
    if (this.#state >= MeshSocket.CLOSING) return;
    this.#state = MeshSocket.CLOSING;
    if (this.#outbox !== undefined) {
      return this.#outbox.close(code ?? (reason === "" ? NO_CODE : 1000), reason);
    }
    this.#cancel(closedEarly());
  }

  /** The same listener, of which a failure does not end the process, as it would in Node and Deno. */
  #guard<E>(listener: SocketListener<E>): SocketListener<E> {
    if (listener === null) return null;
    const known = this.#guards.get(listener);
    if (known !== undefined) return known as SocketListener<E>;
    const hear = (event: E): unknown =>
      typeof listener === "function" ? listener.call(this, event) : listener.handleEvent(event);
    const wrapped = guarded("a listener of a WebSocket", hear);
    this.#guards.set(listener, wrapped);
    return wrapped;
  }

  #open({ connection, protocol }: Established): void {
    if (this.#state !== MeshSocket.CONNECTING) {
      const error = closedEarly();
      connection.abort(error);
      return this.#fail(error);
    }
    this.#outbox = new Outbox(connection);
    this.#protocol = protocol;
    this.#state = MeshSocket.OPEN;
    this.dispatchEvent(new Event("open"));
    connection.listen({
      message: (data) => this.#message(data),
      closing: () => {
        this.#state = MeshSocket.CLOSING;
      },
      ended: (ended) => this.#ended(ended),
    });
  }

  #message(data: string | Uint8Array<ArrayBuffer>): void {
    if (this.#state !== MeshSocket.OPEN) return;
    this.dispatchEvent(new MessageEvent("message", { data: this.#deliver(data) }));
  }

  #deliver(data: string | Uint8Array<ArrayBuffer>): string | ArrayBuffer | Blob {
    if (typeof data === "string") return data;
    if (this.binaryType === "blob") return new Blob([data]);
    const isWhole = data.byteLength === data.buffer.byteLength;
    return isWhole ? data.buffer : data.slice().buffer;
  }

  #fail(cause: unknown): void {
    const error = cause instanceof Error ? cause : new Error(String(cause));
    this.#ended({ code: ABNORMAL, reason: "", error });
  }

  #ended(ended: Ended): void {
    this.#state = MeshSocket.CLOSED;
    this.#outbox?.drop();
    if (ended.error !== undefined) this.dispatchEvent(new SocketFailed(ended.error));
    this.dispatchEvent(new SocketClosed(ended));
  }
}

function closedEarly(): MeshError {
  return new MeshError("Cancelled", "the socket was closed before it was open");
}
