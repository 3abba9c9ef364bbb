import assert from "node:assert/strict";
import { describe, mock, test } from "node:test";
import type { Command } from "../src/codec/index.ts";
import type { Driver } from "../src/driver/driver.ts";
import { Names, type NamesParts } from "../src/driver/names.ts";
import { type LogRecord, MeshError, memory, type NodeMesh } from "../src/entries/node.ts";
import { leaf, member, OWNER_SEED, until } from "./support.ts";

const DAY_MS = 24 * 3_600_000;
const UNOWNED = { unowned: true } as const;

const inDays = (days: number): Date => new Date(Date.now() + days * DAY_MS);
const closeAll = async (...meshes: NodeMesh[]): Promise<void> => {
  for (const mesh of meshes) await mesh.close();
};

describe("an owned name", () => {
  test("is granted, served with the grant, and goes on under a renewed one", async () => {
    const owner = await member({ ownerSeed: OWNER_SEED });
    const { ownerKey } = owner.mesh;
    const server = await leaf(owner.bootstrap);
    const caller = await leaf(owner.bootstrap, { owner: ownerKey });
    const first = owner.mesh.grant("vault", server.id, { expires: inDays(1) });
    await server.serve("vault", () => new Response("safe"), { grant: first, version: "2", weight: 0.5 });
    await server.publish("vault", { grant: owner.mesh.grant("vault", server.id, { expires: inDays(2) }) });
    const [provider, ...more] = await caller.find("vault");
    assert.equal(more.length, 0);
    assert.equal(provider?.version, "2");
    assert.equal(provider?.weight, 0.5);
    assert.equal(await (await caller.fetch("https://vault.mesh/")).text(), "safe");
    await closeAll(caller, server, owner.mesh);
  });

  test("goes on without a peer that is revoked while it serves, until that one is granted anew", async () => {
    const owner = await member({ ownerSeed: OWNER_SEED });
    const { ownerKey, id } = owner.mesh;
    const [stays, goes] = [await leaf(owner.bootstrap), await leaf(owner.bootstrap)];
    const caller = await leaf(owner.bootstrap, { owner: ownerKey });
    const grant = (to: NodeMesh, revoke: string[] = []): string =>
      owner.mesh.grant("vault", to.id, { expires: inDays(1), revoke });
    const providers = async (): Promise<string[]> =>
      (await caller.find("vault")).map(({ peer }) => peer).sort();
    for (const mesh of [stays, goes]) {
      await mesh.serve("vault", () => new Response(mesh.id), { grant: grant(mesh) });
    }
    assert.deepEqual(await providers(), [stays.id, goes.id].sort());

    await stays.publish("vault", { grant: grant(stays, [goes.id]) });
    assert.deepEqual(await providers(), [stays.id]);
    for (let n = 0; n < 8; n++) {
      assert.equal(await (await caller.fetch("https://vault.mesh/")).text(), stays.id);
    }
    await goes.publish("vault", { grant: grant(goes) });
    assert.deepEqual(await providers(), [stays.id, goes.id].sort());

    const nine = Array.from({ length: 9 }, () => id);
    assert.throws(() => grant(stays, nine), { name: "BadConfig", message: /at most 8/ });
    assert.throws(() => grant(stays, ["no id"]), { message: /revoke/ });
    await closeAll(caller, stays, goes, owner.mesh);
  });

  test("changes its weight and version without its grant being given again", async () => {
    const owner = await member({ ownerSeed: OWNER_SEED });
    const server = await leaf(owner.bootstrap);
    const grant = owner.mesh.grant("canary", server.id, { expires: inDays(1) });
    await server.serve("canary", () => new Response("x"), { grant, version: "2", weight: 0.1 });
    await server.publish("canary", { weight: 0.6 });
    const [provider] = await owner.mesh.find("canary");
    assert.equal(provider?.weight, 0.6);
    assert.equal(provider?.version, "2");
    await assert.rejects(server.publish("canary", { weight: 7 }), { name: "BadConfig" });
    assert.equal((await server.status()).services[0]?.weight, 0.6);
    await closeAll(server, owner.mesh);
  });

  test("is not served with a grant for another peer, name or network, or one that has expired", async () => {
    const owner = await member({ ownerSeed: OWNER_SEED });
    const stranger = await member({ ownerSeed: OWNER_SEED, network: "other" });
    const server = await leaf(owner.bootstrap);
    const now = Date.now();
    mock.timers.enable({ apis: ["Date"], now: now - DAY_MS });
    const expired = owner.mesh.grant("vault", server.id, { expires: new Date(now - 1) });
    mock.timers.reset();
    const grants = [
      owner.mesh.grant("vault", owner.mesh.id, { expires: inDays(1) }),
      owner.mesh.grant("other", server.id, { expires: inDays(1) }),
      stranger.mesh.grant("vault", server.id, { expires: inDays(1) }),
      expired,
      "AAAA",
    ];
    for (const grant of grants) {
      await assert.rejects(
        server.serve("vault", () => new Response("stolen"), { grant }),
        { name: "BadGrant" },
      );
    }
    await assert.rejects(
      server.serve("vault", () => new Response(), { grant: "no base64!" }),
      { name: "BadConfig" },
    );
    await assert.rejects(owner.mesh.find("vault"), { name: "NoProvider" });
    assert.throws(() => server.grant("vault", server.id, { expires: inDays(1) }), { message: /ownerSeed/ });
    assert.throws(() => owner.mesh.grant("vault", server.id, { expires: new Date(0) }), {
      name: "BadConfig",
    });
    await closeAll(server, stranger.mesh, owner.mesh);
  });

  test("is handed to another node while requests go on, and not one of them fails", async () => {
    const owner = await member({ ownerSeed: OWNER_SEED });
    const { ownerKey } = owner.mesh;
    const before = await member({ bootstrap: owner.bootstrap });
    const after = await member({ bootstrap: owner.bootstrap });
    const caller = await leaf(owner.bootstrap, { owner: ownerKey });
    const late = await leaf(owner.bootstrap, { owner: ownerKey });
    const serveAt = ({ mesh }: { mesh: NodeMesh }): Promise<void> =>
      mesh.serve("shop", async (request) => new Response(`${mesh.id} ${await request.text()}`), {
        grant: owner.mesh.grant("shop", mesh.id, { expires: inDays(30) }),
      });
    const ask = async (mesh: NodeMesh, index: number): Promise<string> => {
      const response = await mesh.fetch("https://shop.mesh/", { method: "POST", body: `${index}` });
      const [server = "", echoed] = (await response.text()).split(" ");
      assert.equal(echoed, `${index}`);
      return server;
    };
    await serveAt(before);
    // Knows of the first node alone, and does not ask again before it calls.
    assert.equal(await ask(late, 0), before.mesh.id);
    let isOver = false;
    let count = 0;
    const answered: string[] = [];
    const calling = Promise.all(
      Array.from({ length: 4 }, async () => {
        while (!isOver) answered.push(await ask(caller, ++count));
      }),
    );
    calling.catch(() => undefined);
    try {
      await until("requests are answered", () => answered.includes(before.mesh.id));
      await serveAt(after);
      await before.mesh.withdraw("shop");
      assert.equal(await ask(late, 0), before.mesh.id);
      await until("the other answers all", async () => {
        const from = answered.length;
        await until("some are answered", () => answered.length > from + 20);
        return answered.slice(from).every((server) => server === after.mesh.id);
      });
    } finally {
      isOver = true;
    }
    await calling;
    await closeAll(late, caller, after.mesh, before.mesh, owner.mesh);
  });

  test("is withdrawn for every owner that it was published for, once", async () => {
    const owner = await member({ ownerSeed: OWNER_SEED });
    const handler = (): Response => new Response("x");
    await owner.mesh.serve("both", handler);
    await owner.mesh.serve("both", handler, UNOWNED);
    assert.equal((await owner.mesh.status()).services.length, 2);
    await owner.mesh.withdraw("both");
    assert.deepEqual((await owner.mesh.status()).services, []);
    await assert.rejects(owner.mesh.withdraw("both"), { name: "NoService", message: /both/ });
    await closeAll(owner.mesh);
  });
});

