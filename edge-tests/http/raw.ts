/** A program that speaks HTTP/1.1 to a proxy byte for byte, so that it can also say what no library would. */
import { once } from "node:events";
import { connect } from "node:net";

import { bytesOf, type Field, type Order, type Outcome, textOf } from "./probe.ts";

/** Makes the request of an order through a proxy and tells what comes of it. */
export async function performThrough(proxy: string, order: Order): Promise<Outcome> {
  const { hostname, port } = new URL(proxy);
  const socket = connect(Number(port), hostname);
  await once(socket, "connect");
  socket.write(bytesOf(requestOf(order)));
  const chunks: Buffer[] = [];
  for await (const chunk of socket) chunks.push(chunk as Buffer);
  return outcomeOf(textOf(Buffer.concat(chunks)), order.method);
}

function requestOf({ method, url, headers, body, isStream }: Order): string {
  const names = new Set(headers.map(([name]) => name.toLowerCase()));
  const length = lengthOf(method, body);
  const framing = isStream ? "transfer-encoding: chunked" : length;
  const isFramed = names.has("transfer-encoding") || names.has("content-length");
  const lines = [
    `${method} ${url} HTTP/1.1`,
    ...(names.has("host") ? [] : ["host: ignored.mesh"]),
    "connection: close",
    ...headers.map(([name, value]) => `${name}: ${value}`),
    ...(isFramed || framing === undefined ? [] : [framing]),
  ];
  return `${lines.join("\r\n")}\r\n\r\n${contentOf(body ?? "", isStream === true && !isFramed)}`;
}

/** What common clients say of a body (RFC 9110, 8.6). */
function lengthOf(method: string, body: string | undefined): string | undefined {
  if (body !== undefined) return `content-length: ${body.length}`;
  return method === "POST" || method === "PUT" ? "content-length: 0" : undefined;
}

function contentOf(body: string, isChunked: boolean): string {
  return isChunked ? `${body.length.toString(16)}\r\n${body}\r\n0\r\n\r\n` : body;
}

/** The answer of a proxy; what it refuses or cannot answer itself it says in `proxy-status`. */
function outcomeOf(text: string, method: string): Outcome {
  const end = text.indexOf("\r\n\r\n");
  if (end < 0) return { error: `no answer: ${JSON.stringify(text)}` };
  const [first = "", ...lines] = text.slice(0, end).split("\r\n");
  const headers = lines.map((line): Field => {
    const colon = line.indexOf(":");
    return [line.slice(0, colon).toLowerCase(), line.slice(colon + 1).trim()];
  });
  const valueIn = (wanted: string): string | undefined => headers.find(([name]) => name === wanted)?.[1];
  const status = Number(first.split(" ")[1]);
  const rest = text.slice(end + 4);
  const hasNone = method === "HEAD" || status === 204 || status === 304;
  const body = hasNone ? "" : bodyOf(rest, valueIn("transfer-encoding"), valueIn("content-length"));
  if (body === undefined) return { error: "the answer broke off" };
  // A service's answer says by which proxy it came; what the proxy says itself is a problem, but where it does not understand a request.
  const isItsOwn = valueIn("proxy-status") !== undefined || valueIn("via") === undefined;
  const wasRefused = status >= 400 && status !== 501 && isItsOwn;
  return wasRefused ? { error: `${status} ${body}` } : { status, headers, body };
}

/** The body, or `undefined` when it is not whole. */
function bodyOf(rest: string, coding: string | undefined, length: string | undefined): string | undefined {
  if (coding === "chunked") return unchunked(rest);
  if (length === undefined) return rest;
  return rest.length === Number(length) ? rest : undefined;
}

function unchunked(text: string): string | undefined {
  let [body, rest] = ["", text];
  for (;;) {
    const end = rest.indexOf("\r\n");
    const length = Number.parseInt(rest.slice(0, end), 16);
    if (end < 0 || Number.isNaN(length) || rest.length < end + 4 + length) return undefined;
    if (length === 0) return body;
    body += rest.slice(end + 2, end + 2 + length);
    rest = rest.slice(end + 4 + length);
  }
}
