import { toBase32 } from "../codec/base32.ts";
import { writeKeys } from "../codec/capsule.ts";
import type { ClientConfig, Command, Reply } from "../codec/client.ts";
import { codeNumber, MeshError } from "../codec/code.ts";
import { Writer } from "../codec/field.ts";
import { fromHex, toHex } from "../codec/hex.ts";
import type { MapCommand, MapReply } from "../codec/map.ts";
import { concat } from "../concat.ts";
import { Logger } from "../driver/log.ts";
import { randomBytes } from "../driver/random.ts";
import { State } from "../driver/state.ts";
import { timeoutTimer } from "../driver/timer.ts";
import type { WakeTimer } from "../driver/timers.ts";
import { isPromise } from "../stores/store.ts";
import { Engine, type EngineParts } from "./engine.ts";
import { CapsuleModule, READER_KEY_BYTES } from "./module.ts";
import { nameOf } from "./name.ts";
import { type CapsuleOptions, quorumOf, serversOf, TIMING } from "./options.ts";
import { answered, type Peer, Peers } from "./peers.ts";
import {
  type CapsuleDescription,
  type CapsuleHeads,
  type CapsuleRecord,
  readDescription,
  readFresh,
  readNames,
  readRecord,
  readResults,
} from "./reading.ts";
import { errorAt, PlacedError, type RecordHeader } from "./record.ts";

/** Larger ones are the module's own. */
const MAX_COMMAND_NUMBER = 0x7fff_ffff;

/** How records are written. */
export interface WriteOptions {
  /** Whether the last of them is signed, and so all before it; they are unless this is false. Without it nobody can prove them. */
  readonly sign?: boolean | undefined;
  /** Heads of other branches that the first of these records merges, at most 31. */
  readonly merge?: readonly string[] | undefined;
}

/** A change of who writes and reads. */
export interface Governing {
  /** Public keys of writers that join. */
  readonly add?: readonly string[] | undefined;
  /** Numbers of writers that leave, and the last of their records that still count; this begins a new epoch. */
  readonly revoke?: readonly { readonly writer: number; readonly heads: readonly string[] }[] | undefined;
  /** Keys of readers that get the key of the epoch; in a new epoch nobody else but the owner reads what is written. */
  readonly readers?: readonly string[] | undefined;
  /** Whether a new epoch begins, with another key; it does if somebody is revoked. */
  readonly newEpoch?: boolean | undefined;
}

/** Where a writer stands. */
export interface Position {
  /** Its number in the capsule. */
  readonly writer: number;
  /** The epoch that it writes in. */
  readonly epoch: number;
  /** The sequence number of its next record. */
  readonly sequence: number;
  /** What its next record follows, if there is something. */
  readonly after: string | undefined;
}

/** Evidence that a writer has used one sequence number twice. */
export interface ForkEvidence {
  /** Of each of the two records the header and a proof that begins with a signature, as they are encoded. */
  readonly records: readonly { readonly header: Uint8Array; readonly proof: Uint8Array }[];
}

/** A command before it has a number. */
export type Asked<C> = C extends { command: number } ? Omit<C, "command"> : never;

type AnyReply = Reply | MapReply;
type ReplyOf<T extends AnyReply["type"]> = Extract<AnyReply, { type: T }>;

/** A command under way. */
export interface Asking<T extends AnyReply["type"]> {
  /** Its number. */
  readonly command: number;
  readonly reply: Promise<ReplyOf<T>>;
}

/** Asks a capsule's client something: for what is built on capsules here. */
export let askOf: <T extends AnyReply["type"]>(
  capsule: Capsule,
  asked: Asked<Command | MapCommand>,
  type: T,
) => Asking<T>;

interface Pending {
  readonly resolve: (reply: AnyReply) => void;
  readonly reject: (error: unknown) => void;
}

interface CapsuleParts {
  readonly module: WebAssembly.Module;
  readonly instance: CapsuleModule;
  readonly state: State;
  readonly seed: Uint8Array;
  readonly capsule: Uint8Array;
  readonly servers: readonly Peer[];
  readonly options: CapsuleOptions;
}

