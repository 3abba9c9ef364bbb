import { readFile } from "node:fs/promises";
import { replicaHandler } from "../src/capsule/http.ts";
import { CapsuleModule } from "../src/capsule/module.ts";
import type { CapsuleServer } from "../src/capsule/options.ts";
import { Replica, type ReplicaOptions } from "../src/capsule/replica.ts";
import type { Timers } from "../src/driver/timers.ts";
import { memory } from "../src/stores/memory.ts";
import type { StoreFactory } from "../src/stores/store.ts";

/** The compiled module. */
export const module: WebAssembly.Module = await WebAssembly.compile(
  Uint8Array.from(await readFile(new URL("../core/capsule.wasm", import.meta.url))),
);

/** An instance for what needs no handle. */
export const capsules: CapsuleModule = await CapsuleModule.instantiate(module);

/** A replica that answers at a URL, and how it misbehaves. */
export interface Place extends CapsuleServer {
  replica: Replica;
  /** Whether nobody answers there. */
  isDown: boolean;
  /** What becomes of a response on its way. */
  change: (response: Uint8Array<ArrayBuffer>) => Uint8Array<ArrayBuffer>;
  /** How many requests were sent there. */
  requests: number;
}

/** Replicas and the network between them, in one process: requests go through the handlers that HTTP servers use. */
export class Network {
  readonly places: Place[] = [];
  readonly logged: string[] = [];

  /** What the clients and replicas use in place of the platform's. */
  readonly fetch: typeof globalThis.fetch = async (input, init) => {
    const request = new Request(input, init);
    const place = this.places.find(({ url }) => url === request.url);
    if (place !== undefined) place.requests++;
    if (place === undefined || place.isDown) throw new TypeError("connection refused");
    const response = await replicaHandler(place.replica)(request);
    const changed = place.change(new Uint8Array(await response.arrayBuffer()));
    return new Response(changed, { status: response.status });
  };

  /** Log records go here. */
  readonly log = ({ text }: { text: string }): void => void this.logged.push(text);

  /** Starts a replica. */
  async add(
    storage: StoreFactory = memory(),
    more: Partial<ReplicaOptions> = {},
    timers?: Timers,
  ): Promise<Place> {
    const replica = await Replica.open({ storage, log: this.log, ...more }, module, timers);
    const url = `https://replica-${this.places.length}/`;
    const change = (response: Uint8Array<ArrayBuffer>): Uint8Array<ArrayBuffer> => response;
    const place = { replica, key: replica.key, url, isDown: false, change, requests: 0 };
    this.places.push(place);
    return place;
  }

  /** Starts some. */
  async addMany(count: number): Promise<Place[]> {
    const places: Place[] = [];
    for (let index = 0; index < count; index++) places.push(await this.add());
    return places;
  }

  /** Ends all. */
  async close(): Promise<void> {
    for (const { replica } of this.places) await replica.close();
  }
}

/** UTF-8. */
export const text = (content: Uint8Array): string => new TextDecoder().decode(content);
/** UTF-8. */
export const bytes = (content: string): Uint8Array => new TextEncoder().encode(content);
