import { fromUtf8, utf8 } from "../codec/field.ts";
import {
  compareKeys,
  type Entry,
  MAX_COMMIT,
  MAX_KEY,
  MAX_OPERATIONS,
  MAX_VALUE,
  type Store,
  sameBytes,
} from "./store.ts";

/** What the contract suite needs of an implementation. */
export interface StoreSubject {
  /** Opens the store over the same data each time; the suite closes it first. */
  open(): Promise<Store>;
  /** Whether the data survives `close`. */
  readonly persistent: boolean;
}

/** One test of the contract. */
export interface StoreCase {
  /** What is promised. */
  readonly name: string;
  /** Rejects when the promise is broken. `make` gives a subject without data. */
  run(make: () => Promise<StoreSubject>): Promise<void>;
}

function check(condition: boolean, what: string): asserts condition {
  if (!condition) throw new Error(`the store contract is broken: ${what}`);
}

/** How a commit of `MAX_COMMIT` bytes is made up, of keys of two bytes and values. */
const WHOLE_VALUES: number = Math.floor(MAX_COMMIT / (MAX_VALUE + 2));
const LAST_VALUE: number = MAX_COMMIT - WHOLE_VALUES * (MAX_VALUE + 2) - 2;

/** Bytes that look random and are the same each time (mulberry32). */
function noise(seed: number, length: number): Uint8Array {
  let state = seed + 1;
  return Uint8Array.from({ length }, () => {
    state = (state + 0x6d2b79f5) | 0;
    const mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    return (mixed ^ (mixed >>> 14)) & 0xff;
  });
}

const key = (text: string): Uint8Array => utf8(text);
const END = /* @__PURE__ */ Uint8Array.of(0xff);

function put(name: string, value: string): { key: Uint8Array; value: Uint8Array } {
  return { key: key(name), value: utf8(value) };
}

function show(entries: readonly Entry[]): string {
  return entries.map(([name, value]) => `${fromUtf8(name)}=${fromUtf8(value)}`).join(" ");
}

async function everything(store: Store): Promise<string> {
  return show(await store.scan(new Uint8Array(), END, 1000));
}

/** What a scan gives, whose keys are to be the same without their values. */
async function scanned(store: Store, start: Uint8Array, end: Uint8Array, limit: number): Promise<Entry[]> {
  const entries = await store.scan(start, end, limit);
  const keys = await store.keys(start, end, limit);
  check(keys.length === entries.length, "there are as many keys as entries");
  check(
    entries.every(([name], index) => compareKeys(name, keys[index] as Uint8Array) === 0),
    "they are the keys of the entries",
  );
  return entries;
}

function storeCase(name: string, body: (store: Store, subject: StoreSubject) => Promise<void>): StoreCase {
  return {
    name,
    run: async (make) => {
      const subject = await make();
      const store = await subject.open();
      await body(store, subject);
    },
  };
}

