import {
  type Config,
  codeName,
  decodeProviders,
  decodeRequestHead,
  decodeStatus,
  encodeRequestHead,
  type Input,
  Reader,
  utf8,
  Writer,
} from "selfsame/codec";

import { RecordedNetwork } from "./network.ts";
import { join } from "./replay.ts";

/** A script, what this machine's core answered, and what happened in it. */
export type Recording = {
  script: Uint8Array;
  transcript: Uint8Array;
  /** The steps of the story that took place, to see that the script is worth replaying. */
  story: string[];
};

const DERIVE = { identity: 1, owner: 2, grant: 3, network: 4 };
const VERIFY = { grant: 1 };
/** More than one frame and less than the credit that a stream starts with. */
const BODY_BYTES = 100_000;
const NONE = new Uint8Array();

/** What a script's nodes are in: an open network, or a closed one with its authority. */
export interface ScriptNetwork {
  /** Full name. */
  readonly name: string;
  /** Admits a node with this public key, and says which id it has then. */
  readonly admit: (key: Uint8Array, id: Uint8Array, address: string) => Promise<Admitted>;
  /** Goes on with the story before its end. */
  readonly amend?: (network: RecordedNetwork, nodes: readonly ScriptNode[], story: string[]) => void;
}

/** A node of the script, in the order of the slots. */
export interface ScriptNode {
  readonly key: Uint8Array;
  /** Where others reach it, `host:port`; empty for the leaf. */
  readonly address: string;
}

/** A node that is admitted. */
export interface Admitted {
  readonly id: Uint8Array;
  readonly admission: Config["admission"];
}

/** Slots of the script. */
export const SLOTS = { first: 1, second: 2, leaf: 3 } as const;

const { first: FIRST, second: SECOND, leaf: LEAF } = SLOTS;
const OPEN: ScriptNetwork = { name: "conformance", admit: async (_, id) => ({ id, admission: "open" }) };

/**
 * Records a life: identities and grants, a ring of two members and a leaf, an owned and an unowned name, a call with a
 * large body each way, wrong bytes at every door, a crash with a restart from the store, and a farewell.
 */
export async function record(module: WebAssembly.Module, where: ScriptNetwork = OPEN): Promise<Recording> {
  const network = await RecordedNetwork.on(module, where.name);
  const story: string[] = [];
  const nodes = [FIRST, SECOND, LEAF].map((slot) => {
    return { ...identity(network, seedOf(slot)), address: hostOf(slot) };
  });
  const admitted = await Promise.all(nodes.map(({ id, key, address }) => where.admit(key, id, address)));
  const ids = admitted.map(({ id }) => id);
  const configOf = (slot: number, bootstraps: string[]): Omit<Config, "entropy"> =>
    config(slot, bootstraps, where.name, admitted[slot - 1]?.admission ?? "open");
  const grant = grantFor(network, ids[1] ?? new Uint8Array());
  story.push("derived");

  network.create(FIRST, "ws://10.0.0.1/.mesh", configOf(FIRST, []));
  join_(network, FIRST, 1);
  const bootstrap = [`ws://10.0.0.1/.mesh#${hex(ids[0] ?? new Uint8Array())}`];
  network.create(SECOND, "ws://10.0.0.2/.mesh", configOf(SECOND, bootstrap));
  join_(network, SECOND, 1);
  network.create(LEAF, "", configOf(LEAF, bootstrap));
  join_(network, LEAF, 1);
  network.run(5000);
  const successors = [FIRST, SECOND].map((slot) => status(network, slot, 2).successors.length);
  if (successors.every((count) => count === 1)) story.push("ring of two");

  publish(network, SECOND, 3, "check", grant);
  publish(network, LEAF, 4, "echo", new Uint8Array());
  network.run(5000);
  call(network, LEAF, "check", ownerKey(network), SECOND, story);
  call(network, FIRST, "echo", new Uint8Array(), LEAF, story);
  find(network, FIRST, story);
  wrongBytes(network, story);

  network.destroy(SECOND);
  network.run(30_000);
  network.create(SECOND, "ws://10.0.0.2/.mesh", configOf(SECOND, bootstrap));
  join_(network, SECOND, 9);
  network.run(10_000);
  if (status(network, SECOND, 10).joined) story.push("restarted");
  where.amend?.(network, nodes, story);
  network.feed(LEAF, [{ type: "Leave", tag: 11 }]);
  network.run(5000);
  if (network.take(LEAF, "Reply").some(({ tag }) => tag === 11)) story.push("left");
  for (const slot of [FIRST, SECOND, LEAF]) network.destroy(slot);
  return { script: concat(network.script), transcript: join(network.transcript), story };
}

