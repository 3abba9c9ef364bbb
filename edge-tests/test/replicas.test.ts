/**
 * One capsule, five replicas that find each other on the ring by its name: the wasmtime host (sorted runs), Node (SQLite), Deno
 * (Deno KV), a Durable Object in workerd (SQLite) and a page in Chromium (IndexedDB). Whatever is written where, and whoever
 * was away, they come to hold the same.
 */
import assert from "node:assert/strict";
import { mkdirSync, rmSync } from "node:fs";
import { join as joinPath } from "node:path";
import { after, before, describe, it } from "node:test";
import type { Browser } from "playwright-core";
import { type Capsule, CapsuleModule, capsuleModule, openCapsule, toBase32 } from "selfsame/capsule";
import { join, memory, type NodeMesh } from "selfsame/node";
import { freePort } from "selfsame-twiitr/ports";

import { HOW_TO_GET_A_BROWSER, launchChromium } from "../lib/chromium.ts";
import { DATA, within } from "../lib/cluster.ts";
import {
  fingerprintOf,
  type Running,
  type Surroundings,
  startHost,
  startMember,
  startPage,
  startWorker,
} from "../lib/replicas.ts";

const NETWORK = "replicas";
const OWNER = "11".repeat(32);
const GUEST = "22".repeat(32);
/** How long the five may take until they hold the same, on a machine that does much else. */
const PATIENCE_MS = 30_000;
/** In so many rounds each of five has all but surely compared with each other one. */
const MAX_ROUNDS = 30;
/** One record that every store keeps in pieces, with the last of them full, beside short ones: a piece has a checksum. */
const LONG: number = 3 * (60 * 1024 - 8);

const browser: Browser | undefined = await launchChromium();
const folder = joinPath(DATA, "replicas");
const module = await CapsuleModule.instantiate(await capsuleModule());
const keyOf = (seed: string): string =>
  Buffer.from(module.deriveKey(Buffer.from(seed, "hex"))).toString("hex");
const metadata = module.signMetadata({ seed: OWNER, description: "five", writers: [keyOf(GUEST)] });
const name = toBase32(module.verifyMetadata(metadata).name);
const bytes = (text: string): Uint8Array => new TextEncoder().encode(text);

let mesh: NodeMesh;
let where: Surroundings;
const replicas = new Map<string, Running>();
const capsules: Capsule[] = [];

const at = (runtime: string): Running => replicas.get(runtime) ?? assert.fail(`there is no ${runtime}`);
const runtimes = (): string[] => [...replicas.keys()];

/** What requests to `https://PEER/` become: requests to one replica alone, over the mesh. */
const overMesh: typeof fetch = (input, init) => {
  const { hostname } = new URL(String(input));
  const at = hostname.replaceAll(".", "");
  return mesh.fetch(`https://${name}.mesh/`, { ...init, unowned: true, peer: at, retries: 0 } as RequestInit);
};
/** A peer id is longer than a label of a host name. */
const urlOf = ({ id }: Running): string => `https://${id.slice(0, 32)}.${id.slice(32)}/`;

/** A client of some of the replicas. */
async function clientOf(seed: string, ...those: string[]): Promise<Capsule> {
  const servers = those.map((runtime) => ({ key: at(runtime).key, url: urlOf(at(runtime)) }));
  const capsule = await openCapsule({ metadata, seed, servers, storage: memory(), fetch: overMesh });
  capsules.push(capsule);
  return capsule;
}

/** The fingerprint of all that a replica holds. */
function fingerprintAt(runtime: string): Promise<string> {
  const url = urlOf(at(runtime));
  return fingerprintOf(name, (body) => overMesh(url, { method: "POST", body }));
}

/** Waits until all hold the same. */
async function converged(): Promise<void> {
  await within(PATIENCE_MS, async () => {
    const prints = await Promise.all(runtimes().map(fingerprintAt));
    assert.equal(new Set(prints).size, 1, prints.join("\n"));
  });
}

