import { MeshError } from "../codec/code.ts";
import { utf8 } from "../codec/field.ts";

/** Longest name of a network, in UTF-8. */
const MAX_NETWORK = 63;

/** Checks the name of a network, and returns it. */
export function checkNetwork(network: string): string {
  if (typeof network === "string" && network !== "" && utf8(network).length <= MAX_NETWORK) return network;
  throw new MeshError("BadConfig", `network is a name of 1 to ${MAX_NETWORK} bytes`);
}
