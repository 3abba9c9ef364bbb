/** The store in a Durable Object keeps the contract that every store keeps. */
import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { storeContract } from "selfsame/store-contract";
import { durableObject } from "selfsame/workerd";
import { describe, it } from "vitest";

describe("the SQLite storage of a Durable Object", () => {
  for (const { name, run } of storeContract) {
    it(name, async () => {
      const stub = env.NODE.get(env.NODE.newUniqueId());
      await runInDurableObject(stub, async (_, { storage }) => {
        await run(async () => ({ persistent: true, open: async () => durableObject(storage)() }));
      });
    });
  }
});
