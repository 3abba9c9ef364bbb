/** A server that knows of no mesh: answers as each request says, byte for byte, and tells what arrived. */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";

import { ARRIVED, type Arrived, bytesOf, type Field, REPLY, type Reply, RUN, textOf } from "./probe.ts";

/** Starts the server on a port. */
export async function startServer(port: number): Promise<Server> {
  const arrived = new Map<string, Arrived>();
  const server = createServer({ insecureHTTPParser: false }, (request, answer) => {
    respond(request, answer, arrived).catch((error: unknown) => answer.destroy(error as Error));
  });
  await new Promise<void>((resolve) => server.listen(port, "127.0.0.1", resolve));
  return server;
}

async function respond(
  request: IncomingMessage,
  answer: ServerResponse,
  arrived: Map<string, Arrived>,
): Promise<void> {
  const { method = "", url: path = "" } = request;
  if (path.startsWith(ARRIVED)) {
    answer.end(JSON.stringify(arrived.get(path.slice(ARRIVED.length)) ?? null));
    return;
  }
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk as Buffer);
  const headers = fieldsOf(request.rawHeaders);
  const valueIn = (wanted: string): string => headers.find(([name]) => name === wanted)?.[1] ?? "";
  const body = textOf(Buffer.concat(chunks));
  arrived.set(valueIn(RUN), { method, path, headers, body, caller: valueIn("selfsame-caller") });
  const {
    status,
    headers: fields = [],
    body: content,
    isStream,
  } = JSON.parse(valueIn(REPLY) || '{"status":200}') as Reply;
  const length: Field[] =
    content === undefined || isStream ? [] : [["content-length", String(content.length)]];
  answer.writeHead(status, [...fields, ...length].flat());
  if (content !== undefined) answer.write(bytesOf(content));
  answer.end();
}

function fieldsOf(raw: readonly string[]): Field[] {
  const names = raw.filter((_, index) => index % 2 === 0);
  return names.map((name, index) => [name.toLowerCase(), raw[2 * index + 1] ?? ""]);
}
