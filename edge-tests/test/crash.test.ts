/**
 * Replicas in Node and in wasmtime are killed under load, again and again: what they acknowledged is there, and what they prove is
 * what the writer wrote. `CRASHES` says how often in all, a thousand times for `npm run test:crash` and fewer in the suite of all
 * runtimes; what survives a loss of power is the business of the stores, and what becomes of a byte that turns in one of them that
 * of `damage.test.ts`.
 */
import assert from "node:assert/strict";
import { type ChildProcess, execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { CapsuleModule, capsuleModule } from "selfsame/capsule";

import { built, selfsame } from "../lib/sidecar.ts";

const CRASHES = Number(process.env.CRASHES ?? (process.env.npm_lifecycle_event === "test:crash" ? 1000 : 60));
/** Requests under way at a time. */
const CLIENTS = 8;
/** Records for one life of a replica, far more than it gets to write. */
const RECORDS_A_LIFE = 60;
const SEED = Number(process.env.SEED ?? Math.floor(Math.random() * 2 ** 31));

interface Entry {
  readonly write: Buffer;
  readonly read: Buffer;
  readonly prove: Buffer;
  readonly record: Buffer;
  readonly name: Buffer;
}

/** Codes of results: none, and that no signature leads to a record yet. */
const FINE = 0;
const UNPROVEN = 0x0808;
/** Where the metadata stands in the request that creates the capsule; its length is before it. */
const METADATA = 1 + 32 + 16 + 4 + 1 + 4;
/** Bytes of a response before its first result, and of that before what it gives. */
const HEAD = 1 + 2 + 4;
const RESULT = 2;

/** A seeded generator of numbers below 2^32 (mulberry32). */
function random(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return (mixed ^ (mixed >>> 14)) >>> 0;
  };
}

/** What is sent to the replica with this key, as `guest/capsule/examples/load.rs` prints it. */
async function load(records: number, key: string): Promise<{ create: Buffer; entries: Entry[] }> {
  const program = built("examples/load");
  const { stdout } = await promisify(execFile)(program, [`${records}`, key], { maxBuffer: 2 ** 31 - 1 });
  const [first = "", ...rest] = stdout.trim().split("\n");
  const entries = rest.map((line): Entry => {
    const [write, read, prove, record, name] = line.split(" ").map((part) => Buffer.from(part, "hex"));
    return { write, read, prove, record, name } as Entry;
  });
  return { create: Buffer.from(first, "hex"), entries };
}

/** A replica whose process can be killed. */
interface Host {
  readonly name: string;
  /** How often it is killed. */
  readonly crashes: number;
  /** Starts it over what is in a folder; its first line says where it answers, and its key. */
  readonly start: (folder: string) => ChildProcess;
}

const node: Host = {
  name: "Node",
  crashes: Math.ceil(CRASHES / 2),
  start: (folder) => {
    const program = fileURLToPath(new URL("../crash/replica.ts", import.meta.url));
    return spawn(process.execPath, [program, join(folder, "capsules.db")], {
      stdio: ["ignore", "pipe", "inherit"],
    });
  },
};

const wasmtime: Host = {
  name: "wasmtime",
  crashes: Math.floor(CRASHES / 2),
  start: (folder) => {
    const serve = ["--json", "capsule", "serve", "--listen", "127.0.0.1:0", "--data", folder];
    return spawn(selfsame(), serve, { stdio: ["ignore", "pipe", "inherit"] });
  },
};

interface Running {
  readonly child: ChildProcess;
  /** Its public key, in hex. */
  readonly key: string;
  /** Resolves with nothing when the replica is gone. */
  post(body: Buffer): Promise<Buffer | undefined>;
}

async function start(host: Host, folder: string): Promise<Running> {
  const child = host.start(folder);
  const lines = createInterface({ input: child.stdout as NodeJS.ReadableStream });
  const [line] = (await once(lines, "line")) as [string];
  const { url, key } = JSON.parse(line) as { url: string; key: string };
  const post = async (body: Buffer): Promise<Buffer | undefined> => {
    try {
      const response = await fetch(url, {
        method: "POST",
        body: Uint8Array.from(body),
      });
      return Buffer.from(await response.arrayBuffer());
    } catch {
      return undefined;
    }
  };
  return { child, key, post };
}

