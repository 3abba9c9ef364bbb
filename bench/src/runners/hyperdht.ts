// Nodes of hyperdht in one process: tasks as lines, see `task`.
import { createHash, randomBytes } from "node:crypto";
import { createServer } from "node:net";
import process from "node:process";

import DHT from "hyperdht";

import { closedLoop } from "./closed-loop.ts";
import { type Answering, serveLines } from "./lines.ts";

const HOST = "127.0.0.1";
/** As many requests of one query at a time as the others have in flight. */
const ALPHA = 3;
/** Entries of a table: values may be half as many, and a million of them are stored. */
const MAX_SIZE = 4_000_000;
/** More than ever are in flight, so that the window of a node is never what limits a closed loop. */
const MAX_WINDOW = 4_000;
const VALUE_BYTES = 16;

const nodes: DHT[] = [];

/** What is stored and found again, by the number of an object. */
interface Kind {
  put(dht: DHT, index: number): Promise<void>;
  get(dht: DHT, index: number): Promise<void>;
}

function value(index: number): Uint8Array {
  return Buffer.from(`${index}`.padStart(VALUE_BYTES, "0"));
}

function found(what: unknown): void {
  if (what === null || what === undefined) throw new Error("what was stored is not found");
}

/** Any 32 bytes name a topic. */
function topic(index: number): Uint8Array {
  return createHash("sha256").update(value(index)).digest();
}

const keys: ReturnType<typeof DHT.keyPair>[] = [];
const hashes: Uint8Array[] = [];
const announcer = DHT.keyPair();

const KINDS: Readonly<Record<string, Kind>> = {
  /** A value signed by its publisher: the holder verifies it when it is stored, the finder when it is found. */
  mutable: {
    async put(dht, index) {
      const pair = DHT.keyPair();
      keys[index] = pair;
      await dht.mutablePut(pair, value(index));
    },
    async get(dht, index) {
      found(await dht.mutableGet(keys[index]?.publicKey ?? new Uint8Array(32)));
    },
  },
  /** A peer that serves a topic: the holder verifies its signature, the finder has none to verify. */
  announce: {
    async put(dht, index) {
      await dht.announce(topic(index), announcer, []).finished();
    },
    async get(dht, index) {
      let peers = 0;
      for await (const answer of dht.lookup(topic(index))) peers += answer.peers.length;
      // Each node that holds the topic names the peer.
      if (peers === 0) throw new Error("no peer where one was announced");
    },
  },
  /** A value under its own hash: nothing is signed. */
  immutable: {
    async put(dht, index) {
      hashes[index] = (await dht.immutablePut(value(index))).hash;
    },
    async get(dht, index) {
      found(await dht.immutableGet(hashes[index] ?? new Uint8Array(32)));
    },
  },
};

async function freePort(): Promise<number> {
  const server = createServer().listen(0, HOST);
  await new Promise((resolve) => server.once("listening", resolve));
  const address = server.address();
  await new Promise((resolve) => server.close(resolve));
  if (address === null || typeof address === "string") throw new Error("no free port");
  return address.port;
}

/** Starts nodes, one after the other, in the network of a bootstrap node, or the first as a bootstrap node. */
async function start(bootstrap: string, count: number): Promise<string> {
  const options = { host: HOST, concurrency: ALPHA, maxWindow: MAX_WINDOW, maxSize: MAX_SIZE };
  let known = bootstrap;
  for (let started = 0; started < count; started += 1) {
    let dht: DHT;
    if (known === "") {
      dht = DHT.bootstrapper(await freePort(), HOST, options);
      known = `${HOST}:${dht.address()?.port ?? 0}`;
    } else {
      dht = new DHT({ ...options, ephemeral: false, firewalled: false, bootstrap: [parse(known)] });
    }
    await dht.fullyBootstrapped();
    if (bootstrap === "" && started === 0) known = `${HOST}:${dht.address().port}`;
    nodes.push(dht);
  }
  return known;
}

function parse(address: string): { host: string; port: number } {
  const [host = "", port = ""] = address.split(":");
  return { host, port: Number(port) };
}

/** A node that stores nothing for others, as a client of the network. */
async function client(bootstrap: string): Promise<void> {
  const dht = new DHT({
    host: HOST,
    concurrency: ALPHA,
    maxWindow: MAX_WINDOW,
    ephemeral: true,
    bootstrap: [parse(bootstrap)],
  });
  await dht.fullyBootstrapped();
  nodes.push(dht);
}

function requests(): number {
  return nodes.reduce((sum, dht) => sum + dht.stats.requests.total, 0);
}

function node(turn: number): DHT {
  const dht = nodes[turn % nodes.length];
  if (dht === undefined) throw new Error("no node is started");
  return dht;
}

/** Objects stored so far, of each kind. */
const stored = new Map<string, number>();

async function put(kind: string, window: number, count: number): Promise<string> {
  const from = stored.get(kind) ?? 0;
  const result = await closedLoop(window, count, async (index) => KINDS[kind]?.put(node(0), from + index));
  stored.set(kind, from + count);
  return JSON.stringify(result);
}

async function get(kind: string, window: number, count: number): Promise<string> {
  const known = stored.get(kind) ?? 0;
  const work = async () => KINDS[kind]?.get(node(0), Math.floor(Math.random() * known));
  return JSON.stringify(await closedLoop(window, count, work, requests));
}

let turn = 0;

async function lookup(window: number, count: number): Promise<string> {
  const work = () => {
    turn += 1;
    return node(turn).findNode(randomBytes(32)).finished();
  };
  return JSON.stringify(await closedLoop(window, count, work, requests));
}

/**
 * `nodes/ADDRESS COUNT` starts nodes and tells the address of the first, `client/ADDRESS 1` one that stores nothing;
 * `put/KIND/WINDOW COUNT`, `get/KIND/WINDOW COUNT` and `lookup/WINDOW COUNT` tell what a closed loop came to.
 */
async function task(name: string): Promise<Answering> {
  const [work = "", first = "", second = ""] = name.split("/");
  switch (work) {
    case "nodes":
      return (count) => start(first, count);
    case "client":
      return () => client(first).then(() => undefined);
    case "put":
      return (count) => put(first, Number(second), count);
    case "get":
      return (count) => get(first, Number(second), count);
    case "lookup":
      return (count) => lookup(Number(first), count);
    default:
      throw new Error(`no task ${name}`);
  }
}

await serveLines(task);
// Its sockets and timers would keep the process alive.
process.exit();