/** Reads a record at one replica alone, proven. */
async function readAt(runtime: string, record: string): Promise<Uint8Array> {
  const reader = await clientOf(GUEST, runtime);
  return (await reader.read(record)).content;
}

before(async () => {
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  const port = await freePort(8780);
  const address = `ws://127.0.0.1:${port}/.mesh`;
  mesh = await join({
    network: NETWORK,
    address,
    listen: { port, hostname: "127.0.0.1" },
    storage: memory(),
    allowPrivate: true,
  });
  where = { network: NETWORK, bootstrap: `${address}#${mesh.id}`, folder, keep: [name] };
  replicas.set("wasmtime", await startHost(where));
  // The capsule comes to one of them from outside; the others have its name and nothing else.
  const { url = "", key } = at("wasmtime");
  const first = await openCapsule({ metadata, seed: OWNER, servers: [{ key, url }], storage: memory() });
  await first.create();
  await first.append([
    ...Array.from({ length: 200 }, (_, index) => bytes(`record ${index}`)),
    new Uint8Array(LONG),
  ]);
  await first.close();
  replicas.set("node", await startMember("node", where));
  replicas.set("deno", await startMember("deno", where));
  replicas.set("workerd", await startWorker(where));
  if (browser !== undefined) replicas.set("page", await startPage(browser, where));
});

after(async () => {
  for (const capsule of capsules) await capsule.close();
  for (const replica of replicas.values()) await replica.stop();
  await browser?.close();
  await mesh?.close();
});

describe("replicas in five runtimes", () => {
  it("are as many as there are runtimes here", (context) => {
    if (browser === undefined) context.skip(HOW_TO_GET_A_BROWSER);
    else assert.equal(replicas.size, 5);
  });

  it("find the capsule by its name and hold all of it, each with what proves it", async () => {
    await converged();
    const heads = await (await clientOf(GUEST, "wasmtime")).heads();
    const [last] = heads.heads;
    assert.equal(last?.bodyLength, LONG);
    for (const runtime of runtimes()) {
      assert.deepEqual(await readAt(runtime, last?.name ?? ""), new Uint8Array(LONG), runtime);
    }
  });

  it("push what one of them is sent to all others at once", async () => {
    // Each learns of those that came after it.
    for (const replica of replicas.values()) await replica.round();
    for (const runtime of ["node", "deno", "workerd", "page"].filter((one) => replicas.has(one))) {
      const writer = await clientOf(OWNER, runtime);
      const [record = ""] = await writer.append([bytes(`from ${runtime}`)]);
      for (const other of runtimes()) {
        await within(PATIENCE_MS, async () =>
          assert.deepEqual(await readAt(other, record), bytes(`from ${runtime}`), `${runtime} to ${other}`),
        );
      }
    }
    await converged();
  });

  it("hold the same again after three of them were away while two writers wrote at others", async () => {
    await at("deno").kill();
    await at("wasmtime").kill();
    const before = await fingerprintAt("node");
    const [owner, guest] = [await clientOf(OWNER, "node"), await clientOf(GUEST, "workerd")];
    await owner.append(Array.from({ length: 20 }, (_, index) => bytes(`owner ${index}`)));
    await guest.append(Array.from({ length: 20 }, (_, index) => bytes(`guest ${index}`)));
    await at("workerd").kill();
    replicas.set("wasmtime", await startHost(where));
    replicas.set("deno", await startMember("deno", where));
    // In a round each compares with one other by chance, and the host with none.
    let prints: string[] = [];
    for (let round = 0; round < MAX_ROUNDS && new Set(prints).size !== 1; round++) {
      for (const replica of replicas.values()) await replica.round();
      prints = await Promise.all(runtimes().map(fingerprintAt));
    }
    assert.deepEqual(new Set(prints).size, 1, prints.join("\n"));
    assert.notEqual(prints[0], before);
    const { heads } = await (await clientOf(GUEST, "deno")).heads();
    assert.equal(heads.length, 2, "a head of each writer");
  });
});
