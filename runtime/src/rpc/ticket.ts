import { CborDecoder, CborEncoder } from "../codec/cbor.ts";
import { MeshError } from "../codec/code.ts";
import { fromBase64Url } from "../codec/hex.ts";
import { collect } from "../driver/collect.ts";
import type { Mesh } from "../driver/mesh.ts";
import type { CallOptions } from "../driver/service.ts";
import { MAX_ADDRESS, parseAddress } from "./address.ts";

/** Where a service issues tickets (RFC 8615). */
export const TICKET_PATH = "/.well-known/selfsame-rpc";
/** Says of a ticket's service that it carries HTTP by RPC, too. */
export const CARRIES_FIELD = "selfsame-rpc-carries";
/** What it says. */
export const HTTP = "http";
const VERSION = 2;
const GRANT_BYTES: number = 92 + 32 + 4;
const MAX_ADDRESSES = 4;
/** Longest answer to a request for a ticket: the grant, the addresses, and what frames them. */
const MAX_ANSWER: number = GRANT_BYTES + MAX_ADDRESSES * (MAX_ADDRESS + 3) + 16;
/** The same as base64url. */
const MAX_FIELD: number = Math.ceil((MAX_ANSWER * 4) / 3);

/** A ticket with its secret, and where the server is that issued it. */
export interface RpcTicket {
  /** The ticket, its secret and its life. Secret. */
  readonly grant: Uint8Array;
  /** Where the server is reached, the address first that it prefers. */
  readonly addresses: readonly string[];
  /** Whether the service carries HTTP by RPC. */
  readonly carriesHttp?: boolean | undefined;
}

/** A service that gives out no tickets: calls travel in sessions of the mesh, with keys of their own. */
export const IN_SESSION = "session";
/** The type of `IN_SESSION`. */
export type InSession = typeof IN_SESSION;

/** What of a mesh gets tickets from the providers of a service. */
export type TicketMesh = Pick<Mesh, "fetch">;

/** Whether a path is one that the RPC itself has at each service. */
export function isReserved(path: string): boolean {
  const [pathname = ""] = path.split("?", 1);
  return `${pathname}/`.startsWith(`${TICKET_PATH}/`);
}

/** Checks the addresses that a server's tickets are to name. */
export function checkAddresses(addresses: readonly string[]): void {
  if (addresses.length === 0 || addresses.length > MAX_ADDRESSES) {
    throw new MeshError("BadConfig", `a ticket names 1 to ${MAX_ADDRESSES} addresses of its server`);
  }
  addresses.forEach(parseAddress);
}

/** Encodes `[version: 2, grant: bytes, addresses: [1*4 text]]`. Secret. */
export function encodeTicket(grant: Uint8Array, addresses: readonly string[]): Uint8Array<ArrayBuffer> {
  return new CborEncoder().array(3).uint(VERSION).bytes(grant).texts(addresses).finish();
}

/** Encodes `[version: 2, null]`, which stands in place of a ticket. */
export function encodeInSession(): Uint8Array<ArrayBuffer> {
  return new CborEncoder().array(2).uint(VERSION).null().finish();
}

/** Decodes a ticket as a service gives it, or what it gives in place of one. */
export function decodeTicket(bytes: Uint8Array): RpcTicket | InSession {
  try {
    const decoder = new CborDecoder(bytes);
    const length = decoder.array(3);
    if (decoder.uint() !== VERSION) throw new MeshError("WrongVersion");
    if (length === 2 && decoder.null()) {
      decoder.finish();
      return IN_SESSION;
    }
    if (length !== 3) throw new MeshError("BadMessage");
    const grant = decoder.fixed(GRANT_BYTES).slice();
    const addresses = decoder.list(MAX_ADDRESSES, (list) => list.text(MAX_ADDRESS));
    if (addresses.length === 0) throw new MeshError("BadMessage");
    decoder.finish();
    return { grant, addresses };
  } catch (cause) {
    throw new MeshError("BadMessage", "the ticket of the service does not follow the specification", {
      cause,
    });
  }
}

/** Decodes a ticket that came with an answer. */
export function ticketInField(field: string): RpcTicket | InSession {
  if (field.length > MAX_FIELD) throw new MeshError("BadMessage", `a ticket has at most ${MAX_ANSWER} bytes`);
  const bytes = fromBase64Url(field, "a ticket");
  const ticket = decodeTicket(bytes);
  bytes.fill(0);
  return ticket;
}

/** Asks a provider of a service for a ticket, in a session of the mesh. */
export async function requestTicket(
  mesh: TicketMesh,
  service: string,
  options: CallOptions,
  signal: AbortSignal,
): Promise<RpcTicket | InSession> {
  const init = { ...options, method: "POST", signal };
  const response = await mesh.fetch(`https://${service}.mesh${TICKET_PATH}`, init);
  if (response.status !== 200) {
    await response.body?.cancel();
    throw new MeshError(
      "NoService",
      `a provider of ${service} answers ${response.status} to a request for a ticket: does it serve RPC?`,
    );
  }
  const tooLong = (): MeshError => new MeshError("BadMessage", `a ticket has at most ${MAX_ANSWER} bytes`);
  const ticket = decodeTicket(await collect(response.body, { most: MAX_ANSWER, tooLong, signal }));
  if (ticket === IN_SESSION) return ticket;
  return { ...ticket, carriesHttp: response.headers.get(CARRIES_FIELD) === HTTP };
}