function seedOf(slot: number): Uint8Array {
  return new Uint8Array(32).fill(0xa0 + slot);
}

/** Where others reach a member, `host:port`; nowhere for the leaf. */
function hostOf(slot: number): string {
  return slot === LEAF ? "" : `10.0.0.${slot}:80`;
}

function config(
  slot: number,
  bootstraps: string[],
  name: string,
  admission: Config["admission"],
): Omit<Config, "entropy"> {
  const role = slot === LEAF ? "leaf" : "member";
  return {
    seed: seedOf(slot),
    knownKey: new Uint8Array(),
    network: name.split("@")[0] ?? "",
    role,
    addresses: role === "member" ? [`ws://10.0.0.${slot}/.mesh`] : [],
    bootstraps,
    dials: ["ws"],
    allowPrivate: true,
    trustOnFirstUse: false,
    idle_ms: 15_000,
    domain: `domain ${slot}`,
    admission,
    takeOver: false,
  };
}

function join_(network: RecordedNetwork, slot: number, tag: number): void {
  network.feed(slot, [{ type: "Join", tag }]);
  network.run(3000);
  network.reply(slot, tag);
}

function publish(network: RecordedNetwork, slot: number, tag: number, name: string, grant: Uint8Array): void {
  network.feed(slot, [{ type: "Publish", tag, grant, name, replicas: 1, version: "1", weight: 10_000 }]);
  network.run(3000);
  network.reply(slot, tag);
}

function status(network: RecordedNetwork, slot: number, tag: number): ReturnType<typeof decodeStatus> {
  network.feed(slot, [{ type: "Status", tag }]);
  return decodeStatus(network.reply(slot, tag));
}

function find(network: RecordedNetwork, slot: number, story: string[]): void {
  network.feed(slot, [{ type: "Find", tag: 7, owner: ownerKey(network), name: "check" }]);
  network.run(3000);
  if (decodeProviders(network.reply(slot, 7)).length === 1) story.push("found");
}

/** Calls a service, sends a body, and has the same bytes sent back. */
function call(
  network: RecordedNetwork,
  caller: number,
  name: string,
  owner: Uint8Array,
  provider: number,
  story: string[],
): void {
  network.feed(caller, [
    {
      type: "Call",
      tag: 5,
      owner,
      name,
      key: NONE,
      tried: NONE,
      policy: "PowerOfTwo",
      timeout_ms: 0,
      head: encodeRequestHead({ method: "GET", path: "/", headers: [] }),
    },
  ]);
  network.run(1000);
  const here = network.take(caller, "StreamOpened").find(({ tag }) => tag === 5);
  const there = network.take(provider, "StreamOpened").find(({ service }) => service === name);
  if (here === undefined || there === undefined) {
    const why = network.take(caller, "Failed").map(({ code, detail }) => `${codeName(code)}: ${detail}`);
    throw new Error(`${name} could not be called: ${why.join(", ") || "no stream"}`);
  }
  const body = new Uint8Array(BODY_BYTES).map((_, index) => index * 7);
  send(network, caller, here.stream, body);
  const arrived = receive(network, provider, there.stream);
  send(network, provider, there.stream, arrived);
  const returned = receive(network, caller, here.stream);
  const isThere = decodeRequestHead(there.head).path === "/" && equal(returned, body);
  if (isThere) story.push(`called ${name}`);
}

