import { MeshError } from "../codec/code.ts";
import { concat } from "../concat.ts";
import type { Fetch } from "../transports/exchange-dial.ts";
import type { AdmissionModule, Outcome } from "./module.ts";

const MESSAGE_TYPE = "application/dns-message";
/** Longest message of DNS. */
const MAX_MESSAGE_BYTES = 65_535;
/** The connection knows which response is whose, and equal bodies can be cached (RFC 8484, section 4.1). */
const ID = 0;

/** Asks the resolver at a URL for a name (RFC 8484). */
export async function askOverHttps(
  module: AdmissionModule,
  fetch: Fetch,
  url: string,
  name: string,
  signal: AbortSignal,
): Promise<Outcome> {
  const query = { id: ID, name };
  const headers = { "content-type": MESSAGE_TYPE, accept: MESSAGE_TYPE };
  const body = (await module.message(query)) as Uint8Array<ArrayBuffer>;
  const response = await fetch(url, { method: "POST", headers, body, signal, redirect: "manual" });
  const type = response.headers.get("content-type")?.split(";")[0]?.trim().toLowerCase();
  if (response.status !== 200 || type !== MESSAGE_TYPE) {
    await response.body?.cancel();
    throw unreachable(url, `it answers ${response.status} and ${type ?? "no type"}: is it a resolver?`);
  }
  const outcome = await module.outcome(query, false, await read(response, url));
  const age_s = Math.max(0, Number(response.headers.get("age") ?? 0) || 0);
  // RFC 8484, section 5.1.
  return outcome.type === "Truncated" ? outcome : { ...outcome, ttl_s: Math.max(0, outcome.ttl_s - age_s) };
}

/** The error of a name server that gives no answer. */
export function unreachable(server: string, reason: string, cause?: unknown): MeshError {
  return new MeshError("DialFailed", `the name server ${server} cannot be reached: ${reason}`, { cause });
}

async function read(response: Response, url: string): Promise<Uint8Array> {
  const pieces: Uint8Array[] = [];
  let length = 0;
  for await (const piece of response.body ?? []) {
    length += piece.length;
    if (length > MAX_MESSAGE_BYTES) throw unreachable(url, "its answer is too long");
    pieces.push(piece);
  }
  return concat(pieces);
}
