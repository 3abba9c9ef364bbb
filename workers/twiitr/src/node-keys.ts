import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { sqlite } from "selfsame";
import { nodeKey } from "selfsame/admission";

import { Child } from "./child.ts";
import type { Platform } from "./plan.ts";
import { denoStore, programOf, type Start } from "./programs.ts";

const execute = promisify(execFile);

/** Returns the public key of a node that does not run, which the authority certifies; makes its identity if there is none. */
export async function keyOf(platform: Platform, start: Start): Promise<string> {
  return KEYS[platform](start);
}

const KEYS: Record<Platform, (start: Start) => Promise<string>> = {
  wasmtime: async ({ built, plan, data }) => {
    const of = ["--network", plan.network, "--data", data];
    const { stdout } = await execute(built.selfsame, ["id", "key", ...of]);
    return stdout.trim();
  },
  deno: ({ plan, data }) => nodeKey({ network: plan.network, storage: sqlite(denoStore(data)) }),
  // Only its Durable Object reads the store of workerd.
  workerd: async (start) => {
    const program = programOf("workerd", start);
    const isReady = ({ key }: Readonly<Record<string, unknown>>): boolean => typeof key === "string";
    const child = Child.start({ ...program, args: [...program.args, "key"], isReady });
    try {
      await child.ready;
      return String(child.said("key"));
    } finally {
      await child.stop();
    }
  },
};
