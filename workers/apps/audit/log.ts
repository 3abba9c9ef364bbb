import { type Capsule, type CapsuleMesh, type CapsuleOptions, History, openCapsule } from "selfsame/capsule";
import { untraced } from "selfsame/telemetry";

import { encodeSignIn, type SignIn } from "./sign-in.ts";

/** Of three replicas: what two have stored survives any one of them, and whoever asks two hears of it. */
const QUORUM = 2;
/** Sign-ins that are written together. */
const MAX_BATCH = 64;
/** Sign-ins that wait while nobody can store them; beyond that they are lost. */
const MAX_WAITING = 1024;
/** A writer goes on with its own branch for so many records before it merges those of the others. */
const MERGE_AFTER = 8;
/** One signature is for all that was written before it: it is made after so many records, or so long after the first of them. */
const SIGN_AFTER = 16;
const SIGN_AFTER_MS = 1000;
/** Branches that one record merges, at most. */
const MAX_MERGED = 31;
/** The newest records of an overview, all of which are verified. */
const MAX_RECORDS = 1000;

/** How a node keeps the audit log. */
export type AuditOptions = {
  /** The mesh in which the replicas of the capsule are found. */
  mesh: CapsuleMesh;
  /** The capsule's signed metadata. */
  metadata: Uint8Array;
  /** Secret seed of this node's key, which is one of the writers' and readers'. */
  seed: string;
  /** Where the client keeps which sequence numbers it has used. */
  storage: CapsuleOptions["storage"];
};

/** The log as a node has read it: each record was proven with a signature of its writer. */
export type Overview = {
  /** The capsule's name. */
  capsule: string;
  /** How many records were verified: the newest, and all unless there are more. */
  verified: number;
  isWhole: boolean;
  /** Names of the records that no other points to. */
  heads: string[];
  /** How many records merge branches. */
  merges: number;
  epoch: number;
  /** Records by the numbers of their writers. */
  writers: Record<number, number>;
};

type Waiting = {
  content: Uint8Array;
  name: string;
  resolve: (name: string) => void;
  reject: (error: unknown) => void;
};
type Opened = { capsule: Capsule; history: History };

/** The audit log: every sign-in is a record of one capsule, to which each node writes as a writer of its own. */
export class AuditLog {
  readonly #options: AuditOptions;
  #opening: Promise<Opened> | undefined;
  #overview: Promise<Overview> | undefined;
  #waiting: Waiting[] = [];
  /** What is stored and not signed yet. */
  #unsigned: Waiting[] = [];
  #timer: ReturnType<typeof setTimeout> | undefined;
  /** Ends when what was begun last has: one thing is written after the other. */
  #turn: Promise<void> = Promise.resolve();
  #hasBegun = false;
  /** The last record of this writer. */
  #last: string | undefined;
  #unmerged = 0;

  constructor(options: AuditOptions) {
    this.#options = options;
  }

