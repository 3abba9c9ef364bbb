import { createSocket } from "node:dgram";
import { once } from "node:events";
import { connect } from "node:net";

/** How long a server on this machine may take. */
const PATIENCE_MS = 10_000;
const HOST = "127.0.0.1";

/** Sends a message to a server on this machine by UDP, and resolves with the first datagram that comes back. */
export async function overUdp(
  port: number,
  message: Uint8Array,
  patience_ms: number = PATIENCE_MS,
): Promise<Uint8Array> {
  const socket = createSocket("udp4");
  try {
    const received = once(socket, "message", { signal: AbortSignal.timeout(patience_ms) });
    socket.send(message, port, HOST);
    const [datagram] = await received;
    return datagram;
  } finally {
    socket.close();
  }
}

/** Sends a message to a server on this machine by TCP, and resolves with the one that comes back. */
export async function overTcp(port: number, message: Uint8Array): Promise<Uint8Array> {
  const socket = connect(port, HOST);
  socket.setTimeout(PATIENCE_MS, () => socket.destroy(new Error("the server does not answer over TCP")));
  try {
    const length = Buffer.alloc(2);
    length.writeUInt16BE(message.length);
    socket.write(Buffer.concat([length, message]));
    let bytes: Buffer = Buffer.alloc(0);
    for await (const piece of socket) {
      bytes = Buffer.concat([bytes, piece]);
      if (bytes.length >= 2 && bytes.length >= 2 + bytes.readUInt16BE()) break;
    }
    if (bytes.length < 2) throw new Error("the server ended the connection");
    return bytes.subarray(2, 2 + bytes.readUInt16BE());
  } finally {
    socket.destroy();
  }
}
