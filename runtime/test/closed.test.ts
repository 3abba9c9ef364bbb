import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join as joinPath } from "node:path";
import { after, before, describe, test } from "node:test";
import { MeshError } from "../src/codec/code.ts";
import type { MeshEvent } from "../src/driver/event.ts";
import { certificate, nodeKey } from "../src/entries/admission-node.ts";
import { memory, type NodeJoinOptions, type NodeMesh, sqlite } from "../src/entries/node.ts";
import { join as joinSlim } from "../src/entries/slim.ts";
import { Authority, type Terms } from "./authority.ts";
import { leaf, member, type TestNode, until } from "./support.ts";

const HOST = "127.0.0.1:7000";
const MEMBER: Terms = { address: HOST };
const seedOf = (byte: number): string => byte.toString(16).padStart(2, "0").repeat(32);

const closing: NodeMesh[] = [];
const folder = mkdtempSync(joinPath(tmpdir(), "selfsame-closed-"));
let authority: Authority;
let other: Authority;
let network: string;

before(async () => {
  authority = await Authority.of(200);
  other = await Authority.of(201);
  network = authority.network;
});
after(async () => {
  for (const mesh of closing) await mesh.close();
  rmSync(folder, { recursive: true });
});

const keyOf = (byte: number): Promise<string> => nodeKey({ network, seed: seedOf(byte) });

/** The options of a node that shows a certificate with these terms. */
async function admitted(byte: number, terms?: Terms): Promise<Partial<NodeJoinOptions>> {
  const admission = certificate({ certificate: authority.certify(await keyOf(byte), terms) });
  return { network, seed: seedOf(byte), admission };
}

async function memberOf(byte: number, more: Partial<NodeJoinOptions> = {}): Promise<TestNode> {
  const node = await member({ ...(await admitted(byte, MEMBER)), ...more });
  closing.push(node.mesh);
  return node;
}

async function leafOf(
  byte: number,
  bootstrap: string,
  more: Partial<NodeJoinOptions> = {},
): Promise<NodeMesh> {
  const mesh = await leaf(bootstrap, { ...(await admitted(byte)), ...more });
  closing.push(mesh);
  return mesh;
}

const ask = async (mesh: NodeMesh, name: string): Promise<string> =>
  (await mesh.fetch(`https://${name}.mesh/`, { unowned: true })).text();

const serve = (mesh: NodeMesh, name: string): Promise<void> =>
  mesh.serve(name, () => new Response(`from ${name}`), { unowned: true });

describe("a closed network", () => {
  test("lets its members and leaves call each other, with grants of an owner too", async () => {
    const first = await memberOf(1);
    const second = await memberOf(2, { bootstrap: first.bootstrap, ownerSeed: seedOf(90) });
    const guest = await leafOf(3, first.bootstrap, { owner: second.mesh.ownerKey });
    await serve(first.mesh, "first");
    await second.mesh.serve("owned", () => new Response("granted"));
    await serve(guest, "guest");
    assert.equal(await ask(guest, "first"), "from first");
    assert.equal(await (await guest.fetch("https://owned.mesh/")).text(), "granted");
    assert.equal(await ask(second.mesh, "guest"), "from guest");
    const status = await second.mesh.status();
    assert.equal(status.network, "test");
    assert.equal(second.mesh.id, status.id);
  });

  test("refuses a node without a certificate, and an option that does not fit the network", async () => {
    const first = await memberOf(4);
    const bare = leaf(first.bootstrap, { network, seed: seedOf(5) });
    await assert.rejects(bare, { name: "NoCertificate", message: /dns\(\{ domain \}\)/ });
    const open = leaf(first.bootstrap, { ...(await admitted(5)), network: "test" });
    await assert.rejects(open, { name: "BadConfig", message: /NAME@KEY/ });
    const half = leaf(first.bootstrap, { ...(await admitted(5)), network: "test@12" });
    await assert.rejects(half, { name: "BadConfig", message: /KEY/ });
    const wrong = leaf(first.bootstrap, { network, admission: "dns" as never });
    await assert.rejects(wrong, { name: "BadConfig", message: /certificate\(\)/ });
    // Somebody who leaves the key out is in another network.
    const outside = leaf(first.bootstrap, { network: "test", joinTimeoutMs: 1 });
    await assert.rejects(outside, { name: "WrongNetwork" });
  });

  test("refuses certificates that are damaged, of others, too early or too late, each with its code", async () => {
    const first = await memberOf(6);
    const key = await keyOf(7);
    const good = authority.certify(key);
    const damaged = `${good.slice(0, -3)}${good.endsWith("AAA") ? "BBB" : "AAA"}`;
    const cases: readonly (readonly [text: string | Uint8Array, name: string])[] = [
      [damaged, "BadSignature"],
      [good.slice(0, 80), "BadCertificate"],
      [authority.certify(await keyOf(8)), "BadCertificate"],
      [other.certify(key), "WrongIssuer"],
      [authority.certify(key, { from_ms: 120_000 }), "EarlyCertificate"],
      [authority.certify(key, { until_ms: -1 }), "ExpiredCertificate"],
      [authority.certify(key, MEMBER), "WrongRole"],
      ["no certificate!", "BadCertificate"],
      ["", "BadCertificate"],
      [new Uint8Array(), "BadCertificate"],
      [7 as never, "BadCertificate"],
      ["A".repeat(10_000_000), "TooLarge"],
      [new Uint8Array(321), "TooLarge"],
    ];
    for (const [text, name] of cases) {
      const joined = async (): Promise<NodeMesh> =>
        leaf(first.bootstrap, { network, seed: seedOf(7), admission: certificate({ certificate: text }) });
      await assert.rejects(joined, { name }, name);
    }
    // A minute is how far an honest clock may be off.
    await leafOf(7, first.bootstrap, {
      admission: certificate({ certificate: authority.certify(key, { from_ms: 30_000 }) }),
    });
  });

  test("holds a member to the address and the part that its certificate names", async () => {
    const elsewhere = certificate({
      certificate: authority.certify(await keyOf(9), { address: "node.example:443" }),
    });
    await assert.rejects(memberOf(9, { admission: elsewhere }), {
      name: "WrongAddress",
      message: /ws:\/\/127\.0\.0\.1.*node\.example:443/,
    });
    const ofLeaf = certificate({ certificate: authority.certify(await keyOf(9)) });
    await assert.rejects(memberOf(9, { admission: ofLeaf }), { name: "WrongRole", message: /--address/ });
  });
});