  /** Writes a sign-in and resolves with the record's name when two replicas have it with a signature. */
  async note(signIn: SignIn): Promise<string> {
    if (this.#waiting.length >= MAX_WAITING)
      throw new Error("the audit log cannot be written: too much waits");
    return new Promise((resolve, reject) => {
      this.#waiting.push({ content: encodeSignIn(signIn), name: "", resolve, reject });
      this.#next(() => this.#store());
    });
  }

  /** Reads what is new and verifies it. */
  overview(): Promise<Overview> {
    this.#overview ??= this.#read().finally(() => {
      this.#overview = undefined;
    });
    return this.#overview;
  }

  /** A file that proves a record to whoever has nothing else. */
  async prove(name: string): Promise<Uint8Array> {
    return (await this.#opened()).capsule.prove(name);
  }

  /** Signs what is not signed yet, and ends it. */
  async close(): Promise<void> {
    this.#next(() => this.#sign());
    await this.#turn;
    await (await this.#opening?.catch(() => undefined))?.capsule.close();
  }

  /** Does something after what was begun before; if it fails, all that waits for it does. */
  #next(work: () => Promise<void>): void {
    this.#turn = this.#turn.then(work).catch(async (error: unknown) => {
      for (const { reject } of this.#unsigned.splice(0)) reject(error);
      await this.#reset();
    });
  }

  async #store(): Promise<void> {
    const batch = this.#waiting.splice(0, MAX_BATCH);
    if (batch.length === 0) return;
    this.#unsigned.push(...batch);
    const names = await this.#append(batch.map(({ content }) => content));
    for (const [index, one] of batch.entries()) one.name = names[index] ?? "";
    if (this.#unsigned.length >= SIGN_AFTER) await this.#sign();
    else this.#timer ??= setTimeout(() => this.#next(() => this.#sign()), SIGN_AFTER_MS);
  }

  async #sign(): Promise<void> {
    if (this.#timer !== undefined) clearTimeout(this.#timer);
    this.#timer = undefined;
    if (this.#unsigned.length === 0) return;
    const { capsule } = await this.#opened();
    await capsule.sign();
    for (const { name, resolve } of this.#unsigned.splice(0)) resolve(name);
  }

  async #append(contents: readonly Uint8Array[]): Promise<string[]> {
    const { capsule } = await this.#opened();
    await this.#begin(capsule);
    this.#unmerged += contents.length;
    const merge = this.#unmerged > MERGE_AFTER ? await this.#branches(capsule) : [];
    // What merges has no shortcuts, so only the first one does.
    const merging =
      merge.length === 0 ? [] : await capsule.append(contents.slice(0, 1), { merge, sign: false });
    if (merging.length > 0) this.#unmerged = 0;
    const rest = contents.slice(merging.length);
    const names =
      rest.length === 0 ? merging : [...merging, ...(await capsule.append(rest, { sign: false }))];
    this.#last = names.at(-1);
    return names;
  }

  /** The heads of other branches than the one that this writer goes on with. */
  async #branches(capsule: Capsule): Promise<string[]> {
    const { heads } = await capsule.heads();
    const names = heads.map(({ name }) => name).filter((name) => name !== this.#last);
    return names.slice(0, MAX_MERGED);
  }

  /** Goes on where this writer was; a new one begins after what it finds. */
  async #begin(capsule: Capsule): Promise<void> {
    if (this.#hasBegun) return;
    this.#last = (await capsule.begin()).after;
    const [head] = this.#last === undefined ? (await capsule.heads()).heads : [];
    if (head !== undefined) this.#last = (await capsule.begin(head.name)).after;
    this.#hasBegun = true;
  }

  async #read(): Promise<Overview> {
    try {
      const opened = await this.#opened();
      // Those that are too old for an overview are forgotten from time to time.
      if (opened.history.records.length > 2 * MAX_RECORDS) opened.history = new History(opened.capsule);
      const { capsule, history } = opened;
      await history.refresh();
      await history.more(MAX_RECORDS - history.records.length);
      const writers: Record<number, number> = {};
      for (const { writer } of history.records) writers[writer] = (writers[writer] ?? 0) + 1;
      return {
        capsule: capsule.name,
        verified: history.records.length,
        isWhole: history.isWhole,
        heads: [...history.heads],
        merges: history.records.filter(({ parents }) => parents.length > 1).length,
        epoch: Math.max(0, ...history.records.map(({ epoch }) => epoch)),
        writers,
      };
    } catch (error) {
      await this.#reset();
      throw error;
    }
  }

  #opened(): Promise<Opened> {
    this.#opening ??= this.#open().catch((error: unknown) => {
      this.#opening = undefined;
      throw error;
    });
    return this.#opening;
  }

  async #open(): Promise<Opened> {
    const { mesh, metadata, seed, storage } = this.#options;
    const quorums = { writeQuorum: QUORUM, readQuorum: QUORUM };
    const capsule = await openCapsule({ mesh: untraced(mesh), metadata, seed, storage, ...quorums });
    return { capsule, history: new History(capsule) };
  }

  /** The replicas are looked for anew when something failed. */
  async #reset(): Promise<void> {
    const opening = this.#opening;
    this.#opening = undefined;
    this.#hasBegun = false;
    await (await opening?.catch(() => undefined))?.capsule.close();
  }
}
