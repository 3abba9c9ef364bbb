import { codeNumber } from "../codec/code.ts";
import type { Output } from "../codec/output.ts";

/**
 * The code that answers `LookUp`, 0 if a certificate of the peer stands in the DNS. Nodes here know no name server and configure
 * their core so that it does not ask (`confirms` is false).
 */
export function lookUp(_output: Extract<Output, { type: "LookUp" }>): number {
  return codeNumber("DnsNoAnswer");
}
