import { MeshError } from "../codec/code.ts";
import { fromHex, toHex } from "../codec/hex.ts";

/** Longest name of a network, as in DNS. */
const MAX_NAME = 63;

/** The parts of a network's full name. */
export interface NetworkName {
  /** All of it, as the core takes it. */
  readonly full: string;
  /** What the network is called. */
  readonly name: string;
  /** Public key of the authority of a closed network, 32 bytes; `undefined` for an open one. */
  readonly authority: Uint8Array<ArrayBuffer> | undefined;
}

/** Reads the name of a network: `NAME`, or `NAME@KEY` if it is closed. */
export function parseNetwork(network: string): NetworkName {
  const wrong = new MeshError(
    "BadConfig",
    `network is a name of 1 to ${MAX_NAME} characters, of a closed network NAME@KEY`,
  );
  if (typeof network !== "string") throw wrong;
  const at = network.indexOf("@");
  const name = at < 0 ? network : network.slice(0, at);
  if (name.length === 0 || name.length > MAX_NAME) throw wrong;
  if (at < 0) return { full: name, name, authority: undefined };
  const authority = fromHex(network.slice(at + 1), 32, "the KEY of a network NAME@KEY");
  return { full: `${name}@${toHex(authority)}`, name, authority };
}
