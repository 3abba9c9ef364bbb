// Run by test/deno.test.ts under Deno: the conversation that every replica has, with node:sqlite or Deno KV as its store.
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { toHex } from "../../src/codec/hex.ts";
import { openReplica, type Replica, replicaHandler } from "../../src/entries/capsule-deno.ts";
import { denoKv } from "../../src/stores/deno-kv.ts";
import { sqlite } from "../../src/stores/sqlite.ts";

const file = new URL("../capsule-conversation.json", import.meta.url);
const { seed, now_ms, exchanges } = JSON.parse(readFileSync(file, "utf8")) as {
  seed: string;
  now_ms: number;
  exchanges: { what: string; request: string; response: string }[];
};
const unhex = (text: string): Uint8Array<ArrayBuffer> =>
  Uint8Array.from(text.match(/../g) ?? [], (pair) => Number.parseInt(pair, 16));

const folder = mkdtempSync(join(tmpdir(), "selfsame-deno-"));
const path = join(folder, "capsules");
const open = (): Promise<Replica> => {
  const storage = process.argv[2] === "kv" ? denoKv({ path: `${path}.kv` }) : sqlite(`${path}.db`);
  return openReplica({ storage, seed, now: () => now_ms });
};

async function post(replica: Replica, request: string): Promise<string> {
  const handler = replicaHandler(replica);
  const response = await handler(new Request("https://replica/", { method: "POST", body: unhex(request) }));
  return toHex(new Uint8Array(await response.arrayBuffer()));
}

const replica = await open();
const differing: string[] = [];
for (const { what, request, response } of exchanges) {
  if ((await post(replica, request)) !== response) differing.push(what);
}
const { capsules } = replica;
await replica.close();
const again = await open();
const kept = again.capsules.length === 2 && again.capsules.every((name) => capsules.includes(name));
await again.close();
rmSync(folder, { recursive: true });
console.log(JSON.stringify({ differing, kept }));
