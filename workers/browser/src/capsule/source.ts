import { Capsule, type CapsuleMesh, History, type ProofInfo } from "selfsame/capsule";
import { indexedDb, MeshError, memory, type Provider } from "selfsame/slim";

import { type Graph, writersOf } from "./model.ts";
import { loadTools } from "./module.ts";

/** Records that are read when the page begins, and each time when somebody scrolls to the end. */
const PAGE_RECORDS = 60;
/** Replicas that are asked one by one; whoever publishes the capsule's name is one. */
const MAX_REPLICAS = 8;
/** For how long one replica alone is waited for. */
const ALONE = { attempt_ms: 3000, deadline_ms: 4000 };

/** What one replica says of a record, verified in this page. */
export type Answer = {
  /** Peer id, 64 hexadecimal digits. */
  peer: string;
  /** Where it runs, such as `deno`. */
  label: string;
  outcome: "verified" | "refused" | "missing" | "silent";
  /** Why it was refused or did not answer. */
  why: string;
};

/** A proof that was verified, and the file that it was verified from. */
export type Proof = { info: ProofInfo; file: Uint8Array };

type Opened = { capsule: Capsule; providers: string; about: Pick<Graph, "description" | "writers"> };

/** A capsule as this page reads it from its replicas in the mesh: all that it gives was verified here. */
export class CapsuleSource {
  readonly #mesh: CapsuleMesh;
  readonly #name: string;
  readonly #seed: string | undefined;
  /** Clients of one replica each, by its peer id. */
  readonly #alone: Map<string, Promise<Capsule>> = new Map();
  /** It outlives a client: when other replicas come, another client goes on. */
  readonly #history: History;
  #opening: Promise<Opened> | undefined;

  /** `seed` is the secret of a reader, if this page is one: then it opens what records hold. */
  constructor(mesh: CapsuleMesh, name: string, seed: string | undefined) {
    this.#mesh = mesh;
    this.#name = name;
    this.#seed = seed;
    this.#history = new History({
      heads: async () => (await this.#open()).capsule.heads(),
      readAll: async (names) => (await this.#open()).capsule.readAll(names),
      header: async (record) => (await this.#open()).capsule.header(record),
    });
  }

  /** Reads what is new. */
  async look(): Promise<Graph> {
    await this.#reopen();
    const { about } = await this.#open();
    const history = this.#history;
    const isFirst = history.records.length === 0;
    await history.refresh();
    if (isFirst) await history.more(PAGE_RECORDS);
    const { records, heads, isWhole } = history;
    return { capsule: this.#name, ...about, records, heads, isWhole };
  }

  /** Reads further back; `look` shows it. */
  async more(): Promise<void> {
    await this.#history.more(PAGE_RECORDS);
  }

  /** Proves a record with a file that begins with a signature, and verifies that file here. */
  async prove(name: string): Promise<Proof> {
    const { capsule } = await this.#open();
    const file = await capsule.prove(name);
    return { info: (await loadTools()).tools.verifyProof(file), file };
  }

  /** Asks each replica by itself for a record, and verifies what it answers. */
  async ask(name: string): Promise<Answer[]> {
    const providers = await this.#find();
    const peers = new Set(providers.map(({ peer }) => peer));
    for (const [peer, alone] of this.#alone) {
      if (peers.has(peer)) continue;
      this.#alone.delete(peer);
      alone.then((capsule) => capsule.close()).catch(console.error);
    }
    return Promise.all(providers.map((provider) => this.#askOne(provider, name)));
  }

  /** Ends it. */
  async close(): Promise<void> {
    const opened = await this.#opening?.catch(() => undefined);
    const alone = await Promise.allSettled(this.#alone.values());
    const all = [
      opened?.capsule,
      ...alone.map((one) => (one.status === "fulfilled" ? one.value : undefined)),
    ];
    await Promise.all(all.map((capsule) => capsule?.close()));
  }

  async #askOne({ peer, node }: Provider, name: string): Promise<Answer> {
    const answer = { peer, label: node?.domain ?? "", why: "" };
    try {
      const alone = this.#alone.get(peer) ?? this.#openAlone(peer);
      this.#alone.set(peer, alone);
      await (await alone).read(name);
      return { ...answer, outcome: "verified" };
    } catch (error) {
      return { ...answer, ...outcomeOf(error) };
    }
  }

  #openAlone(peer: string): Promise<Capsule> {
    const mesh: CapsuleMesh = {
      find: async () => (await this.#find()).filter((provider) => provider.peer === peer),
      fetch: (input, init) => this.#mesh.fetch(input, init),
    };
    const opening = this.#openWith({ mesh, storage: memory(), timing: ALONE });
    // Who was not understood is asked anew the next time.
    opening.catch(() => this.#alone.delete(peer));
    return opening;
  }

  /** Ends the client when other replicas have come: a quorum is of those that there are. */
  async #reopen(): Promise<void> {
    const opened = await this.#opening?.catch(() => undefined);
    if (opened === undefined || opened.providers === peersOf(await this.#find())) return;
    this.#opening = undefined;
    await opened.capsule.close();
  }

  #open(): Promise<Opened> {
    this.#opening ??= this.#begin().catch((error: unknown) => {
      this.#opening = undefined;
      throw error;
    });
    return this.#opening;
  }

  async #begin(): Promise<Opened> {
    const providers = peersOf(await this.#find());
    const database = `selfsame-capsule-${this.#name}${this.#seed === undefined ? "" : "-reader"}`;
    const capsule = await this.#openWith({ mesh: this.#mesh, storage: indexedDb(database) });
    try {
      const { metadata, writers } = await capsule.describe();
      const { description } = (await loadTools()).tools.verifyMetadata(metadata);
      return { capsule, providers, about: { description, writers: writersOf(description, writers) } };
    } catch (error) {
      await capsule.close();
      throw error;
    }
  }

  async #openWith(
    options: Pick<Parameters<typeof Capsule.open>[0], "mesh" | "storage" | "timing">,
  ): Promise<Capsule> {
    const { module } = await loadTools();
    return Capsule.open({ name: this.#name, seed: this.#seed, ...options }, module);
  }

  async #find(): Promise<Provider[]> {
    const providers = await this.#mesh.find(this.#name, { unowned: true });
    return providers.toSorted((a, b) => (a.peer < b.peer ? -1 : 1)).slice(0, MAX_REPLICAS);
  }
}

function peersOf(providers: readonly Provider[]): string {
  return providers.map(({ peer }) => peer).join(" ");
}

/** What an error says of the replica that was asked. */
function outcomeOf(error: unknown): Pick<Answer, "outcome" | "why"> {
  const why = error instanceof Error ? error.message : String(error);
  if (!(error instanceof MeshError)) return { outcome: "silent", why };
  // What it gave is true, and sealed for others.
  if (error.name === "NotAReader") return { outcome: "verified", why: "" };
  if (MISSING.has(error.name)) return { outcome: "missing", why: "" };
  const isFalse = error.class === "Malformed" || error.class === "Misbehaved";
  return { outcome: isFalse ? "refused" : "silent", why };
}

/** Errors that say that a replica does not have what was asked for. */
const MISSING: ReadonlySet<string> = new Set(["NoRecord", "NoCapsule", "Unproven"]);
