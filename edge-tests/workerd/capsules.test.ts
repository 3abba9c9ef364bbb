/** Capsules in a Durable Object: the same bytes as anywhere, durable, and found in the mesh by their names. */
import { evictDurableObject, runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { capsules, openReplica, type Replica, replicaHandler, toBase32 } from "selfsame/capsule";
import type { Mesh } from "selfsame/slim";
import { durableObject } from "selfsame/workerd";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import conversation from "../../runtime/test/capsule-conversation.json" with { type: "json" };
import { joinAsLeaf } from "./leaf.ts";
import { StubSocket } from "./socket.ts";
import { EXTENSIONS, type Node } from "./worker.ts";

const { NODE } = env;
const { seed, now_ms } = conversation;

const unhex = (text: string): Uint8Array<ArrayBuffer> =>
  Uint8Array.from(text.match(/../g) ?? [], (pair) => Number.parseInt(pair, 16));
const hex = (bytes: Uint8Array): string =>
  [...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("");
const codeOf = (response: Uint8Array): number => (response[1] ?? 0) | ((response[2] ?? 0) << 8);

function requestOf(what: string): Uint8Array<ArrayBuffer> {
  const found = conversation.exchanges.find((one) => one.what === what);
  if (found === undefined) throw new Error(`there is no ${what}`);
  return unhex(found.request);
}

const open = (storage: DurableObjectStorage): Promise<Replica> =>
  openReplica({ storage: durableObject(storage, "capsules"), seed, now: () => now_ms });

describe("a replica in a Durable Object", () => {
  it("answers like the one that is no WebAssembly, over HTTP too", async () => {
    const stub = NODE.get(NODE.newUniqueId());
    await runInDurableObject(stub, async (_, { storage }) => {
      const replica = await open(storage);
      const handler = replicaHandler(replica);
      for (const { what, request, response } of conversation.exchanges) {
        const answer = await handler(
          new Request("https://replica/", { method: "POST", body: unhex(request) }),
        );
        expect(hex(new Uint8Array(await answer.arrayBuffer())), what).toBe(response);
      }
    });
  });

  it("has what it acknowledged after its eviction", async () => {
    const stub = NODE.get(NODE.idFromName("evicted"));
    await runInDurableObject(stub, async (_, { storage }) => {
      const replica = await open(storage);
      for (const what of ["a capsule", "records and a signature"]) {
        expect(codeOf(await replica.request(requestOf(what)))).toBe(0);
      }
    });
    await evictDurableObject(stub);
    await runInDurableObject(stub, async (_, { storage }) => {
      const replica = await open(storage);
      expect(replica.capsules).toEqual([toBase32(unhex(conversation.capsule))]);
      const response = await replica.request(requestOf("reading"));
      const expected = conversation.exchanges.find(({ what }) => what === "reading")?.response;
      // The serial of the session aside, which was forgotten.
      const long = hex(response).slice(14, 200);
      expect(long).toBe(expected?.slice(14, 200));
    });
  });
});

describe("a node with capsules", () => {
  let leaf: Mesh | undefined;
  beforeEach(() => {
    vi.stubGlobal("WebSocket", StubSocket);
  });
  afterEach(async () => {
    await leaf?.close();
    vi.unstubAllGlobals();
  });

  it("is found by their names, also after its eviction", async () => {
    const name = "keeper";
    EXTENSIONS[name] = capsules({ service: "capsules", publish: { unowned: true } });
    const stub: DurableObjectStub<Node> = NODE.get(NODE.idFromName(name));
    leaf = await joinAsLeaf(name);
    const send = async (service: string, what: string): Promise<number> => {
      const init = { method: "POST", body: requestOf(what), unowned: true };
      const response = await (leaf as Mesh).fetch(`https://${service}.mesh/`, init);
      expect(response.status, `${service} ${what}`).toBe(200);
      return codeOf(new Uint8Array(await response.arrayBuffer()));
    };
    expect(await send("capsules", "a capsule")).toBe(0);
    const capsule = toBase32(unhex(conversation.capsule));
    expect(await send(capsule, "records and a signature")).toBe(0);
    await leaf.close();
    await evictDurableObject(stub);
    leaf = await joinAsLeaf(name);
    expect(await send(capsule, "reading")).toBe(0);
  });
});