function send(network: RecordedNetwork, slot: number, stream: number, body: Uint8Array): void {
  const inputs: Input[] = [];
  for (let at = 0; at < body.length; at += 16_384) {
    inputs.push({ type: "StreamData", stream, data: body.subarray(at, at + 16_384) });
  }
  network.feed(slot, [...inputs, { type: "StreamEnd", stream }]);
  network.run(1000);
}

function receive(network: RecordedNetwork, slot: number, stream: number): Uint8Array {
  const parts = network.take(slot, "StreamData").filter((output) => output.stream === stream);
  const bytes = concat(parts.map(({ data }) => data));
  network.feed(slot, [{ type: "StreamCredit", stream, bytes: bytes.length }]);
  return bytes;
}

/** What a broken host and a hostile peer would send. */
function wrongBytes(network: RecordedNetwork, story: string[]): void {
  network.feedRaw(FIRST, utf8("not a batch at all"));
  const item = new Writer().u64(BigInt(network.now)).u8(99).bytes(new Uint8Array(3)).copy();
  network.feedRaw(FIRST, item);
  for (const path of network.pathsOf(FIRST)) {
    for (const length of [0, 1, 31, 200]) network.deliver(FIRST, path, new Uint8Array(length).fill(length));
  }
  network.feed(FIRST, [{ type: "StreamData", stream: 4242, data: utf8("x") }]);
  network.run(1000);
  if (network.take(FIRST, "Refused").length >= 2) story.push("refused");
}

/** Asks for a node's identity as at its first start, and then with the public key that this told. */
function identity(network: RecordedNetwork, seed: Uint8Array): { id: Uint8Array; key: Uint8Array } {
  const ask = (knownKey: Uint8Array): Uint8Array => {
    const input = new Writer().u8(DERIVE.identity).raw(seed).text(network.name).bytes(knownKey).copy();
    return answerOf(network.ask("derive", input)).rest().slice();
  };
  const first = ask(new Uint8Array());
  const again = ask(first.subarray(32));
  if (hex(again) !== hex(first)) throw new Error("the known key leads to another identity");
  return { id: again.subarray(0, 32), key: again.subarray(32, 64) };
}

function ownerKey(network: RecordedNetwork): Uint8Array {
  const input = new Writer().u8(DERIVE.owner).raw(new Uint8Array(32).fill(7)).text(network.name).copy();
  return answerOf(network.ask("derive", input)).take(32).slice();
}

function grantFor(network: RecordedNetwork, peer: Uint8Array): Uint8Array {
  const expires = BigInt(network.now + 86_400_000);
  const input = new Writer()
    .u8(DERIVE.grant)
    .raw(new Uint8Array(32).fill(7))
    .text(network.name)
    .text("check");
  input.raw(peer).u64(BigInt(network.now)).u64(expires).bytes(new Uint8Array(32).fill(9));
  const grant = answerOf(network.ask("derive", input.copy())).rest().slice();
  const check = new Writer().u8(VERIFY.grant).bytes(grant).text(network.name).u64(BigInt(network.now)).copy();
  answerOf(network.ask("verify", check));
  return grant;
}

function answerOf(bytes: Uint8Array): Reader {
  const reader = new Reader(bytes);
  const code = reader.u16();
  if (code !== 0) throw new Error(`the core answers ${codeName(code)}`);
  return reader;
}

function hex(bytes: Uint8Array): string {
  return Buffer.from(bytes).toString("hex");
}

function equal(left: Uint8Array, right: Uint8Array): boolean {
  return Buffer.compare(left, right) === 0;
}

function concat(parts: readonly Uint8Array[]): Uint8Array {
  return new Uint8Array(Buffer.concat(parts));
}
