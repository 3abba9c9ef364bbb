import { randomBytes } from "node:crypto";
import { createSocket, type Socket } from "node:dgram";
import { lookup } from "node:dns/promises";
import { once } from "node:events";
import type { Id } from "./packet.ts";

/** Room that a socket asks the system for, in bytes, each way: datagrams come in bursts, faster than they are heard. */
const SOCKET_ROOM = 2 * 1024 * 1024;

/** Asks the system for room for bursts on a bound socket; it gives what it allows. */
export function makeRoom(socket: Socket): void {
  // Deno takes so much memory for each datagram instead.
  if ("Deno" in globalThis) return;
  try {
    socket.setRecvBufferSize(SOCKET_ROOM);
    socket.setSendBufferSize(SOCKET_ROOM);
  } catch {
    // What does not fit is lost and sent again.
  }
}

/** Makes a socket that sends to IP addresses and to nothing else. */
export function createUdp(family: 4 | 6): Socket {
  return createSocket({
    type: family === 6 ? "udp6" : "udp4",
    lookup: (ip, _, found) => found(null, ip, family),
  });
}

/** Makes a socket and binds it. Resolves when it hears. */
export async function boundUdp(host: string, port: number): Promise<Socket> {
  const { address, family } = await lookup(host);
  const socket = createUdp(family === 6 ? 6 : 4);
  const listening = once(socket, "listening");
  // Processes of a cluster would share the port, and each would hear datagrams that are for another one.
  socket.bind({ address, port, exclusive: true });
  try {
    await listening;
  } catch (error) {
    socket.close();
    throw error;
  }
  makeRoom(socket);
  return socket;
}

/** A number for a connection. */
export function randomId(): Id {
  return randomBytes(8).readBigUInt64LE();
}
