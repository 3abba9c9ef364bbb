/** A WebSocket to the stub of a Durable Object, in the shape of the platforms' own: what a dialler needs. */
import { env } from "cloudflare:workers";

/** Every socket that was opened, in order. */
export const opened: StubSocket[] = [];

/** Dials `ws://NAME.test/.mesh` through the namespace of the Worker under test. */
export class StubSocket extends EventTarget {
  binaryType = "arraybuffer";
  readonly bufferedAmount = 0;
  #socket: WebSocket | undefined;

  constructor(url: string | URL, protocol: string) {
    super();
    opened.push(this);
    void this.#open(new URL(url), protocol);
  }

  send(data: string | ArrayBuffer | Uint8Array<ArrayBuffer>): void {
    this.#socket?.send(data);
  }

  close(code?: number, reason?: string): void {
    this.#socket?.close(code, reason);
  }

  async #open(url: URL, protocol: string): Promise<void> {
    const response = await upgrade(url.hostname.replace(/\.test$/, ""), protocol);
    const socket = response.webSocket;
    if (socket === null) return void this.dispatchEvent(new Event("error"));
    this.#socket = socket;
    socket.binaryType = "arraybuffer";
    socket.addEventListener("message", ({ data }) =>
      this.dispatchEvent(new MessageEvent("message", { data })),
    );
    socket.addEventListener("close", ({ code, reason }) =>
      this.dispatchEvent(new CloseEvent("close", { code, reason })),
    );
    socket.accept();
    this.dispatchEvent(new Event("open"));
  }
}

/** Asks a node for a WebSocket. */
export function upgrade(name: string, protocol: string | undefined): Promise<Response> {
  const { NODE } = env;
  const headers = new Headers({ upgrade: "websocket" });
  if (protocol !== undefined) headers.set("sec-websocket-protocol", protocol);
  return NODE.get(NODE.idFromName(name)).fetch(`http://${name}.test/.mesh`, { headers });
}
