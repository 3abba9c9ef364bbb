/** The server that members of the Rust host expose: it answers what all providers answer. */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { WebSocketServer } from "ws";

import { type AnsweringSocket, answer, echo } from "./service.ts";

/** Starts it on a free port, which is returned beside it. */
export async function openBackend(
  count: (id: string) => Promise<void>,
): Promise<{ server: Server; port: number }> {
  const server = createServer((request, response) => {
    respond(request, response, count).catch(() => response.destroy());
  });
  const sockets = new WebSocketServer({ noServer: true });
  server.on("upgrade", (request, socket, head) => {
    sockets.handleUpgrade(request, socket, head, (opened) => echo(opened as unknown as AnsweringSocket));
  });
  await new Promise<void>((listening) => server.listen(0, "127.0.0.1", listening));
  return { server, port: (server.address() as AddressInfo).port };
}

async function respond(
  incoming: IncomingMessage,
  outgoing: ServerResponse,
  count: (id: string) => Promise<void>,
): Promise<void> {
  const hasBody = incoming.method === "POST" || incoming.method === "PUT";
  const request = new Request(`http://backend${incoming.url}`, {
    method: incoming.method ?? "GET",
    headers: incoming.headers as Record<string, string>,
    ...(hasBody ? { body: Readable.toWeb(incoming) as ReadableStream, duplex: "half" } : {}),
  } as RequestInit);
  const { status, headers, body } = await answer(request, count);
  outgoing.writeHead(status, Object.fromEntries(headers));
  if (body === null) outgoing.end();
  else await pipeline(Readable.fromWeb(body as never), outgoing);
}
