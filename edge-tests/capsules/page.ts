// A replica in a page, with IndexedDB; whoever opened the page calls `converse` with the requests, in hex.
import { indexedDb } from "selfsame/browser";
import { openReplica, replicaHandler } from "selfsame/capsule";

const unhex = (text: string): Uint8Array<ArrayBuffer> =>
  Uint8Array.from(text.match(/../g) ?? [], (pair) => Number.parseInt(pair, 16));
const hex = (bytes: Uint8Array): string =>
  [...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("");

/** The responses to requests, and what the replica holds when it is opened again. */
async function converse(
  seed: string,
  now_ms: number,
  requests: readonly string[],
): Promise<{ responses: string[]; capsules: readonly string[] }> {
  const storage = indexedDb("capsules");
  const replica = await openReplica({ storage, seed, now: () => now_ms });
  const handler = replicaHandler(replica);
  const responses: string[] = [];
  for (const request of requests) {
    const response = await handler(new Request("https://replica/", { method: "POST", body: unhex(request) }));
    responses.push(hex(new Uint8Array(await response.arrayBuffer())));
  }
  await replica.close();
  const again = await openReplica({ storage, seed, now: () => now_ms });
  const { capsules } = again;
  await again.close();
  return { responses, capsules };
}

Object.assign(globalThis, { converse });