describe("selfsame/slim", () => {
  const compile = async (name: string): Promise<WebAssembly.Module> =>
    WebAssembly.compile(await readFile(new URL(`../core/${name}.wasm`, import.meta.url)));

  test("joins closed networks with their core, and says that the other does not know them", async () => {
    const { bootstrap } = await memberOf(40);
    const options = { network, seed: seedOf(41), storage: memory(), bootstrap, allowPrivate: true };
    const admission = certificate({ certificate: authority.certify(await keyOf(41)) });
    const mesh = await joinSlim({ ...options, admission, module: await compile("core-closed") });
    assert.equal((await mesh.status()).network, "test");
    await mesh.close();
    const module = await compile("core");
    await assert.rejects(joinSlim({ ...options, admission, module }), {
      name: "BadConfig",
      message: /core-closed\.wasm/,
    });
  });
});

describe("certificates of running nodes", () => {
  test("are renewed for the same id, and for no other key or address", async () => {
    const { mesh } = await memberOf(10);
    const key = await keyOf(10);
    await mesh.renewCertificate(authority.certify(key, { address: HOST, until_ms: 7_200_000 }));
    const moved = authority.certify(key, { address: "127.0.0.1:7001" });
    await assert.rejects(mesh.renewCertificate(moved), { name: "WrongSeat", message: /another address/ });
    const ofOther = authority.certify(await keyOf(11), MEMBER);
    await assert.rejects(mesh.renewCertificate(ofOther), { name: "BadCertificate" });
    await assert.rejects(mesh.renewCertificate("?"), { name: "BadCertificate" });
    const { mesh: open } = await member();
    closing.push(open);
    await assert.rejects(open.renewCertificate(ofOther), { name: "BadConfig", message: /open/ });
    await assert.rejects(open.revoke(authority.revoke([])), { name: "BadConfig", message: /open/ });
  });

  test("are kept: a node that starts again goes on with the one that was renewed", async () => {
    const first = await memberOf(12);
    const storage = sqlite(joinPath(folder, "renewed"));
    const key = await nodeKey({ network, storage });
    assert.equal(await nodeKey({ network, storage }), key, "the store keeps the seed");
    const expires_ms = Date.now() + 1500;
    const admission = certificate({ certificate: authority.certify(key, { until_ms: 1500 }) });
    const options = { network, storage, admission, log: () => undefined };
    const mesh = await leaf(first.bootstrap, options);
    await mesh.renewCertificate(authority.certify(key));
    await mesh.close();
    await until("the old certificate has expired", () => Date.now() > expires_ms);
    const again = await leaf(first.bootstrap, options);
    assert.equal(again.id, mesh.id);
    await again.close();
  });

  test("end the node when they expire", async () => {
    const first = await memberOf(14);
    const events: MeshEvent[] = [];
    const admission = certificate({
      certificate: authority.certify(await keyOf(15), { until_ms: 1500 }),
    });
    await leafOf(15, first.bootstrap, {
      admission,
      onEvent: (event) => events.push(event),
      log: () => undefined,
    });
    const ended = (): MeshEvent | undefined => events.find(({ type }) => type === "ended");
    await until("it has ended", () => ended() !== undefined);
    const event = ended();
    assert.equal(event?.type === "ended" && event.error.name, "ExpiredCertificate");
  });
});

