import assert from "node:assert/strict";
import { afterEach, beforeEach, describe, test } from "node:test";
import type { MeshEvent, NodeJoinOptions } from "../src/entries/node.ts";
import { member, type TestNode, until } from "./support.ts";

type Told = Extract<MeshEvent, { type: "duplicate-identity" }>;

describe("two nodes with one identity", () => {
  const seed = "5e".repeat(32);
  let neighbour: TestNode;
  let told: Told[];
  let nodes: TestNode[];

  beforeEach(async () => {
    told = [];
    neighbour = await member({ onEvent: (event) => note(event) });
    nodes = [neighbour];
  });
  afterEach(() => Promise.all(nodes.map(({ mesh }) => mesh.close())));

  function note(event: MeshEvent): void {
    if (event.type === "duplicate-identity") told.push(event);
  }

  /** Starts a node with the identity; resolves with the error with which it ends, if it does. */
  async function start(
    options: Partial<NodeJoinOptions> = {},
  ): Promise<{ node: TestNode; ended: Promise<Error> }> {
    const { promise: ended, resolve } = Promise.withResolvers<Error>();
    const onEvent = (event: MeshEvent): void => {
      note(event);
      if (event.type === "ended") resolve(event.error);
    };
    const node = await member({
      seed,
      bootstrap: neighbour.bootstrap,
      onEvent,
      log: () => undefined,
      ...options,
    });
    nodes.push(node);
    return { node, ended };
  }

  test("are told apart, and the later start ends", async () => {
    const first = await start();
    const later = await start().catch((error: Error) => ({ node: undefined, ended: Promise.resolve(error) }));
    assert.equal((await later.ended).name, "DuplicateIdentity");
    const { mesh } = first.node;
    await until("the first one is in the ring", async () => {
      const { joined, successors } = await mesh.status();
      return joined && successors[0]?.id === neighbour.mesh.id;
    });
    const event = told.find(({ peer }) => peer === mesh.id) ?? assert.fail("nobody was told");
    const addresses = event.addresses.flat();
    assert.equal(new Set(addresses).size, 2, addresses.join(" "));
    assert.ok(addresses.includes(first.node.bootstrap.split("#")[0] ?? ""));
  });

  test("leave the later start in place when it takes over", async () => {
    const first = await start();
    const later = await start({ takeOver: true });
    assert.equal((await first.ended).name, "DuplicateIdentity");
    await assert.rejects(first.node.mesh.status(), { name: "DuplicateIdentity" });
    await until("the later one is in the ring", async () => {
      const { successors, predecessor } = await later.node.mesh.status();
      return successors[0]?.id === neighbour.mesh.id && predecessor?.id === neighbour.mesh.id;
    });
  });
});