describe("a grant that a node made itself", () => {
  test("is kept, and made anew only when it is old or another's", async () => {
    const storage = memory();
    const names: string[] = [];
    for (const ownerSeed of [OWNER_SEED, OWNER_SEED, "22".repeat(32)]) {
      const { mesh } = await member({ ownerSeed, storage });
      await mesh.serve("kept", () => new Response("x"));
      names.push(...(await mesh.find("kept")).map(({ peer }) => peer));
      await mesh.close();
    }
    assert.equal(names.length, 3);
  });

  test("by somebody else is announced in the log before it expires", async () => {
    const owner = await member({ ownerSeed: OWNER_SEED });
    const log: LogRecord[] = [];
    const { mesh } = await member({ bootstrap: owner.bootstrap, log: (record) => log.push(record) });
    const grant = owner.mesh.grant("short", mesh.id, { expires: inDays(1) });
    await mesh.serve("short", () => new Response("x"), { grant });
    mesh.flush();
    mesh.flush();
    const told = log.filter(({ text }) => /the grant of short expires/.test(text));
    assert.deepEqual(
      told.map(({ level }) => level),
      ["warn"],
    );
    await closeAll(mesh, owner.mesh);
  });
});

test("a name without an owner needs none to change", async () => {
  const { mesh } = await member();
  await mesh.serve("free", () => new Response("x"), { ...UNOWNED, version: "1" });
  await mesh.publish("free", { weight: 0.25 });
  const [provider] = await mesh.find("free", UNOWNED);
  assert.equal(provider?.weight, 0.25);
  assert.equal(provider?.version, "1");
  await assert.rejects(mesh.publish("new"), (error: MeshError) => error.name === "BadConfig");
  await mesh.close();
});

