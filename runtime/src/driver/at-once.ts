import { codeNumber } from "../codec/code.ts";
import type { Input } from "../codec/input.ts";
import type { Output } from "../codec/output.ts";

/** Random bytes of the platform. */
export function randomBytes(length: number): Uint8Array<ArrayBuffer> {
  return crypto.getRandomValues(new Uint8Array(length));
}

/** The answer to what a core asks its host alone. */
export function answerAtOnce(output: Extract<Output, { type: "LookUp" | "NeedEntropy" }>): Input {
  if (output.type === "NeedEntropy") return { type: "Entropy", bytes: randomBytes(32) };
  return { type: "LookedUp", peer: output.peer, code: lookUp(output) };
}

/**
 * The code that answers `LookUp`, 0 if a certificate of the peer stands in the DNS. Nodes here know no name server and configure
 * their core so that it does not ask (`confirms` is false).
 */
function lookUp(_output: Extract<Output, { type: "LookUp" }>): number {
  return codeNumber("DnsNoAnswer");
}
