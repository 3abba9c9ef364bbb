// A replica and its clients in one process, through the package `selfsame` as applications import it: tasks as lines, see `task`.
import { randomBytes } from "node:crypto";
import { mkdtemp, rm } from "node:fs/promises";
import type { AddressInfo } from "node:net";
import path from "node:path";
import process from "node:process";

import {
  type Capsule,
  type CapsuleMap,
  CapsuleModule,
  type CapsuleOptions,
  capsuleModule,
  openCapsule,
  openMap,
  openReplica,
  replicaHandler,
} from "selfsame/capsule";
import { memory, serve, sqlite } from "selfsame/node";

import { closedLoop } from "./closed-loop.ts";
import { type Answering, serveLines } from "./lines.ts";

/** Records of one `append` of the tasks in hundreds. */
const BATCH = 100;
const VALUE_BYTES = 16;
/** Records among which the reads are scattered, and keys of a map. */
const RECORDS = 10_000;
const KEYS = 2_000;

/** Where a capsule is: how it and its client are stored, and whether the client reaches it over HTTP. */
interface Place {
  readonly storage: string;
  readonly isHttp: boolean;
}

const folder = await mkdtemp(path.join(process.argv[2] ?? "", "capsule-"));
const opened: { close(): unknown }[] = [];
const module = await CapsuleModule.instantiate(await capsuleModule());
let stores = 0;

function newStorage(kind: string): CapsuleOptions["storage"] {
  if (kind === "memory") return memory();
  if (kind !== "sqlite") throw new Error(`no storage ${kind}`);
  stores += 1;
  return sqlite(path.join(folder, `${stores}.db`));
}

/** Opens a replica, and returns how its clients reach it. */
async function openServers({ storage, isHttp }: Place): Promise<CapsuleOptions["servers"]> {
  const replica = await openReplica({ storage: newStorage(storage) });
  opened.push(replica);
  if (!isHttp) return [replica];
  const server = await serve({ fetch: replicaHandler(replica), hostname: "127.0.0.1" });
  opened.push({ close: () => server.closeAllConnections() }, server);
  const { port } = server.address() as AddressInfo;
  return [{ key: replica.key, url: `http://127.0.0.1:${port}/` }];
}

/** Plans a new capsule of a new replica; each client that opens it as its owner needs options of its own. */
async function plan(place: Place): Promise<() => CapsuleOptions> {
  const seed = randomBytes(32).toString("hex");
  const metadata = module.signMetadata({ seed, sealed: true });
  const servers = await openServers(place);
  return () => ({ servers, metadata, seed, storage: newStorage(place.storage) });
}

async function newCapsule(options: CapsuleOptions): Promise<Capsule> {
  const capsule = await openCapsule(options);
  opened.push(capsule);
  await capsule.create();
  return capsule;
}

async function filledMap(options: CapsuleOptions): Promise<CapsuleMap> {
  const map = await openMap(options);
  opened.push(map);
  await map.create();
  for (let first = 0; first < KEYS; first += BATCH) {
    const batch = Array.from({ length: BATCH }, (_, at) => ({
      key: keyOf(first + at),
      value: content(first + at),
    }));
    await map.batch(batch);
  }
  return map;
}

function content(index: number): Uint8Array {
  return Buffer.from(`${index}`.padStart(VALUE_BYTES, "0"));
}

function keyOf(index: number): string {
  return `key-${index}`;
}

/** Indexes in an order that has nothing to do with the one of writing. */
function scattered(index: number, count: number): number {
  return (index * 7919) % count;
}

/** Appends records in hundreds, each hundred signed, and returns their names. */
async function append(capsule: Capsule, records: number): Promise<string[]> {
  const names: string[] = [];
  for (let first = 0; first < records; first += BATCH) {
    const length = Math.min(BATCH, records - first);
    names.push(...(await capsule.append(Array.from({ length }, (_, at) => content(first + at)))));
  }
  return names;
}

function oneByOne(work: (index: number) => Promise<void>): Answering {
  return async (count) => JSON.stringify(await closedLoop(1, count, work));
}

/** Reads records, in each turn with a client that has verified nothing yet. */
async function readTask(options: () => CapsuleOptions): Promise<Answering> {
  const names = await append(await newCapsule(options()), RECORDS);
  return async (count) => {
    const reader = await openCapsule(options());
    const read = oneByOne(async (index) => {
      const record = await reader.read(names[scattered(index, RECORDS)] ?? "");
      if (record.content.length !== VALUE_BYTES) throw new Error(`${record.name} is another record`);
    });
    const result = await read(count);
    await reader.close();
    return result;
  };
}

/**
 * `KIND/STORAGE` or `KIND/STORAGE/http`: `append` and `appends` add records one by one and in hundreds, `fill` adds them in hundreds to a
 * new capsule each time, `read` reads them, `get` and `set` read and write keys of a map. Everything that is written is signed at once.
 */
async function task(name: string): Promise<Answering> {
  const [kind, storage = "", way] = name.split("/");
  const options = await plan({ storage, isHttp: way === "http" });
  if (kind === "append") {
    const capsule = await newCapsule(options());
    return oneByOne(async (index) => void (await capsule.append([content(index)])));
  }
  if (kind === "appends") {
    const capsule = await newCapsule(options());
    return async (count) => void (await append(capsule, count));
  }
  if (kind === "fill") {
    return async (count) => {
      const fresh = await plan({ storage, isHttp: way === "http" });
      return void (await append(await newCapsule(fresh()), count));
    };
  }
  if (kind === "read") return readTask(options);
  if (kind !== "get" && kind !== "set") throw new Error(`no task ${name}`);
  const map = await filledMap(options());
  if (kind === "set") return oneByOne((index) => map.set(keyOf(scattered(index, KEYS)), content(index)));
  return oneByOne(async (index) => {
    const key = keyOf(scattered(index, KEYS));
    if ((await map.get(key))?.length !== VALUE_BYTES) throw new Error(`${key} has another value`);
  });
}

try {
  await serveLines(task);
} finally {
  for (const one of opened.reverse()) await one.close();
  await rm(folder, { recursive: true, force: true });
}
