import { MeshError } from "../codec/code.ts";
import { utf8 } from "../codec/field.ts";
import {
  type Entry,
  isPromise,
  type MaybePromise,
  type Operation,
  type Store,
  sameBytes,
} from "../stores/store.ts";
import type { Core, Identity } from "./core.ts";

/** What the entries of a store mean: a store with a higher number was written by a newer version. */
const SCHEMA = 1;
/** First byte of the keys that the driver keeps for itself. */
const OWN = 0;
/** First byte of the keys of the core. */
const CORE = 1;

const SCHEMA_KEY = "schema";
const SEED_KEY = "seed";
const KNOWN_KEY = "known key";

/** A store that is checked, with the driver's values and the core's key space apart from each other. */
export class State {
  readonly #store: Store;
  #prefix: Uint8Array = Uint8Array.of(CORE);
  #closing: Promise<void> | undefined;

  constructor(store: Store) {
    this.#store = store;
  }

  /** Where the data is, for error messages. */
  get location(): string {
    return this.#store.location;
  }

  /**
   * Checks the schema and returns the seed: the one given, else the stored one, else one that `random` makes and that
   * is stored before anybody uses it.
   */
  async open(given: Uint8Array | undefined, random: (length: number) => Uint8Array): Promise<Uint8Array> {
    if (this.#store.shared) return this.#openShared(given);
    const schema = await this.own(SCHEMA_KEY);
    if (schema === undefined) {
      const [first] = await this.#store.scan(new Uint8Array(), Uint8Array.of(0xff), 1);
      if (first !== undefined) throw this.#corrupt("has entries but no schema number");
      const seed = given ?? random(32);
      const values = given === undefined ? { [SEED_KEY]: seed } : {};
      await this.setOwn({ [SCHEMA_KEY]: Uint8Array.of(SCHEMA), ...values });
      return seed;
    }
    this.#checkSchema(schema);
    const stored = await this.own(SEED_KEY);
    if (stored !== undefined && stored.length !== 32) throw this.#corrupt("holds a seed of the wrong length");
    const seed = given ?? stored;
    if (seed === undefined) {
      throw new MeshError("BadConfig", `${this.location} was made with the option seed: give it again`);
    }
    return seed;
  }

  /**
   * Tells who the seed is in a network. The public key is computed at a node's first start and then kept, except in a
   * shared store, where it would cost more to read.
   */
  async identify(seed: Uint8Array, network: string, core: Core): Promise<Identity> {
    if (this.#store.shared) return core.deriveIdentity(seed, network, new Uint8Array());
    const known = (await this.own(KNOWN_KEY)) ?? new Uint8Array();
    const identity = core.deriveIdentity(seed, network, known);
    if (!sameBytes(identity.knownKey, known)) await this.setOwn({ [KNOWN_KEY]: identity.knownKey });
    return identity;
  }

  /** Gives each node in a shared store a key space of its own. */
  separate(id: Uint8Array): void {
    if (this.#store.shared) this.#prefix = Uint8Array.from([CORE, ...id]);
  }

  /** Reads a value of the core. */
  get(key: Uint8Array): MaybePromise<Uint8Array | undefined> {
    return this.#store.get(this.#inCore(key));
  }

  /** Reads entries of the core; the keys come with the prefix that `strip` removes. */
  scan(start: Uint8Array, end: Uint8Array, limit: number): MaybePromise<Entry[]> {
    return this.#store.scan(this.#inCore(start), this.#inCore(end), limit);
  }

  /** Reads keys of the core, which come as the core knows them; values are not read. */
  keys(start: Uint8Array, end: Uint8Array, limit: number): MaybePromise<Uint8Array[]> {
    const strip = (keys: Uint8Array[]): Uint8Array[] => keys.map((key) => this.strip(key));
    const found = this.#store.keys(this.#inCore(start), this.#inCore(end), limit);
    return isPromise(found) ? found.then(strip) : strip(found);
  }

  /** The core's own key of an entry that `scan` returned. */
  strip(key: Uint8Array): Uint8Array {
    return key.subarray(this.#prefix.length);
  }

  /** Applies operations of the core. */
  commit(operations: readonly Operation[], durable: boolean): MaybePromise<void> {
    return this.#store.commit(
      operations.map(({ key, value }) => ({ key: this.#inCore(key), value })),
      durable,
    );
  }

  /** Reads one of the driver's own values. */
  own(name: string): MaybePromise<Uint8Array | undefined> {
    return this.#store.get(ownKey(name));
  }

  /** Writes some of the driver's own values durably; `null` removes one. */
  async setOwn(values: Readonly<Record<string, Uint8Array | null>>): Promise<void> {
    const operations = Object.entries(values).map(([name, value]) => ({ key: ownKey(name), value }));
    await this.#store.commit(operations, true);
  }

  /** Closes the store, once. */
  close(): Promise<void> {
    this.#closing ??= Promise.resolve().then(() => this.#store.close());
    return this.#closing;
  }

  async #openShared(given: Uint8Array | undefined): Promise<Uint8Array> {
    if (given === undefined) {
      const text = `${this.location} is shared by all instances and holds no seed: give this one its own (seed)`;
      throw new MeshError("BadConfig", text);
    }
    const schema = await this.own(SCHEMA_KEY);
    if (schema === undefined) await this.setOwn({ [SCHEMA_KEY]: Uint8Array.of(SCHEMA) });
    else this.#checkSchema(schema);
    return given;
  }

  #checkSchema(schema: Uint8Array): void {
    const [version] = schema;
    if (schema.length !== 1 || version === undefined || version === 0) {
      throw this.#corrupt("has a schema number that this program did not write");
    }
    if (version > SCHEMA) {
      throw new MeshError(
        "StoreTooNew",
        `${this.location} has schema ${version}, this version knows ${SCHEMA}: run the newer version`,
      );
    }
  }

  #corrupt(what: string): MeshError {
    return new MeshError(
      "StoreCorrupt",
      `${this.location} ${what}: restore a copy, or move it away and let the node start with a new identity`,
    );
  }

  #inCore(key: Uint8Array): Uint8Array {
    const prefixed = new Uint8Array(this.#prefix.length + key.length);
    prefixed.set(this.#prefix);
    prefixed.set(key, this.#prefix.length);
    return prefixed;
  }
}

function ownKey(name: string): Uint8Array {
  return Uint8Array.from([OWN, ...utf8(name)]);
}
