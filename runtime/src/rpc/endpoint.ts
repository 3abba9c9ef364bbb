import { MeshError } from "../codec/code.ts";
import { ENDPOINT_BYTES } from "../codec/rpc.ts";
import { ipOf } from "../transports/ip.ts";

const PORT_AT = 16;
/** Where the last 16 bits of `::ffff:0:0/96` begin, which IPv4 addresses are mapped into (RFC 4291, section 2.5.5.2). */
const MAPPED_AT = 10;
const V4_AT = 12;
/** Addresses whose bytes are remembered: parsing one costs more than the rest of a datagram's way. */
const MAX_KNOWN = 1024;

/** An IP address and a port. */
export interface IpPort {
  /** The address, of IPv6 without brackets. */
  readonly ip: string;
  /** The port. */
  readonly port: number;
}

/** The endpoint of a caller that was only met in a session of the mesh, or whose address the host does not know. */
export const UNKNOWN: Uint8Array = /* @__PURE__ */ new Uint8Array(ENDPOINT_BYTES);

const known: Map<string, Uint8Array> = /* @__PURE__ */ new Map();

/** Returns the endpoint of an address; of what is no IP address, the unspecified one with the port. */
export function endpointOf({ ip, port }: IpPort): Uint8Array {
  const endpoint = new Uint8Array(ENDPOINT_BYTES);
  endpoint.set(addressBytes(ip));
  return withPort(endpoint, port);
}

/** Sets the port of an endpoint. */
export function withPort(endpoint: Uint8Array, port: number): Uint8Array {
  endpoint[PORT_AT] = port >> 8;
  endpoint[PORT_AT + 1] = port & 0xff;
  return endpoint;
}

/** Returns the port of an endpoint. */
export function portOf(endpoint: Uint8Array): number {
  return ((endpoint[PORT_AT] ?? 0) << 8) | (endpoint[PORT_AT + 1] ?? 0);
}

/** Returns the address of an endpoint, an IPv6 address in all its groups. */
export function addressOf(endpoint: Uint8Array): IpPort {
  const port = portOf(endpoint);
  if (isMapped(endpoint)) return { ip: endpoint.subarray(V4_AT, PORT_AT).join("."), port };
  const groups = Array.from({ length: 8 }, (_, at) =>
    (((endpoint[2 * at] ?? 0) << 8) | (endpoint[2 * at + 1] ?? 0)).toString(16),
  );
  return { ip: groups.join(":"), port };
}

/** Writes an address as `192.0.2.1:7400` or `[2001:db8::1]:7400`. */
export function textOfIpPort({ ip, port }: IpPort): string {
  return ip.includes(":") ? `[${ipOf(ip)?.text ?? ip}]:${port}` : `${ip}:${port}`;
}

/** Reads `192.0.2.1:7400` or `[2001:db8::1]:7400`; `undefined` if it is neither. */
export function ipPortOf(text: string): IpPort | undefined {
  const [, v6, v4, digits = ""] = /^(?:\[([^\]]+)\]|([^:]+)):(\d{1,5})$/.exec(text) ?? [];
  const ip = ipOf(v6 ?? v4 ?? "");
  const port = Number(digits);
  const isRight =
    ip !== undefined && port > 0 && port <= 0xffff && (v6 ?? "").includes(":") === (v6 !== undefined);
  return isRight ? { ip: ip.text, port } : undefined;
}

/** Reads an address, and throws what is wrong with another text; `others` are examples of what else would do. */
export function checkIpPort(text: string, others = ""): IpPort {
  const place = ipPortOf(text);
  if (place !== undefined) return place;
  throw new MeshError("BadAddress", `${text} is no address such as 192.0.2.1:7400${others}`);
}

function isMapped(endpoint: Uint8Array): boolean {
  return (
    endpoint.subarray(0, MAPPED_AT).every((byte) => byte === 0) &&
    endpoint[10] === 0xff &&
    endpoint[11] === 0xff
  );
}

function addressBytes(text: string): Uint8Array {
  const found = known.get(text);
  if (found !== undefined) return found;
  const bytes = parsedBytes(text);
  if (known.size >= MAX_KNOWN) known.clear();
  known.set(text, bytes);
  return bytes;
}

function parsedBytes(text: string): Uint8Array {
  const bytes = new Uint8Array(PORT_AT);
  const [bare = ""] = text.split("%");
  const ip = ipOf(bare);
  if (ip === undefined) return bytes;
  let rest = ip.widthBits === 32 ? ip.value | (0xffffn << 32n) : ip.value;
  for (let at = PORT_AT - 1; at >= 0; at--) {
    bytes[at] = Number(rest & 0xffn);
    rest >>= 8n;
  }
  return bytes;
}
