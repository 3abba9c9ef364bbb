import { MeshError } from "../codec/code.ts";
import { utf8 } from "../codec/field.ts";
import { fromHex } from "../codec/hex.ts";

/** Longest name of a network, in UTF-8. */
const MAX_NETWORK = 63;
/** What comes before the key of an authority: no name of an open network has it. */
const CLOSED = "@";

/**
 * What the RPC knows a network by: the name of an open one; of a closed one, `NAME@KEY`, the key of its authority, which is another one
 * for each name and fits.
 */
export function networkBytes(network: string): Uint8Array {
  const [name = "", ...keys] = typeof network === "string" ? network.split(CLOSED) : [];
  if (name === "" || utf8(name).length > MAX_NETWORK)
    throw new MeshError("BadConfig", `network is a name of 1 to ${MAX_NETWORK} bytes`);
  if (keys.length === 0) return utf8(name);
  const authority = fromHex(keys.join(CLOSED), 32, "the KEY of a network NAME@KEY");
  return Uint8Array.of(...utf8(CLOSED), ...authority);
}
