/** A port in front of a member, whose connections can be cut. */
import { connect, createServer, type Server, type Socket } from "node:net";

/** Passes connections on to another port of this machine. */
export class Forwarder {
  readonly port: number;
  readonly #server: Server;
  readonly #sockets: Set<Socket> = new Set();

  private constructor(port: number, target: number) {
    this.port = port;
    this.#server = createServer((socket) => this.#forward(socket, target));
  }

  /** Listens on a port. */
  static async open(port: number, target: number): Promise<Forwarder> {
    const forwarder = new Forwarder(port, target);
    await new Promise<void>((listening) => forwarder.#server.listen(port, "127.0.0.1", listening));
    return forwarder;
  }

  /** Resets all connections; returns how many there were. */
  cut(): number {
    const count = this.#sockets.size / 2;
    for (const socket of this.#sockets) socket.resetAndDestroy();
    return count;
  }

  /** Takes no more connections, and resets those that there are. */
  close(): void {
    this.#server.close();
    this.cut();
  }

  #forward(socket: Socket, port: number): void {
    const other = connect({ host: "127.0.0.1", port });
    for (const [one, another] of [
      [socket, other],
      [other, socket],
    ] as const) {
      this.#sockets.add(one);
      one.setNoDelay();
      one.pipe(another);
      one.on("error", () => another.resetAndDestroy());
      one.on("close", () => {
        this.#sockets.delete(one);
        another.destroy();
      });
    }
  }
}
