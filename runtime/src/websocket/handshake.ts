import { MeshError } from "../codec/code.ts";
import type { HeaderList } from "../codec/http.ts";

/** The value that a key is hashed with (RFC 6455, 1.3). */
const GUID = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
const VERSION = "13";
/** The fields of the handshake, which whoever makes the frames sets. */
const PREFIX = "sec-websocket-";

/** What a request for a WebSocket offers. */
export interface Offered {
  /** The caller's key. */
  readonly key: string;
  /** The subprotocols that it speaks, the dearest first. */
  readonly protocols: readonly string[];
}

/** Whether a request asks for a WebSocket; `upgrade` is the field of that name. */
export function asksForWebSocket(method: string, upgrade: string | null): boolean {
  const protocols = (upgrade ?? "").split(",").map((name) => name.trim().toLowerCase());
  return method === "GET" && protocols.includes("websocket");
}

/**
 * The headers of a request or answer without those of the handshake, which are made anew: an extension changes frames,
 * and an application that sends messages makes none.
 */
export function withoutHandshake(headers: HeaderList): HeaderList {
  return headers.filter(([name]) => !name.startsWith(PREFIX));
}

/** The subprotocols that a field lists. */
export function protocolsOf(field: string | null): string[] {
  const names = (field ?? "").split(",").map((name) => name.trim());
  return names.filter((name) => name !== "");
}

/** Checks the subprotocols that a caller speaks (RFC 6455, 4.1). */
export function checkProtocols(protocols: readonly string[]): readonly string[] {
  const isSound = protocols.every((name) => /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/.test(name));
  if (!isSound || new Set(protocols).size < protocols.length) {
    throw new MeshError("BadConfig", "subprotocols are tokens of HTTP, each named once");
  }
  return protocols;
}

/** An offer with a new key. */
export function newOffer(protocols: readonly string[]): Offered {
  return { key: base64(crypto.getRandomValues(new Uint8Array(16))), protocols };
}

/** The fields that ask for a WebSocket. */
export function requestFields({ key, protocols }: Offered): HeaderList {
  const offered = protocols.length === 0 ? [] : [[`${PREFIX}protocol`, protocols.join(", ")] as const];
  return [["upgrade", "websocket"], [`${PREFIX}key`, key], [`${PREFIX}version`, VERSION], ...offered];
}

/** What a request offers; `undefined` when it asks for no WebSocket, or not as RFC 6455, 4.1 says. */
export function offeredBy(method: string, fields: HeaderList): Offered | undefined {
  const valuesOf = (wanted: string): string =>
    fields
      .filter(([name]) => name === wanted)
      .map(([, value]) => value)
      .join(", ");
  const key = valuesOf(`${PREFIX}key`);
  const isSound = /^[A-Za-z0-9+/]{22}==$/.test(key) && valuesOf(`${PREFIX}version`) === VERSION;
  if (!isSound || !asksForWebSocket(method, valuesOf("upgrade"))) return undefined;
  return { key, protocols: protocolsOf(valuesOf(`${PREFIX}protocol`)) };
}

/** The fields that accept a WebSocket; `protocol` is the one that was chosen, or the empty text. */
export async function answerFields({ key }: Offered, protocol: string): Promise<HeaderList> {
  const chosen = protocol === "" ? [] : [[`${PREFIX}protocol`, protocol] as const];
  return [[`${PREFIX}accept`, await acceptOf(key)], ...chosen];
}

/** The subprotocol that an answer of status 101 chose, or the empty text. Throws when it does not answer the offer. */
export async function checkAccepted({ key, protocols }: Offered, headers: Headers): Promise<string> {
  const protocol = headers.get(`${PREFIX}protocol`) ?? "";
  if (headers.get(`${PREFIX}accept`) !== (await acceptOf(key))) throw bad("answers another key");
  if (headers.has(`${PREFIX}extensions`)) throw bad("uses an extension that nobody offered");
  if (protocol !== "" && !protocols.includes(protocol)) throw bad("chose a subprotocol that nobody offered");
  return protocol;
}

/** Why there is no WebSocket when the service gave another answer. */
export function refused(status: number): MeshError {
  return new MeshError("StreamRefused", `the service opened no WebSocket: it answered ${status}`);
}

/** The answer to a key (RFC 6455, 4.2.2). */
async function acceptOf(key: string): Promise<string> {
  if (crypto.subtle === undefined) {
    throw new MeshError("BadConfig", "a page has WebSockets only in a secure context: serve it by https");
  }
  return base64(new Uint8Array(await crypto.subtle.digest("SHA-1", new TextEncoder().encode(key + GUID))));
}

function bad(what: string): MeshError {
  return new MeshError("BadMessage", `the service accepts the WebSocket wrongly: it ${what}`);
}

function base64(bytes: Uint8Array): string {
  return btoa(String.fromCharCode(...bytes));
}
