import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { MeshError } from "../src/codec/code.ts";
import { join, memory, type NodeJoinOptions } from "../src/entries/node.ts";
import { freePort } from "./support.ts";

const PEER = "11".repeat(32);

/** Why a node cannot join with these options. */
async function whyNot(options: Partial<NodeJoinOptions>): Promise<MeshError> {
  try {
    const mesh = await join({ network: "refusals", storage: memory(), joinTimeoutMs: 1, ...options });
    await mesh.close();
  } catch (error) {
    assert.ok(error instanceof MeshError);
    return error;
  }
  return assert.fail("it joined");
}

describe("a node that cannot join is told why:", () => {
  test("its own address is private", async () => {
    const address = ["wss://node.example/.mesh", "ws://10.0.0.1:7000"];
    const { name, message } = await whyNot({ address });
    assert.equal(name, "ForbiddenAddress");
    assert.match(message, /^the address ws:\/\/10\.0\.0\.1:7000 is private: .* allowPrivate/);
  });

  test("its own address is none", async () => {
    for (const address of ["wss://node.example/elsewhere", "wss://me@node.example"]) {
      const { name, message } = await whyNot({ address });
      assert.equal(name, "BadAddress", address);
      assert.ok(message.startsWith(`${address} is no address`), message);
    }
  });

  test("its bootstrap is private", async () => {
    const port = await freePort();
    const url = `ws://127.0.0.1:${port}/.mesh`;
    const options = { network: "refusals", storage: memory(), allowPrivate: true };
    await using member = await join({ ...options, listen: port, address: url });
    for (const address of [undefined, "wss://node.example/.mesh"]) {
      const { name, message } = await whyNot({
        bootstrap: `${url}#${member.id}`,
        address,
        joinTimeoutMs: 5000,
      });
      assert.equal(name, "ForbiddenAddress", message);
      assert.equal(message, `the bootstrap ${url} is private: set allowPrivate if that is meant`);
    }
  });

  test("nobody listens at the address of the bootstrap", async () => {
    const place = `127.0.0.1:${await freePort()}`;
    for (const scheme of ["ws", "tcp"]) {
      const { name, message } = await whyNot({ bootstrap: `${scheme}://${place}#${PEER}` });
      assert.equal(name, "DialFailed");
      assert.ok(message.includes(`${scheme}://${place}: connect ECONNREFUSED`), message);
    }
    // A path of POSTs is open before the first of them.
    const { name, message } = await whyNot({ bootstrap: `http://${place}/.mesh#${PEER}` });
    assert.equal(name, "Disconnected");
    assert.ok(message.includes(`http://${place}/.mesh: connect ECONNREFUSED`), message);
  });

  test("the name of the bootstrap leads nowhere", async () => {
    const { message } = await whyNot({ bootstrap: `ws://none.invalid:1#${PEER}` });
    assert.match(message, /ws:\/\/none\.invalid:1: .*(ENOTFOUND|EAI_AGAIN)/);
  });
});