/** The tests that every store passes; run each with the test runner at hand. */
export const storeContract: readonly StoreCase[] = [
  storeCase("a value comes back and a missing one is undefined", async (store) => {
    await store.commit([put("a", "1")], false);
    const value = await store.get(key("a"));
    check(value !== undefined && sameBytes(value, utf8("1")), "get returns what was put");
    check((await store.get(key("b"))) === undefined, "a missing key is undefined");
    await store.close();
  }),
  storeCase("an empty value is a value", async (store) => {
    await store.commit([{ key: key("a"), value: new Uint8Array() }], false);
    const value = await store.get(key("a"));
    check(value !== undefined && value.length === 0, "an empty value is there");
    await store.close();
  }),
  storeCase("a put replaces, a delete removes, and deleting nothing is no error", async (store) => {
    await store.commit([put("a", "1"), put("b", "1")], false);
    await store.commit([put("a", "2"), { key: key("b"), value: null }, { key: key("c"), value: null }], true);
    check((await everything(store)) === "a=2", "the second commit applied");
    await store.close();
  }),
  storeCase("operations of one commit apply in order", async (store) => {
    await store.commit([put("a", "1"), { key: key("a"), value: null }, put("a", "2"), put("a", "3")], false);
    check((await everything(store)) === "a=3", "the last operation on a key wins");
    await store.close();
  }),
  storeCase("a scan is in order of the bytes and honours its bounds and limit", async (store) => {
    await store.commit([put("b", "3"), put("a", "1"), put("c", "4"), put("aa", "2")], false);
    check((await everything(store)) === "a=1 aa=2 b=3 c=4", "entries come in order");
    check(show(await scanned(store, key("aa"), key("c"), 10)) === "aa=2 b=3", "start is in, end is out");
    check(show(await scanned(store, key("a"), END, 2)) === "a=1 aa=2", "the limit holds");
    check((await scanned(store, key("a"), END, 0)).length === 0, "a limit of nothing gives nothing");
    check((await scanned(store, key("c"), key("a"), 10)).length === 0, "a backward range is empty");
    check((await scanned(store, key("a"), key("a"), 10)).length === 0, "an empty range is empty");
    await store.close();
  }),
  storeCase("keys are bytes, with zeros and high bits", async (store) => {
    const keys = [[0], [0, 0], [0, 1], [1], [0x7f], [0x80], [0xfe, 0xff]].map((bytes) =>
      Uint8Array.from(bytes),
    );
    await store.commit(
      keys.toReversed().map((name) => ({ key: name, value: name })),
      false,
    );
    const entries = await scanned(store, new Uint8Array(), END, 10);
    check(entries.length === keys.length, "every key is there");
    for (const [index, [name, value]] of entries.entries()) {
      check(
        compareKeys(name, keys[index] as Uint8Array) === 0 && sameBytes(name, value),
        "keys come in order",
      );
    }
    await store.close();
  }),
  storeCase("commits apply in the order in which they were asked for, and reads see them", async (store) => {
    const commits = Array.from({ length: 20 }, (_, index) =>
      store.commit([put("a", `${index}`)], index % 2 === 0),
    );
    const value = await store.get(key("a"));
    await Promise.all(commits);
    check(value !== undefined && fromUtf8(value) === "19", "a read sees every commit before it");
    check((await everything(store)) === "a=19", "the last commit won");
    await store.close();
  }),
  storeCase("what is handed over may be reused at once", async (store) => {
    const name = key("a");
    const value = utf8("1");
    const done = store.commit([{ key: name, value }], false);
    name.fill(0x7a);
    value.fill(0x7a);
    await done;
    const scanned = store.scan(name.fill(0x61), END, 10);
    name.fill(0x7a);
    check(show(await scanned) === "a=1", "the store copied key, value and bounds");
    const entries = await everything(store);
    (await store.get(key("a")))?.fill(0);
    check(entries === (await everything(store)), "what a read returned is the caller's");
    await store.close();
  }),
  storeCase("the largest key, value and commit fit", async (store) => {
    const name = new Uint8Array(MAX_KEY).fill(7);
    const value = new Uint8Array(MAX_VALUE).fill(9);
    await store.commit([{ key: name, value }], true);
    const read = await store.get(name);
    check(read !== undefined && sameBytes(read, value), "the largest value comes back");
    const many = Array.from({ length: MAX_OPERATIONS }, (_, index) =>
      put(`k${1000 + index}`, "x".repeat(900)),
    );
    await store.commit(many, false);
    const entries = await store.scan(key("k"), key("l"), 1000);
    check(entries.length === MAX_OPERATIONS, "the largest commit applied");
    await store.close();
  }),
  storeCase("a commit of as many bytes as one may have comes back, also all of it at once", async (store) => {
    const sizes = [...Array.from({ length: WHOLE_VALUES }, () => MAX_VALUE), LAST_VALUE];
    // Bytes that do not compress: a store may count them after it has tried.
    const operations = sizes.map((size, index) => ({ key: key(`v${index}`), value: noise(index, size) }));
    await store.commit(operations, true);
    const entries = await store.scan(key("v"), key("w"), sizes.length + 1);
    check(entries.length === sizes.length, "every value is there");
    for (const [index, [, value]] of entries.entries()) {
      check(sameBytes(value, noise(index, sizes[index] ?? 0)), "a scan gives whole values");
    }
    await store.close();
  }),
  storeCase("as many reads at a time as a batch may ask for are all answered", async (store) => {
    await store.commit([put("a", "1"), put("b", "2")], false);
    const names = Array.from({ length: 256 }, (_, index) => ["a", "b", "c"][index % 3] ?? "");
    const values = await Promise.all(names.map((name) => store.get(key(name))));
    const shown = values.map((value) => (value === undefined ? "-" : fromUtf8(value))).join("");
    check(shown === "12-".repeat(86).slice(0, 256), "each read gets its own answer");
    await store.close();
  }),
  storeCase("what was committed is there after opening again", async (store, subject) => {
    await store.commit([put("a", "1")], true);
    await store.commit([put("b", "2")], false);
    await store.close();
    if (!subject.persistent) return;
    const again = await subject.open();
    check((await everything(again)) === "a=1 b=2", "both commits are there");
    await again.close();
  }),
  storeCase(
    "a commit of nothing makes what was committed before durable and changes nothing",
    async (store, subject) => {
      await store.commit([], true);
      await store.commit([put("a", "1")], false);
      await store.commit([], true);
      await store.commit([], false);
      check((await everything(store)) === "a=1", "nothing else is there");
      await store.close();
      if (!subject.persistent) return;
      const again = await subject.open();
      check((await everything(again)) === "a=1", "the entry is there after opening again");
      await again.close();
    },
  ),
  storeCase("a commit beyond a limit is refused whole", async (store) => {
    await store.commit([put("a", "1")], false);
    const long = { key: new Uint8Array(MAX_KEY + 1), value: new Uint8Array() };
    const large = { key: key("c"), value: new Uint8Array(MAX_VALUE + 1) };
    const many = Array.from({ length: MAX_OPERATIONS + 1 }, (_, index) => put(`k${index}`, ""));
    const heavy = Array.from({ length: 9 }, (_, index) => put(`k${index}`, "x".repeat(MAX_VALUE)));
    for (const bad of [[put("b", "2"), long], [put("b", "2"), large], many, heavy]) {
      let failed = false;
      try {
        await store.commit(bad, false);
      } catch {
        failed = true;
      }
      check(failed, "a commit beyond a limit fails");
      check((await everything(store)) === "a=1", "none of its operations applied");
    }
    await store.close();
  }),
];