/** A client of one capsule: writes and reads through quorums of its servers, and believes nothing that it has not verified. */
export class Capsule {
  /** The capsule's name in base32. */
  readonly name: string;
  /** The public key with which this client signs, 64 hex digits: who writes is known by it. */
  readonly key: string;
  /** The public key to which the owner grants this client the keys of epochs, in hex. */
  readonly readerKey: string;
  readonly #module: WebAssembly.Module;
  readonly #seed: Uint8Array;
  readonly #servers: readonly string[];
  readonly #engine: Engine;
  readonly #peers: Peers;
  readonly #timer: WakeTimer;
  readonly #pending: Map<number, Pending> = new Map();
  #last = 0;
  static {
    askOf = (capsule, asked, type) => capsule.#start(asked, type);
  }

  #begun: Promise<Position> | undefined;
  /** Verifies files, apart from what the engine steps. */
  #verifier: Promise<CapsuleModule> | undefined;
  #closing: Promise<void> | undefined;

  private constructor(parts: CapsuleParts) {
    const { module, instance, state, seed, capsule, servers, options } = parts;
    this.name = toBase32(capsule);
    this.key = toHex(instance.deriveKey(seed));
    this.readerKey = instance.deriveReader(seed);
    this.#module = module;
    this.#seed = seed;
    this.#servers = servers.map(({ id }) => toHex(id));
    this.#peers = new Peers((tag, response) => this.#engine.push(answered(tag, response)));
    for (const server of servers) this.#peers.add(server);
    this.#timer = timeoutTimer(() => this.#engine.schedule(), options.mesh?.timers);
    this.#engine = new Engine({
      module,
      instance,
      state,
      logger: new Logger(options.log, options.logLevel),
      now: Date.now,
      create: (made) => made.createClient(configOf(parts)),
      take: (output) => this.#take(output),
      onPut: () => undefined,
      lost: (error) => this.#lose(error),
    });
    this.#engine.schedule();
  }

  /** Finds the servers, opens the store and starts the module in it. */
  static async open(options: CapsuleOptions, module: WebAssembly.Module): Promise<Capsule> {
    const given = options.seed === undefined ? undefined : fromHex(options.seed, 32, "seed");
    const instance = await CapsuleModule.instantiate(module);
    const capsule = capsuleOf(options, instance);
    const servers = await serversOf(options, toBase32(capsule));
    const opening = options.storage();
    const state = new State(isPromise(opening) ? await opening : opening);
    try {
      const seed = await state.open(given, randomBytes);
      state.separate(instance.deriveKey(seed));
      return new Capsule({ module, instance, state, seed, capsule, servers, options });
    } catch (error) {
      await state.close();
      throw error;
    }
  }

  /** Creates the capsule of the metadata that it was opened with; resolves when a write quorum has stored it. */
  async create(): Promise<void> {
    await this.#ask({ type: "Create" }, "Done");
  }

  /**
   * Begins to write where this writer was, or after a record: a branch, or going on with what somebody else wrote. Writing
   * begins by itself where this writer was.
   */
  async begin(after?: string): Promise<Position> {
    this.#begun = this.#begin(after);
    return this.#begun;
  }

  /** Writes a record of each content, each after the one before, and resolves with their names when a write quorum has them. */
  async append(contents: readonly Uint8Array[], options: WriteOptions = {}): Promise<string[]> {
    await this.#writing();
    return readNames((await this.#ask({ type: "Write", ...writingOf(contents, options) }, "Written")).names);
  }

  /** Writes one record of sub-records and resolves with its name. */
  async commit(subrecords: readonly Uint8Array[], options: WriteOptions = {}): Promise<string> {
    await this.#writing();
    const { names } = await this.#ask({ type: "Commit", ...writingOf(subrecords, options) }, "Written");
    return toHex(names);
  }

  /** Signs the last record that was written, and so all before it. */
  async sign(): Promise<void> {
    await this.#writing();
    await this.#ask({ type: "Sign" }, "Done");
  }

  /** Reads a record, proven and opened. */
  async read(name: string): Promise<CapsuleRecord> {
    const [record] = await this.readAll([name]);
    return orThrow(record);
  }

  /** Reads records: of each what it holds, or why it could not be read. */
  async readAll(names: readonly string[]): Promise<(CapsuleRecord | MeshError)[]> {
    const { results } = await this.#ask({ type: "Read", names: encodeNames(names) }, "Records");
    return readResults(results, (reader, index) => readRecord(reader, names[index] ?? ""));
  }

  /** Reads the header of a record alone, proven: of a sealed record everybody may read that much. */
  async header(name: string): Promise<RecordHeader> {
    const file = await this.prove(name, { body: false });
    this.#verifier ??= CapsuleModule.instantiate(this.#module);
    try {
      return (await this.#verifier).verifyProof(file).header;
    } catch (error) {
      // What trapped takes no more calls.
      if (!(error instanceof MeshError)) this.#verifier = undefined;
      throw error;
    }
  }

  /** Reads some of the sub-records of a record, by their places, without the others. */
  async readParts(name: string, indexes: readonly number[]): Promise<Uint8Array[]> {
    const places = new Writer();
    for (const index of indexes) places.u32(index);
    const asked = { type: "ReadParts", name: encodeName(name), indexes: places.copy() } as const;
    const { results } = await this.#ask(asked, "Parts");
    return readResults(results, (reader) => reader.bytes().slice()).map(orThrow);
  }

  /** How many sub-records a record has. */
  async subrecords(name: string): Promise<number> {
    const { results } = await this.#ask({ type: "CountParts", names: encodeName(name) }, "Counts");
    const [count] = readResults(results, (reader) => reader.u32());
    return orThrow(count);
  }

  /** Makes a file that proves a record to whoever has nothing else, with its body as it is stored, or without. */
  async prove(name: string, { body = true }: { readonly body?: boolean } = {}): Promise<Uint8Array> {
    const { file } = await this.#ask({ type: "Export", name: encodeName(name), whole: body }, "File");
    return file.slice();
  }

  /** Asks a read quorum which records are the newest. */
  async heads(): Promise<CapsuleHeads> {
    return readFresh(await this.#ask({ type: "QueryFresh" }, "Fresh"), this.#servers);
  }

  /** Changes who writes and reads, which only the owner can; resolves with the names of the epoch records. */
  async govern(change: Governing): Promise<string[]> {
    await this.#writing();
    return readNames((await this.#ask(governingOf(change), "Written")).names);
  }

  /** Asks what the capsule is and who writes it now. */
  async describe(): Promise<CapsuleDescription> {
    return readDescription(await this.#ask({ type: "Describe" }, "Described"));
  }

  /** Collects evidence that a writer has used one sequence number twice, of two records that `heads` names as a fork. */
  async accuse(one: string, other: string): Promise<ForkEvidence> {
    const asked = { type: "Accuse", one: encodeName(one), other: encodeName(other) } as const;
    const { header, proof, other_header, other_proof } = await this.#ask(asked, "Fork");
    const pairs = [
      { header, proof },
      { header: other_header, proof: other_proof },
    ];
    return { records: pairs.map((pair) => ({ header: pair.header.slice(), proof: pair.proof.slice() })) };
  }

  /** Ends the client, which wipes its keys, and closes its store; what is under way fails. */
  close(): Promise<void> {
    this.#closing ??= this.#end();
    return this.#closing;
  }

  async #end(): Promise<void> {
    this.#timer.cancel();
    const closed = this.#engine.close(new MeshError("Cancelled", "the capsule was closed"));
    this.#seed.fill(0);
    await closed;
  }

  /** Begins to write if it has not; a failure is forgotten, so that the next one who writes tries again. */
  async #writing(): Promise<void> {
    this.#begun ??= this.#begin();
    const begun = this.#begun;
    try {
      await begun;
    } catch (error) {
      if (this.#begun === begun) this.#begun = undefined;
      throw error;
    }
  }

  async #begin(after?: string): Promise<Position> {
    const name = after === undefined ? new Uint8Array() : encodeName(after);
    const {
      writer,
      epoch,
      sequence,
      after: parent,
    } = await this.#ask({ type: "Init", after: name }, "Ready");
    return { writer, epoch, sequence, after: parent.length === 0 ? undefined : toHex(parent) };
  }

  #ask<T extends AnyReply["type"]>(asked: Asked<Command | MapCommand>, type: T): Promise<ReplyOf<T>> {
    return this.#start(asked, type).reply;
  }

  #start<T extends AnyReply["type"]>(asked: Asked<Command | MapCommand>, type: T): Asking<T> {
    const command = this.#last === MAX_COMMAND_NUMBER ? 1 : this.#last + 1;
    this.#last = command;
    const { promise, resolve, reject } = Promise.withResolvers<AnyReply>();
    try {
      if (this.#engine.failure !== undefined) throw this.#engine.failure;
      this.#engine.push({ ...asked, command } as Command | MapCommand);
      this.#pending.set(command, { resolve, reject });
    } catch (error) {
      reject(error);
    }
    const reply = promise.then((reply) => {
      if (reply.type !== type) throw new MeshError("BadInput", `capsule.wasm answered with ${reply.type}`);
      return reply as ReplyOf<T>;
    });
    return { command, reply };
  }

  #take(output: Parameters<EngineParts["take"]>[0]): void {
    if (output.type === "Ask") this.#peers.ask(output);
    else if (output.type === "Wake") this.#timer.schedule(output.at_ms);
    else if (output.type === "Refused") this.#refuse(output.code);
    else if ("command" in output) this.#answer(output);
  }

  /** Without what it has written and seen a client does nothing. */
  #refuse(code: number): void {
    if (code === codeNumber("StoreFailed")) this.#engine.fail(new MeshError(code));
  }

  #answer(reply: AnyReply): void {
    const pending = this.#pending.get(reply.command);
    this.#pending.delete(reply.command);
    if (reply.type === "Failed") pending?.reject(this.#errorOf(reply.code, reply.at));
    else pending?.resolve(reply);
  }

  /** The error of a command; where that depends on the servers, with what each lacks. */
  #errorOf(code: number, at: number): MeshError {
    const { name, class: kind } = new MeshError(code);
    const isOfServers = name === "RolledBack" || kind === "Service" || kind === "Unreachable";
    const failures = isOfServers ? this.#peers.failures() : [];
    return failures.length === 0 ? errorAt(code, at) : new PlacedError(code, at, `: ${failures.join("; ")}`);
  }

  #lose(error: MeshError): void {
    for (const { reject } of this.#pending.values()) reject(error);
    this.#pending.clear();
    this.#peers.forget();
    this.#begun = undefined;
  }
}

