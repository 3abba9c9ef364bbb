/** The capsule to which the writers of a soak test append, and what its replicas hold in the end. */
import { createHash } from "node:crypto";
import { setTimeout as delay } from "node:timers/promises";
import { CapsuleModule, capsuleModule, exportCapsule, openCapsule, toBase32 } from "selfsame/capsule";
import { join, memory, type NodeMesh } from "selfsame/node";

import { seedOf } from "../lib/replicas.ts";
import type { Participant } from "./participant.ts";
import type { WriterSettings } from "./settings.ts";

/** How long replicas may take until they hold the same. */
const CONVERGE_MS = 120_000;
const LOOK_MS = 2_000;

/** A capsule with writers. */
export interface SoakCapsule {
  readonly name: string;
  readonly metadata: Uint8Array;
}

/** What a replica gave in the end. */
export interface Exported {
  readonly replica: string;
  readonly bytes: Buffer;
  readonly hash: string;
}

const seedOfWriter = (writer: string): string => seedOf(`writer ${writer}`);
const OWNER: string = seedOf("owner");

/** A capsule's module, which many use. */
const tools: Promise<CapsuleModule> = capsuleModule().then((module) => CapsuleModule.instantiate(module));

async function publicKey(seed: string): Promise<string> {
  return Buffer.from((await tools).deriveKey(Buffer.from(seed, "hex"))).toString("hex");
}

/** Signs the metadata of the capsule. */
export async function designCapsule(writers: readonly string[]): Promise<SoakCapsule> {
  const module = await tools;
  const keys = await Promise.all(writers.map((writer) => publicKey(seedOfWriter(writer))));
  const metadata = module.signMetadata({ seed: OWNER, description: "soak", writers: keys });
  return { name: toBase32(module.verifyMetadata(metadata).name), metadata };
}

/** Records of one append while a capsule is filled. */
const FILLED_AT_ONCE = 500;

/** Creates the capsule at a replica over HTTP, from where the others fetch it, and fills it with so many records. */
export async function createAt(
  { metadata }: SoakCapsule,
  { replicaKey: key = "" }: Participant,
  url: string,
  records: number,
): Promise<void> {
  const servers = [{ key, url }];
  const capsule = await openCapsule({ metadata, seed: OWNER, servers, storage: memory() });
  await capsule.create();
  for (let first = 0; first < records; first += FILLED_AT_ONCE) {
    const length = Math.min(FILLED_AT_ONCE, records - first);
    await capsule.append(Array.from({ length }, (_, at) => Buffer.from(`filler ${first + at}`)));
  }
  await capsule.close();
}

/** What a writer is told to open the capsule with. */
export async function writerSettings(
  { name, metadata }: SoakCapsule,
  writer: string,
  replicas: readonly Participant[],
  warmed: number,
): Promise<WriterSettings> {
  const places = replicas.map(async ({ replicaKey, seed, id: peer }) => ({
    key: replicaKey ?? (await publicKey(seed)),
    peer,
  }));
  return {
    metadata: Buffer.from(metadata).toString("hex"),
    seed: seedOfWriter(writer),
    capsule: name,
    replicas: await Promise.all(places),
    warmed,
  };
}

/** Exports the capsule from each replica, again and again until all give the same bytes or it takes too long. */
export async function exportAll(
  { name }: SoakCapsule,
  network: string,
  bootstrap: readonly string[],
  replicas: readonly Participant[],
  note: (line: string) => void,
): Promise<Exported[]> {
  const mesh = await join({ network, bootstrap, storage: memory(), allowPrivate: true });
  const deadline = performance.now() + CONVERGE_MS;
  try {
    for (;;) {
      // A peer is dialled by its id where it is known to serve the name.
      await mesh.find(name, { unowned: true });
      const asked = await Promise.allSettled(replicas.map((replica) => exportOf(mesh, name, replica)));
      const exports = asked.flatMap((answer) => (answer.status === "fulfilled" ? [answer.value] : []));
      const isSame =
        exports.length === replicas.length && new Set(exports.map(({ hash }) => hash)).size === 1;
      if (isSame || performance.now() > deadline) return exports;
      for (const answer of asked)
        if (answer.status === "rejected") note(`an export failed: ${answer.reason}`);
      await Promise.allSettled(
        replicas.map((replica) => (replica.hasDesk ? replica.tell("round") : undefined)),
      );
      await delay(LOOK_MS);
    }
  } finally {
    await mesh.close();
  }
}

async function exportOf(mesh: NodeMesh, name: string, { name: replica, id }: Participant): Promise<Exported> {
  const ask = async (body: Uint8Array<ArrayBuffer>, signal: AbortSignal): Promise<Uint8Array> => {
    const init = { method: "POST", body, unowned: true, peer: id, signal };
    const response = await mesh.fetch(`https://${name}.mesh/`, init);
    if (response.status !== 200) throw new Error(`${replica} answers ${response.status}`);
    return new Uint8Array(await response.arrayBuffer());
  };
  const pieces: Uint8Array[] = [];
  for await (const piece of exportCapsule(await tools, name, ask)) pieces.push(piece);
  const bytes = Buffer.concat(pieces);
  return { replica, bytes, hash: createHash("sha256").update(bytes).digest("hex").slice(0, 16) };
}
