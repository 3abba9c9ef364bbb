import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { describe, test } from "node:test";
import { MeshError } from "../src/codec/code.ts";
import { join, type LogRecord, memory, type NodeJoinOptions, NodeMesh } from "../src/entries/node.ts";
import { leafPlatform } from "../src/entries/slim.ts";
import { checkedDiallers } from "../src/transports/checked-dial.ts";
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
    assert.match(message, /ws:\/\/10\.0\.0\.1:7000 is private: .* allowPrivate/);
  });

  test("its own address is none", async () => {
    for (const address of ["wss://node.example/elsewhere", "wss://me@node.example"]) {
      const { name, message } = await whyNot({ address });
      assert.equal(name, "BadAddress", address);
      assert.ok(message.startsWith(`${address}: an address is like`), message);
    }
  });

  test("its bootstrap is private", async () => {
    const port = await freePort();
    const url = `ws://127.0.0.1:${port}/.mesh`;
    const options = { network: "refusals", storage: memory(), allowPrivate: true };
    await using member = await join({ ...options, listen: port, address: url });
    const text = `joining through ${url}, a private address was refused: set allowPrivate if that is meant`;
    for (const address of [undefined, "wss://node.example/.mesh"]) {
      const told: LogRecord[] = [];
      const { name, message } = await whyNot({
        bootstrap: `${url}#${member.id}`,
        address,
        joinTimeoutMs: 3000,
        log: (record) => told.push(record),
      });
      assert.equal(name, "NoBootstrap", message);
      assert.equal(message, text);
      // Once, at the first failure, and not only when it gives up.
      assert.deepEqual(told, [
        { level: "warn", code: "NoBootstrap", path: 0, text: `joining failed and is tried again: ${text}` },
      ]);
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

/** A node that listens at no address of its own record, as behind a reverse proxy, and has not joined. */
async function unjoined(options: Partial<NodeJoinOptions> = {}): Promise<NodeMesh> {
  const core = new URL("../core/core.wasm", import.meta.url);
  const compile = async (): Promise<WebAssembly.Module> => WebAssembly.compile(await readFile(core));
  const configured = { network: "refusals", ...options };
  const platform = leafPlatform(compile, checkedDiallers(configured));
  const mesh = await NodeMesh.open<NodeMesh>(configured, memory(), platform, []);
  await mesh.listen({ port: 0, hostname: "127.0.0.1" });
  return mesh;
}

test("a bootstrap that has not joined itself is waited for", async () => {
  for (const address of [undefined, "wss://other.example/.mesh"]) {
    await using first = await unjoined({ address: "wss://node.example/.mesh" });
    const failures: string[] = [];
    const joined = Promise.withResolvers<void>();
    await using second = await join({
      network: "refusals",
      address,
      storage: memory(),
      bootstrap: `ws://127.0.0.1:${first.port}/.mesh#${first.id}`,
      log: ({ code, text }) => {
        failures.push(`${code}: ${text}`);
        joined.resolve(first.join());
      },
    });
    await joined.promise;
    assert.equal(failures.length, 1, failures.join());
    assert.match(failures[0] ?? "", /^NoBootstrap: .*have not joined yet themselves/);
    assert.ok(second.isJoined);
  }
});
