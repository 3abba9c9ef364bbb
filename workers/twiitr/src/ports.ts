import { createServer } from "node:net";

/** More taken ports in a row mean something else is wrong. */
const MAX_TRIES = 100;

/** The first free port of this machine from `wanted` on, but none of `taken`. */
export async function freePort(wanted: number, taken: readonly number[] = []): Promise<number> {
  for (let port = wanted; port < wanted + MAX_TRIES; port++) {
    if (!taken.includes(port) && (await isFree(port))) return port;
  }
  throw new Error(`no port from ${wanted} to ${wanted + MAX_TRIES - 1} is free on this machine`);
}

function isFree(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once("error", () => resolve(false));
    server.listen({ port, host: "127.0.0.1", exclusive: true }, () => server.close(() => resolve(true)));
  });
}