describe("a name that nobody stores in time", () => {
  const nobody = new Uint8Array();
  const prepared = {
    name: "late",
    options: UNOWNED,
    grant: nobody,
    owner: nobody,
    due_ms: Number.POSITIVE_INFINITY,
    isOwn: false,
  };
  const late = new MeshError("TimedOut");
  const start = (isStored: () => boolean): { names: Names; commands: string[] } => {
    const commands: string[] = [];
    const command = async (input: (tag: number) => Command): Promise<void> => {
      const { type } = input(1);
      commands.push(type);
      if (type === "Publish" && !isStored()) throw late;
    };
    const driver = { command } as unknown as Driver;
    return { names: new Names({ driver } as unknown as NamesParts), commands };
  };

  test("is given up, so that nobody finds it later", async () => {
    const { names, commands } = start(() => false);
    await assert.rejects(names.publish(prepared), { name: "TimedOut" });
    assert.deepEqual(commands, ["Publish", "Withdraw"]);
    await assert.rejects(names.withdraw("late"), { name: "NoService" });
  });

  test("stays if it is to be tried on, and can be withdrawn", async () => {
    const { names, commands } = start(() => false);
    await assert.rejects(names.publish(prepared, true), { name: "TimedOut" });
    await names.withdraw("late");
    assert.deepEqual(commands, ["Publish", "Withdraw"]);
  });

  test("stays as it was before", async () => {
    let isStored = true;
    const { names, commands } = start(() => isStored);
    await names.publish(prepared);
    isStored = false;
    await assert.rejects(names.publish(prepared), { name: "TimedOut" });
    await names.withdraw("late");
    assert.deepEqual(commands, ["Publish", "Publish", "Withdraw"]);
  });
});
