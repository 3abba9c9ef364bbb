// Run by test/deno.test.ts under Deno: the store contract against node:sqlite and, with --unstable-kv, Deno KV.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type StoreSubject, storeContract } from "../../src/stores/contract.ts";
import { denoKv } from "../../src/stores/deno-kv.ts";
import { SqliteStore } from "../../src/stores/sqlite.ts";

const folder = mkdtempSync(join(tmpdir(), "selfsame-deno-"));
let made = 0;

const subjects: Record<string, () => Promise<StoreSubject>> = {
  sqlite: async () => {
    const file = join(folder, `${++made}.db`);
    return { persistent: true, open: async () => new SqliteStore(file) };
  },
  kv: async () => {
    const path = join(folder, `${++made}.kv`);
    return { persistent: true, open: async () => denoKv({ path })() };
  },
};

const results: { name: string; error: string }[] = [];
const make = subjects[process.argv[2] ?? ""];
if (make === undefined) throw new Error("name a store: sqlite or kv");
for (const { name, run } of storeContract) {
  const error = await run(make).then(
    () => "",
    (failure: unknown) => String(failure),
  );
  results.push({ name, error });
}
rmSync(folder, { recursive: true });
console.log(JSON.stringify(results));
