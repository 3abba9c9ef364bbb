import { randomBytes } from "node:crypto";
import type { Socket } from "node:dgram";
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

/** A number for a connection. */
export function randomId(): Id {
  return randomBytes(8).readBigUInt64LE();
}