async function kill({ child }: Running): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  child.kill("SIGKILL");
  await once(child, "exit");
}

/** The code of a response, or of its first result. */
const codeOf = (response: Buffer): number => response.readUInt16LE(1) || response.readUInt16LE(HEAD);

/** Bytes of an acknowledgement before the hashes on the way to what is signed; the last says how many there are. */
const ACKNOWLEDGED = 1 + 8 + 32 + 64 + 1 + 1;

/** Whether a response acknowledges: nothing was refused of an introduction, a record and its signature, if it has one, and the server has signed. */
const isAcknowledged = (response: Buffer): boolean =>
  codeOf(response) === FINE &&
  response.readUInt16LE(HEAD + RESULT) === FINE &&
  [2, 3].some((operations) => {
    const begin = HEAD + operations * RESULT;
    const hashes = begin + ACKNOWLEDGED;
    return response[begin] === 1 && response.length === hashes + 32 * (response[hashes - 1] ?? 0);
  });

for (const host of [node, wasmtime]) {
  test(
    `what a replica in ${host.name} acknowledged survives ${host.crashes} kills, seed ${SEED}`,
    {
      timeout: 3_600_000,
    },
    () => crash(host),
  );
}

async function crash(host: Host): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), "selfsame-crash-"));
  let replica = await start(host, folder);
  const { create, entries } = await load(host.crashes * RECORDS_A_LIFE, replica.key);
  await kill(replica);
  const metadata = create.subarray(METADATA, METADATA + create.readUInt32LE(METADATA - 4));
  const module = await CapsuleModule.instantiate(await capsuleModule());
  const next = random(SEED);
  const acknowledged: Entry[] = [];
  let [written, proven, lost] = [0, 0, 0];

  /** Reads and proves what was acknowledged; the newest always, of the rest some. */
  const check = async (replica: Running): Promise<void> => {
    const newest = acknowledged.slice(-2 * RECORDS_A_LIFE);
    const some = Array.from({ length: 20 }, () => acknowledged[next() % acknowledged.length]);
    for (const entry of [...newest, ...some]) {
      if (entry === undefined) continue;
      const read = await replica.post(entry.read);
      assert.ok(read !== undefined && codeOf(read) === FINE, `record ${entries.indexOf(entry)} is lost`);
      assert.ok(read.subarray(HEAD + RESULT, -1).equals(entry.record), "a record is what was written");
      const proof = await replica.post(entry.prove);
      assert.ok(proof !== undefined);
      if (codeOf(proof) === UNPROVEN) continue;
      assert.equal(codeOf(proof), FINE);
      module.verifyRecord(metadata, entry.name, entry.record, proof.subarray(HEAD + RESULT + 4, -1));
      proven++;
    }
  };

  try {
    for (let life = 0; life < host.crashes; life++) {
      replica = await start(host, folder);
      const created = await replica.post(create);
      assert.ok(created !== undefined && codeOf(created) === FINE);
      await check(replica);
      const until = next() % RECORDS_A_LIFE;
      let done = 0;
      const client = async (): Promise<void> => {
        for (;;) {
          const entry = entries[written++];
          const response = entry && (await replica.post(entry.write));
          if (entry === undefined || response === undefined) return;
          assert.ok(isAcknowledged(response), `it is refused with ${codeOf(response)}`);
          acknowledged.push(entry);
          if (++done === until) replica.child.kill("SIGKILL");
        }
      };
      const clients = Array.from({ length: CLIENTS }, client);
      if (until === 0) replica.child.kill("SIGKILL");
      await Promise.all(clients);
      await kill(replica);
      lost += CLIENTS;
    }
    replica = await start(host, folder);
    await check(replica);
    assert.ok(proven > 0 && acknowledged.length > 0);
    console.log(
      `${acknowledged.length} records acknowledged, ${proven} proofs verified, up to ${lost} requests cut off`,
    );
  } finally {
    await kill(replica);
    await rm(folder, { recursive: true });
  }
}
