import { detach } from "../guard.ts";
import { type Connection, MAX_BUFFERED, MESSAGE_COST, tooMuchWaits } from "./connection.ts";

/** What an application may send as one message. */
export type Sendable = string | ArrayBuffer | ArrayBufferView | Blob;

type Message = string | Uint8Array | Blob;

/** The messages of a socket on their way to its connection, in their order: the bytes of a Blob take time to be read. */
export class Outbox {
  readonly #connection: Connection;
  readonly #queue: Message[] = [];
  #waiting = 0;
  #end: { readonly code: number; readonly reason: string } | undefined;
  #isOver = false;

  constructor(connection: Connection) {
    this.#connection = connection;
  }

  /** Bytes of messages that were not sent yet. */
  get bufferedAmount(): number {
    return this.#waiting + this.#connection.bufferedAmount;
  }

  /** Sends a message after those before it. */
  send(data: Sendable): void {
    const message = messageOf(data);
    const isFirst = this.#queue.length === 0;
    if (isFirst && !(message instanceof Blob)) return this.#connection.send(message);
    const size = sizeOf(message);
    const cost = this.bufferedAmount + size + this.#queue.length * MESSAGE_COST;
    if (cost > MAX_BUFFERED) return this.abort(tooMuchWaits());
    // The application may write over its bytes once they are sent.
    this.#queue.push(message instanceof Uint8Array ? message.slice() : message);
    this.#waiting += size;
    if (isFirst) detach("the Blob of a WebSocket", this.#read());
  }

  /** Closes the connection after all messages. */
  close(code: number, reason: string): void {
    if (this.#queue.length === 0) this.#connection.close(code, reason);
    else this.#end = { code, reason };
  }

  /** Breaks the connection. */
  abort(error: Error): void {
    this.drop();
    this.#connection.abort(error);
  }

  /** The connection is over: nothing is sent any more. */
  drop(): void {
    this.#isOver = true;
    this.#queue.splice(0);
    this.#waiting = 0;
  }

  async #read(): Promise<void> {
    for (let next = this.#queue[0]; next !== undefined; next = this.#queue[0]) {
      try {
        const message = next instanceof Blob ? new Uint8Array(await next.arrayBuffer()) : next;
        if (this.#isOver) return;
        this.#waiting -= sizeOf(next);
        this.#queue.shift();
        this.#connection.send(message);
      } catch (error) {
        // A file may be gone, or be another one by now.
        return this.abort(error instanceof Error ? error : new Error(String(error)));
      }
    }
    if (this.#end !== undefined) this.#connection.close(this.#end.code, this.#end.reason);
  }
}

function messageOf(data: Sendable): Message {
  if (typeof data === "string" || data instanceof Blob) return data;
  if (data instanceof ArrayBuffer) return new Uint8Array(data);
  if (ArrayBuffer.isView(data)) return new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
  throw new TypeError("a message is a text, an ArrayBuffer, a view of one, or a Blob");
}

/** A text counts as UTF-8. */
function sizeOf(message: Message): number {
  if (typeof message === "string") return new TextEncoder().encode(message).length;
  return message instanceof Blob ? message.size : message.length;
}
