import { codeNumber, MeshError } from "../codec/code.ts";
import type { Input } from "../codec/input.ts";
import type { Output } from "../codec/output.ts";
import type { Confirm } from "./admission.ts";
import type { Logger } from "./log.ts";

/** Looks a newcomer up as the core asks, and returns what to tell it. */
export async function lookUp(
  { peer, key, remote }: Extract<Output, { type: "LookUp" }>,
  confirm: Confirm,
  logger: Logger,
): Promise<Input> {
  try {
    await confirm({ id: peer, key, source: remote });
    return { type: "LookedUp", peer, code: 0 };
  } catch (error) {
    if (error instanceof MeshError && error.code !== 0) return { type: "LookedUp", peer, code: error.code };
    logger.log("warn", `a newcomer is not looked up: ${error instanceof Error ? error.message : error}`);
    return { type: "LookedUp", peer, code: codeNumber("DnsNoAnswer") };
  }
}
