/** Calls services through a sidecar, as a program beside it does. */
import { request } from "node:http";
import { Readable } from "node:stream";
import { WebSocket } from "ws";

import type { CallingSocket, Client } from "./calls.ts";

/** A client of the sidecar at a port. */
export function sidecarClient(port: number): Client {
  return {
    fetch: (url, init) => send(port, url, init),
    socket: (url) => {
      const { hostname, pathname } = new URL(url);
      const headers = { host: hostname };
      return new WebSocket(`ws://127.0.0.1:${port}${pathname}`, {
        headers,
        perMessageDeflate: false,
      }) as unknown as CallingSocket;
    },
  };
}

function send(port: number, url: string, init: RequestInit & { timeout_ms?: number }): Promise<Response> {
  const { hostname, pathname } = new URL(url);
  const { method = "GET", headers = {}, body, signal, timeout_ms } = init;
  const fields = {
    ...(headers as Record<string, string>),
    host: hostname,
    ...(timeout_ms === undefined ? {} : { "selfsame-timeout": `${timeout_ms}ms` }),
    ...(typeof body === "string" ? { "content-length": `${body.length}` } : {}),
  };
  return new Promise((resolve, reject) => {
    const options = { host: "127.0.0.1", port, path: pathname, method, headers: fields, agent: false };
    const asked = request({ ...options, ...(signal ? { signal } : {}) }, (answer) => {
      const status = answer.statusCode ?? 0;
      resolve(new Response(Readable.toWeb(answer) as ReadableStream, { status }));
    });
    asked.on("error", reject);
    if (body instanceof ReadableStream) {
      const source = Readable.fromWeb(body as never);
      source.on("error", reject);
      source.pipe(asked);
    } else asked.end(body as string | undefined);
  });
}
