// The store contract in a page, against the browser's own IndexedDB; whoever opened the page calls `keepsContract`.
import { indexedDb } from "selfsame/browser";
import { storeContract } from "selfsame/store-contract";

/** What came of each test of the contract: nothing, or why it failed. */
async function keepsContract(): Promise<{ name: string; error: string }[]> {
  const results: { name: string; error: string }[] = [];
  for (const [index, { name, run }] of storeContract.entries()) {
    const open = indexedDb(`contract ${index}`);
    const error = await run(async () => ({ persistent: true, open: async () => open() })).then(
      () => "",
      (failure: unknown) => String(failure),
    );
    results.push({ name, error });
  }
  return results;
}

Object.assign(globalThis, { keepsContract });
document.title = "ready";
