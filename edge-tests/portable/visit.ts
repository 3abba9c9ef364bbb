/** What is done to a capsule in each runtime: it is fetched from another replica, read, verified and extended. */
import {
  type Capsule,
  type CapsuleOptions,
  type CapsuleRecord,
  peerAt,
  type Replica,
  replicaHandler,
} from "selfsame/capsule";

/** A visit. */
export interface Visit {
  /** The capsule. */
  readonly name: string;
  /** Where another replica of it answers. */
  readonly from: string;
  /** Secret seed of the writer here. */
  readonly seed: string;
  /** What is written here: a record of each, and one whose sub-records they are; nothing if there are none. */
  readonly texts: readonly string[];
}

/** What came of it. */
export interface Visited {
  /** Of each record that was there, what was read and verified here. */
  readonly found: Readonly<Record<string, string>>;
  /** Of each record that is there now. */
  readonly left: Readonly<Record<string, string>>;
  /** The newest records now. */
  readonly heads: readonly string[];
}

/** What visits need of a runtime. */
export interface Place {
  readonly replica: Replica;
  /** Opens a client, over a store of its own. */
  readonly open: (options: Omit<CapsuleOptions, "storage">) => Promise<Capsule>;
}

/** Records that are read at a time. */
const AT_ONCE = 64;

/** Fetches the capsule, reads and verifies all of it, and writes to it; the other replica gets what was written. */
export async function visit({ replica, open }: Place, asked: Visit): Promise<Visited> {
  const { name, from, seed, texts } = asked;
  const other = peerAt(from);
  await replica.synchronise(name, other);
  const answer = replicaHandler(replica);
  const capsule = await open({
    name,
    seed,
    servers: [{ key: replica.key, url: "https://here/" }],
    fetch: (input, init) => answer(new Request(input, init)),
  });
  try {
    const found = await readEverything(capsule);
    if (texts.length > 0) await extend(capsule, texts);
    const left = await readEverything(capsule);
    const { agreed } = await replica.synchronise(name, other);
    if (!agreed) throw new Error("the two replicas do not hold the same");
    return { found, left, heads: await headsOf(capsule) };
  } finally {
    await capsule.close();
  }
}

async function headsOf(capsule: Capsule): Promise<string[]> {
  return (await capsule.heads()).heads.map(({ name }) => name);
}

/** Goes on after what others wrote. */
async function extend(capsule: Capsule, texts: readonly string[]): Promise<void> {
  const contents = texts.map((text) => new TextEncoder().encode(text));
  const [head] = await headsOf(capsule);
  await capsule.begin(head);
  await capsule.append(contents);
  await capsule.commit(contents);
}

/** Reads all records, from the newest on back, and says of each what it holds. */
async function readEverything(capsule: Capsule): Promise<Record<string, string>> {
  const seen = new Set(await headsOf(capsule));
  const ahead = [...seen];
  const read: [string, string][] = [];
  while (ahead.length > 0) {
    for (const record of await capsule.readAll(ahead.splice(0, AT_ONCE))) {
      if (record instanceof Error) throw record;
      read.push([record.name, await tell(record)]);
      for (const name of record.backpointers.filter((name) => !seen.has(name))) {
        seen.add(name);
        ahead.push(name);
      }
    }
  }
  return Object.fromEntries(read.sort(([left], [right]) => (left < right ? -1 : 1)));
}

async function tell({ kind, writer, sequence, content, subrecords }: CapsuleRecord): Promise<string> {
  const parts = await Promise.all([content, ...subrecords].map(sha256));
  return [kind, writer, sequence, ...parts].join(" ");
}

async function sha256(bytes: Uint8Array): Promise<string> {
  const hash = new Uint8Array(await crypto.subtle.digest("SHA-256", bytes.slice()));
  return [...hash].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}
