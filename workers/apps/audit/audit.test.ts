/** The audit log on a ring of three members, each of which holds a replica of its capsule. */
import assert from "node:assert/strict";
import { createServer } from "node:net";
import { after, before, describe, it } from "node:test";
import { join, type Mesh, memory } from "selfsame";
import {
  type Capsule,
  CapsuleModule,
  capsuleModule,
  openCapsule,
  openReplica,
  type Replica,
  serveCapsules,
} from "selfsame/capsule";

import { AuditLog, audit, type Overview, type SignIn } from "./index.ts";

const OWNER = "11".repeat(32);
const WRITERS = ["22".repeat(32), "33".repeat(32)] as const;
const MEMBERS = 3;

const tools = await CapsuleModule.instantiate(await capsuleModule());
const bytes = (hex: string): Uint8Array => new Uint8Array(Buffer.from(hex, "hex"));
const keyOf = (seed: string): string => Buffer.from(tools.deriveKey(bytes(seed))).toString("hex");
const metadata = tools.signMetadata({ seed: OWNER, writers: WRITERS.map(keyOf), sealed: true });

const signIn = (user: string): SignIn => ({
  time_ms: 1_800_000_000_000,
  user,
  status: 401,
  answeredBy: "here",
  checkedBy: "there",
});

type Member = { mesh: Mesh; replica: Replica; address: string };
const members: Member[] = [];
let owner: Capsule;
let logs: [AuditLog, AuditLog];

before(async () => {
  for (let index = 0; index < MEMBERS; index++) members.push(await startMember());
  const [first, second] = members as [Member, Member];
  owner = await openCapsule({ mesh: first.mesh, metadata, seed: OWNER, storage: memory() });
  logs = [first, second].map(
    ({ mesh }, index) => new AuditLog({ mesh, metadata, seed: WRITERS[index] ?? "", storage: memory() }),
  ) as [AuditLog, AuditLog];
});

after(async () => {
  for (const log of logs) await log.close();
  await owner.close();
  for (const { mesh, replica } of members.reverse()) {
    await mesh.close();
    await replica.close();
  }
});

async function startMember(): Promise<Member> {
  const port = await freePort();
  const address = `ws://127.0.0.1:${port}/.mesh`;
  const mesh = await join({
    network: "audit",
    listen: { port, hostname: "127.0.0.1" },
    address,
    bootstrap: members.map((member) => `${member.address}#${member.mesh.id}`),
    storage: memory(),
    allowPrivate: true,
  });
  const replica = await openReplica({ storage: memory() });
  const { published } = await serveCapsules(mesh, replica, { hold: [metadata] });
  await published;
  return { mesh, replica, address };
}

async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((listening) => server.listen(0, "127.0.0.1", listening));
  const { port } = server.address() as { port: number };
  await new Promise((closed) => server.close(closed));
  return port;
}

const get = (log: AuditLog, path: string) =>
  audit(log, { servedBy: "test" }).fetch(new Request(`https://audit.mesh${path}`));

describe("the audit log", () => {
  it("cannot be written by whom the owner has given no key, and says so to who wanted to", async () => {
    await assert.rejects(logs[0].note(signIn("too early")), { name: "NotAReader" });
    await owner.govern({ readers: [...WRITERS, OWNER].map((seed) => tools.deriveReader(bytes(seed))) });
    assert.match(await logs[0].note(signIn("ada")), /^[0-9a-f]{64}$/);
  });

  it("is written by two at once, each on its own branch, and merged; both verify the same", async () => {
    const wave = (from: number) =>
      Promise.all(logs.flatMap((log) => [0, 1, 2].map((index) => log.note(signIn(`user ${from + index}`)))));
    const names = [...(await wave(0)), ...(await wave(3)), ...(await wave(6)), ...(await wave(9))];
    assert.equal(new Set(names).size, 24);
    const [one, other] = await Promise.all(logs.map((log) => log.overview()));
    assert.deepEqual(one, other);
    assert.ok(one);
    // The owner's grant, the first sign-in, and those of the waves.
    assert.deepEqual(one.writers, { 0: 1, 1: 13, 2: 12 });
    assert.ok(one.merges >= 2, `${one.merges} merges`);
    assert.ok(one.isWhole && one.heads.length <= 2);
  });
});

describe("the service audit", () => {
  it("tells what was verified, and nothing of what the records hold", async () => {
    const response = await get(logs[0], "/");
    const text = await response.text();
    assert.equal(response.headers.get("served-by"), "test");
    const overview = JSON.parse(text) as Overview & { verifiedBy: string };
    assert.deepEqual([overview.verifiedBy, overview.isWhole], ["test", true]);
    // Names and keys are long words that have any letters.
    assert.ok(!/ada|user/.test(text.replaceAll(/[0-9a-z]{52,}/g, "")));
  });

  it("gives a file that proves a record, whose body stays sealed", async () => {
    const name = await logs[0].note(signIn("grace"));
    const response = await get(logs[0], `/proof/${name}`);
    const info = tools.verifyProof(new Uint8Array(await response.arrayBuffer()));
    assert.equal(info.name, name);
    assert.ok(!Buffer.from(info.body ?? []).includes("grace"));
  });

  it("says what is wrong", async () => {
    assert.equal((await get(logs[0], "/proof/abc")).status, 400);
    assert.equal((await get(logs[0], `/proof/${"0".repeat(64)}`)).status, 404);
    assert.equal((await get(logs[0], "/other")).status, 404);
    const nobody = {
      overview: () => Promise.reject(new Error("nobody answers")),
      prove: () => Promise.reject(new Error("nobody answers")),
    };
    const response = await audit(nobody, { servedBy: "test" }).fetch(new Request("https://audit.mesh/"));
    assert.equal(response.status, 503);
    assert.match(await response.text(), /nobody answers/);
  });
});

it("the audit log goes on when a replica is away", async () => {
  const away = members.at(-1);
  assert.ok(away);
  await away.mesh.close();
  const name = await logs[1].note(signIn("while one was away"));
  const { heads } = await logs[0].overview();
  assert.ok(heads.includes(name));
});
