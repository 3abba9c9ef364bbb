import { createSocket, type RemoteInfo } from "node:dgram";
import { once } from "node:events";
import { connect, isIPv6 } from "node:net";

import { MeshError } from "../codec/code.ts";
import { unreachable } from "./https.ts";
import type { AdmissionModule, Outcome, Query } from "./module.ts";
import type { ServerPlace } from "./resolver.ts";

/** Datagrams that answer another query before TCP is asked: somebody guesses. */
const MAX_STRAYS = 16;
/** Datagrams that wait to be looked at. */
const MAX_WAITING = 2 * MAX_STRAYS;

/** Asks a name server for a name over UDP, and over TCP when the response does not fit a datagram. */
export async function askOverUdp(
  module: AdmissionModule,
  server: ServerPlace,
  name: string,
  signal: AbortSignal,
): Promise<Outcome> {
  const query = { id: randomId(), name };
  const outcome = await overUdp(module, server, query, signal);
  return outcome.type === "Truncated" ? overTcp(module, server, name, signal) : outcome;
}

/** Asks from a port of its own, which the system chooses at random, and takes datagrams of that server only. */
async function overUdp(
  module: AdmissionModule,
  server: ServerPlace,
  query: Query,
  signal: AbortSignal,
): Promise<Outcome> {
  const message = await module.message(query);
  const socket = createSocket(isIPv6(server.ip) ? "udp6" : "udp4");
  const waiting: Uint8Array[] = [];
  let wake: () => void = () => undefined;
  socket.on("message", (datagram: Uint8Array, from: RemoteInfo) => {
    const isOfServer = from.address === server.ip && from.port === server.port;
    if (isOfServer && waiting.length < MAX_WAITING) waiting.push(datagram);
    wake();
  });
  try {
    const failed = once(socket, "error", { signal }).then(([error]) => Promise.reject(error));
    failed.catch(() => undefined);
    socket.send(message, server.port, server.ip);
    for (let strays = 0; strays < MAX_STRAYS; strays++) {
      while (waiting.length === 0)
        await Promise.race([new Promise<void>((resolve) => (wake = resolve)), failed]);
      const outcome = await outcomeOf(module, query, waiting.shift());
      if (outcome !== undefined) return outcome;
    }
    return { type: "Truncated" };
  } finally {
    socket.close();
  }
}

/** Returns what a datagram says; `undefined` if it answers another query. */
async function outcomeOf(
  module: AdmissionModule,
  query: Query,
  datagram: Uint8Array = new Uint8Array(),
): Promise<Outcome | undefined> {
  try {
    return await module.outcome(query, true, datagram);
  } catch (error) {
    if (error instanceof MeshError && error.name === "WrongDnsAnswer") return undefined;
    throw error;
  }
}

async function overTcp(
  module: AdmissionModule,
  { ip, port }: ServerPlace,
  name: string,
  signal: AbortSignal,
): Promise<Outcome> {
  const query = { id: randomId(), name };
  const message = await module.message(query);
  const socket = connect({ host: ip, port, signal });
  try {
    // Each message comes after its length (RFC 1035, section 4.2.2).
    socket.write(Buffer.concat([Uint8Array.of(message.length >> 8, message.length & 0xff), message]));
    let bytes: Buffer = Buffer.alloc(0);
    for await (const piece of socket) {
      bytes = Buffer.concat([bytes, piece]);
      if (bytes.length >= 2 && bytes.length >= 2 + bytes.readUInt16BE())
        return await module.outcome(query, false, bytes.subarray(2, 2 + bytes.readUInt16BE()));
    }
    throw unreachable(`${ip}:${port} over TCP`, "it ended the connection");
  } finally {
    socket.destroy();
  }
}

function randomId(): number {
  const [id = 0] = crypto.getRandomValues(new Uint16Array(1));
  return id;
}
