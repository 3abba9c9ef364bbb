// Run by stores.test.ts as a process that is killed: commits one number after another under two keys, and says which
// commits were answered.
import { SqliteStore } from "../src/stores/sqlite.ts";

const store = new SqliteStore(process.argv[2] ?? "");
for (let number = 1; ; number++) {
  const value = new Uint8Array(4);
  new DataView(value.buffer).setUint32(0, number);
  store.commit(
    [
      { key: Uint8Array.of(1), value },
      { key: Uint8Array.of(2), value },
    ],
    true,
  );
  process.stdout.write(`${number}\n`);
}