function capsuleOf({ name, metadata }: CapsuleOptions, instance: CapsuleModule): Uint8Array {
  if (metadata !== undefined) return instance.verifyMetadata(metadata).name.slice();
  if (name === undefined) throw new MeshError("BadConfig", "say which capsule: its name or its metadata");
  return nameOf(name);
}

function configOf({ capsule, servers, seed, options }: CapsuleParts): ClientConfig {
  const { hedge_ms, attempt_ms, avoid_ms, deadline_ms } = options.timing ?? {};
  return {
    capsule,
    metadata: options.metadata ?? new Uint8Array(),
    servers: concat(servers.map(({ id }) => id)),
    seed,
    writeQuorum: quorumOf("writeQuorum", servers.length, options.writeQuorum),
    readQuorum: quorumOf("readQuorum", servers.length, options.readQuorum),
    timing: [
      hedge_ms ?? TIMING.hedge_ms,
      attempt_ms ?? TIMING.attempt_ms,
      avoid_ms ?? TIMING.avoid_ms,
      deadline_ms ?? TIMING.deadline_ms,
    ],
    entropy: randomBytes(32),
  };
}

function writingOf(contents: readonly Uint8Array[], { sign = true, merge = [] }: WriteOptions) {
  return {
    sign,
    shortcuts: merge.length === 0,
    pointers: encodeNames(merge),
    contents: writeKeys(contents),
  };
}

function governingOf({ add = [], revoke = [], readers = [], newEpoch }: Governing) {
  const revoked = new Writer();
  for (const { writer, heads } of revoke) revoked.u16(writer).bytes(encodeNames(heads));
  return {
    type: "Govern",
    next: newEpoch ?? revoke.length > 0,
    added: concat(add.map((key) => fromHex(key, 32, "the key of a writer"))),
    revoked: revoked.copy(),
    readers: concat(readers.map((key) => fromHex(key, READER_KEY_BYTES, "the key of a reader"))),
  } as const;
}

function encodeName(name: string): Uint8Array {
  return fromHex(name, 32, "the name of a record");
}

function encodeNames(names: readonly string[]): Uint8Array {
  return concat(names.map(encodeName));
}

function orThrow<T>(result: T | MeshError | undefined): T {
  if (result === undefined) throw new MeshError("NoRecord");
  if (result instanceof MeshError) throw result;
  return result;
}
