import { MeshError } from "../codec/code.ts";
import { toHex } from "../codec/hex.ts";
import type { StoreFactory } from "../stores/store.ts";
import { Core } from "./core.ts";
import { parseNetwork } from "./network-name.ts";
import { secret } from "./options.ts";
import { randomBytes } from "./random.ts";
import { State } from "./state.ts";

/** Whose key is wanted. */
export interface NodeIdentity {
  readonly network: string;
  /** The node's secret seed, 64 hex digits. */
  readonly seed?: string | undefined;
  /** The store that holds the seed unless one is given, and gets one if it has none. */
  readonly storage?: StoreFactory | undefined;
}

/** Returns the public key of a node in a network, 64 hex digits. */
export async function nodeKeyOf(
  { network, seed, storage }: NodeIdentity,
  module: WebAssembly.Module,
): Promise<string> {
  const { full } = parseNetwork(network);
  const core = await Core.instantiate(module);
  const own = secret("seed", seed) ?? (await storedSeed(storage));
  const derived = core.deriveIdentity(own, full, new Uint8Array());
  return toHex(derived.knownKey.subarray(0, 32));
}

async function storedSeed(storage: StoreFactory | undefined): Promise<Uint8Array> {
  if (typeof storage !== "function")
    throw new MeshError("BadConfig", "give the node's seed, or the storage that holds it");
  const state = new State(await storage());
  try {
    return await state.open(undefined, randomBytes);
  } finally {
    await state.close();
  }
}
