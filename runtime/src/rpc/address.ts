import { MeshError } from "../codec/code.ts";
import { isPublic } from "../transports/public-address.ts";
import { checkIpPort, type IpPort } from "./endpoint.ts";

/** Longest address of a server. */
export const MAX_ADDRESS = 512;
/** The addresses that stand for all of a machine. */
const UNSPECIFIED = /^(0\.0\.0\.0|[0:]+)$/;

/** Where a server is reached: a port of UDP, a URL that takes POSTs, or one that takes WebSockets. */
export type RpcAddress =
  | { readonly way: "udp"; readonly place: IpPort }
  | { readonly way: "http" | "websocket"; readonly url: string };

/** Reads an address such as `192.0.2.1:7400`, `https://service.example/rpc` or `wss://service.example/rpc`. */
export function parseAddress(text: string): RpcAddress {
  if (typeof text !== "string" || text.length > MAX_ADDRESS) {
    throw new MeshError(
      "BadAddress",
      `the address of a server is text such as 192.0.2.1:7400, of at most ${MAX_ADDRESS} characters`,
    );
  }
  if (!/^(https?|wss?):\/\//i.test(text)) {
    const place = checkIpPort(text, " or https://service.example/rpc");
    if (!UNSPECIFIED.test(place.ip)) return { way: "udp", place };
    throw new MeshError(
      "BadAddress",
      `${text} is where a server binds: say where it is reached, such as 192.0.2.1:7400`,
    );
  }
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url === undefined || url.username !== "" || url.password !== "" || url.hash !== "") {
    throw new MeshError("BadAddress", `${text} is no URL such as https://service.example/rpc`);
  }
  return { way: url.protocol.startsWith("ws") ? "websocket" : "http", url: url.href };
}

/**
 * Refuses addresses that lead inside, and URLs without TLS but to private ones, which only whoever allows them means. Where a name leads
 * the dialler checks when it dials, if the platform tells.
 */
export function checkPermitted(address: RpcAddress, allowPrivate: boolean): void {
  if (allowPrivate) return;
  if (address.way === "udp") {
    if (!isPublic(address.place.ip)) throw forbidden(address.place.ip);
    return;
  }
  const { protocol, hostname } = new URL(address.url);
  const host = hostname.replace(/^\[|\]$/g, "");
  const isIp = /^[\d.]+$/.test(host) || host.includes(":");
  if (isIp ? !isPublic(host) : /(^|\.)(localhost|local|internal)\.?$/.test(host)) throw forbidden(host);
  if (protocol !== "https:" && protocol !== "wss:") {
    throw new MeshError(
      "ForbiddenAddress",
      `${address.url} is no URL of https or wss: set allowPrivate if that is meant`,
    );
  }
}

/** Returns the first of a ticket's addresses that can be used; throws why the first of them cannot if there is none. */
export function usableAddress(texts: readonly string[], check: (address: RpcAddress) => void): RpcAddress {
  const reasons: unknown[] = [];
  for (const text of texts) {
    try {
      const address = parseAddress(text);
      check(address);
      return address;
    } catch (error) {
      reasons.push(error);
    }
  }
  throw reasons[0];
}

function forbidden(host: string): MeshError {
  return new MeshError("ForbiddenAddress", `${host} is a private address: set allowPrivate if that is meant`);
}
