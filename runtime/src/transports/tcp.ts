import { connect, createServer, type Server, type Socket } from "node:net";
import type { Path, PathHost } from "../driver/paths.ts";
import { guarded } from "../guard.ts";
import type { ListenPlace } from "./listen.ts";
import type { DialOptions } from "./place.ts";
import { carryStream, StreamDialler } from "./stream.ts";

/** Accepts peers on a port of its own. Resolves when it listens. */
export function listenTcp({ hostname, port }: ListenPlace, paths: PathHost): Promise<Server> {
  const accept = (socket: Socket): Path =>
    carryStream(socket, paths, { dial: 0, kind: "Direct", remote: socket.remoteAddress ?? "" });
  const server = createServer({ allowHalfOpen: true, noDelay: true }, guarded("a connection", accept));
  return new Promise((resolve, reject) => {
    server.once("error", reject);
    server.listen(port, hostname, () => {
      server.off("error", reject);
      // A connection that could not be accepted is its peer's to try again.
      server.on("error", () => undefined);
      resolve(server);
    });
  });
}

/** Dials `tcp` where the platform has `node:net`. */
export class TcpDialler extends StreamDialler {
  constructor(options: DialOptions) {
    super("tcp", options, connected);
  }
}

function connected(host: string, port: number, signal: AbortSignal): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const socket = connect({ host, port, allowHalfOpen: true, noDelay: true });
    const cancel = (): void => {
      socket.destroy();
      reject(signal.reason);
    };
    signal.addEventListener("abort", cancel, { once: true });
    const settle = (act: () => void) => (): void => {
      signal.removeEventListener("abort", cancel);
      act();
    };
    socket.on("error", (error) => settle(() => reject(error))());
    socket.once(
      "connect",
      settle(() => resolve(socket)),
    );
    if (signal.aborted) cancel();
  });
}
