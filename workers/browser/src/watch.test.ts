import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { CoreStatus, NodeInfo, Provider } from "selfsame/codec";

import { changes, look } from "./watch.ts";

const id = (start: string): string => start.padEnd(64, "0");
const member = (start: string, domain: string): NodeInfo => ({
  id: id(start),
  role: "member",
  addresses: ["ws://127.0.0.1:1/.mesh"],
  domain,
});
const members = [member("10", "workerd"), member("80", "deno")];
const leaf: NodeInfo = { id: id("40"), role: "leaf", addresses: [`relay:${id("10")}`], domain: "browser" };
const own: CoreStatus = {
  id: id("c0"),
  network: "test",
  role: "leaf",
  joined: true,
  addresses: [],
  predecessor: null,
  successors: [],
  fingers: [],
  relays: [member("80", "deno")],
  peers: [id("80")],
  services: [{ name: "hello", version: "", weight: 1 }],
  objects: 0,
  counters: {},
  membership: null,
};
const provider = (node: NodeInfo): Provider => ({
  peer: node.id,
  version: "",
  weight: 1,
  node,
  ejected: false,
  inFlight: 0,
  latency_ms: null,
});
const mesh = {
  status: async () => own,
  findNode: async (target: string) => members.find((node) => node.id >= target) ?? member("10", "workerd"),
  find: async (name: string) => {
    if (name === "check") return members.map(provider);
    const gone = provider(member("20", "node"));
    if (name === "other") return [provider(leaf), { ...provider(leaf), peer: id("ee"), node: null }, gone];
    throw new Error("nobody serves this name");
  },
  answers: async () => false,
};

describe("a look at the ring", () => {
  it("shows members, the page itself, leaves that serve a name, and who relays for whom", async () => {
    const ring = await look(mesh, ["check", "other", "nothing"]);
    assert.deepEqual(
      ring.nodes.map(({ id, role, label, services }) => [id.slice(0, 2), role, label, services]),
      [
        ["10", "member", "workerd", ["check"]],
        ["80", "member", "deno", ["check"]],
        ["c0", "leaf", "browser", ["hello"]],
        ["40", "leaf", "browser", ["other"]],
      ],
    );
    assert.deepEqual(
      ring.nodes.map((node) => node.relays.map((relay) => relay.slice(0, 2))),
      [[], [], ["80"], ["10"]],
    );
    assert.deepEqual(ring.sessions, [id("80")]);
    assert.equal(ring.membership, null);
    assert.deepEqual(
      ring.services.map(({ name, replicas }) => [name, replicas.map(({ label }) => label)]),
      [
        ["check", ["workerd", "deno"]],
        ["other", ["browser"]],
      ],
    );
  });

  it("keeps a node that the ring has lost while it answers calls", async () => {
    const before = await look(mesh, ["check"]);
    const lost = { ...mesh, findNode: async () => member("10", "workerd") };
    const asked: string[] = [];
    const answering = async (node: string): Promise<boolean> => asked.push(node) > 0 && node === id("80");
    const after = await look({ ...lost, answers: answering }, ["check"], before);
    assert.deepEqual(changes(before, after), []);
    assert.deepEqual(after.services, before.services);
    assert.deepEqual(asked, [id("80")]);
    assert.deepEqual(changes(after, await look(lost, [], after)), ["deno 800000 is gone"]);
  });

  it("takes a node that cannot be asked for gone", async () => {
    const before = await look(mesh, ["other"]);
    const after = await look({ ...mesh, answers: () => Promise.reject(new Error("no way")) }, [], before);
    assert.deepEqual(changes(before, after), ["browser 400000 is gone"]);
  });

  it("fails when the node cannot look around", async () => {
    const lost = { ...mesh, findNode: () => Promise.reject(new Error("no bootstrap answered")) };
    await assert.rejects(look(lost, []), /no bootstrap/);
  });
});

describe("changes", () => {
  it("are told in words, and the first look is none", async () => {
    const before = await look(mesh, []);
    const after = await look(mesh, ["other"]);
    assert.deepEqual(changes(undefined, after), []);
    assert.deepEqual(changes(after, after), []);
    assert.deepEqual(changes(before, after), ["browser 400000 joined", "browser 400000 serves other"]);
    assert.deepEqual(changes(after, before), ["browser 400000 is gone"]);
  });
});