describe("revocations", () => {
  test("part all members with the node at once, and keep it out until it has a later certificate", async () => {
    const first = await memberOf(20);
    const second = await memberOf(21, { bootstrap: first.bootstrap });
    const events: MeshEvent[] = [];
    const third = await memberOf(22, {
      bootstrap: first.bootstrap,
      onEvent: (event) => events.push(event),
      log: () => undefined,
    });
    await serve(third.mesh, "third");
    assert.equal(await ask(second.mesh, "third"), "from third");
    const key = await keyOf(22);
    await first.mesh.revoke(authority.revoke([key]));
    await until("both have parted with it", () =>
      [first, second].every(({ mesh }) =>
        events.some((event) => event.type === "peer-disconnected" && event.peer === mesh.id),
      ),
    );
    await assert.rejects(ask(second.mesh, "third"), MeshError);
    await third.mesh.close();
    // Signed before the revocation.
    const stale = authority.certify(key, { address: HOST, from_ms: -60_000 });
    const back = { bootstrap: second.bootstrap, log: () => undefined, joinTimeoutMs: 1 };
    await assert.rejects(memberOf(22, { ...back, admission: certificate({ certificate: stale }) }), {
      name: "RevokedCertificate",
    });
    const later = authority.certify(key, { address: HOST, from_ms: 0 });
    const again = await memberOf(22, { ...back, admission: certificate({ certificate: later }) });
    await serve(again.mesh, "again");
    assert.equal(await ask(first.mesh, "again"), "from again");
  });

  test("that are old, of another authority, damaged or too large are refused", async () => {
    const { mesh } = await memberOf(23);
    const older = authority.revoke([], 1);
    await mesh.revoke(authority.revoke([await keyOf(24)], 2));
    const good = authority.revoke([], 3);
    const damaged = `${good.slice(0, -3)}${good.endsWith("AAA") ? "BBB" : "AAA"}`;
    const elsewhere = await Authority.of(200, "elsewhere");
    const cases: readonly (readonly [list: string | Uint8Array, name: string])[] = [
      [older, "StaleRevocations"],
      [authority.revoke([], 2), "StaleRevocations"],
      [other.revoke([], 9), "WrongIssuer"],
      [elsewhere.revoke([], 9), "WrongIssuer"],
      [damaged, "BadSignature"],
      [good.slice(0, 40), "BadMessage"],
      ["?", "BadMessage"],
      ["", "BadMessage"],
      ["A".repeat(10_000_000), "TooLarge"],
      [new Uint8Array(20_000), "TooLarge"],
    ];
    for (const [list, name] of cases) await assert.rejects(mesh.revoke(list), { name }, name);
    await mesh.revoke(good);
  });

  test("may be given with the certificate; a newer list that is known has the last word", async () => {
    const first = await memberOf(25);
    const list = authority.revoke([await keyOf(26)], 5);
    const text = authority.certify(await keyOf(27), MEMBER);
    const storage = sqlite(joinPath(folder, "revocations"));
    const admission = certificate({ certificate: text, revocations: list });
    const options = { bootstrap: first.bootstrap, storage, admission };
    const second = await memberOf(27, options);
    const stranger = { bootstrap: second.bootstrap, joinTimeoutMs: 1, log: () => undefined };
    const early = authority.certify(await keyOf(26), { address: HOST, from_ms: -60_000 });
    await assert.rejects(memberOf(26, { ...stranger, admission: certificate({ certificate: early }) }), {
      name: "RevokedCertificate",
    });
    await second.mesh.revoke(authority.revoke([], 6));
    await second.mesh.close();
    await memberOf(27, options);
    assert.throws(() => certificate({ certificate: text, revocations: "?" }), { name: "BadMessage" });
  });

  test("end a node that they are about, and it does not start again", async () => {
    const list = authority.revoke([await keyOf(28)], Date.now());
    const text = authority.certify(await keyOf(28), { address: HOST, from_ms: -60_000 });
    const admission = certificate({ certificate: text, revocations: list });
    await assert.rejects(memberOf(28, { admission, log: () => undefined }), { name: "RevokedCertificate" });
  });
});

describe("the key of a node", () => {
  test("is that of its seed, and needs one", async () => {
    const key = await keyOf(30);
    assert.match(key, /^[0-9a-f]{64}$/);
    const [name = "", issuer = ""] = network.split("@");
    assert.equal(key, await nodeKey({ network: `${name}@${issuer.toUpperCase()}`, seed: seedOf(30) }));
    assert.notEqual(key, await nodeKey({ network: other.network, seed: seedOf(30) }));
    await assert.rejects(nodeKey({ network }), { name: "BadConfig", message: /seed/ });
    await assert.rejects(nodeKey({ network, seed: "1" }), { name: "BadConfig" });
    await assert.rejects(nodeKey({ network: "test@1", seed: seedOf(30) }), { name: "BadConfig" });
  });
});
