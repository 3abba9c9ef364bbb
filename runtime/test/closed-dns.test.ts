import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join as joinPath } from "node:path";
import { after, afterEach, before, beforeEach, describe, type TestContext, test } from "node:test";
import { fromBase64Url, fromHex } from "../src/codec/hex.ts";
import type { Applicant, Membership } from "../src/driver/admission.ts";
import { parseNetwork } from "../src/driver/network-name.ts";
import { certificate, type DnsOptions, dns, nodeKey } from "../src/entries/admission-node.ts";
import { type NodeJoinOptions, type NodeMesh, sqlite } from "../src/entries/node.ts";
import { Authority, type Terms } from "./authority.ts";
import { leaf, member } from "./support.ts";
import { flagsOf, type Misbehaviour, SERVFAIL, sendMessage, ZoneServer } from "./zone-server.ts";

const DOMAIN = "ring.example";
const HOST = "127.0.0.1:7000";
const HOUR_MS = 3_600_000;
const MINUTE_MS = 60_000;
const quiet = (): undefined => undefined;
const seedOf = (byte: number): string => byte.toString(16).padStart(2, "0").repeat(32);

/** Meshes of the test that runs: others move the clock. */
const closing: NodeMesh[] = [];
const folder = mkdtempSync(joinPath(tmpdir(), "selfsame-closed-dns-"));
let zone: ZoneServer;
let authority: Authority;
let network: string;
let options: DnsOptions;

before(async () => {
  zone = await ZoneServer.start();
  authority = await Authority.of(200);
  network = authority.network;
  options = { domain: DOMAIN, dnsOverHttps: zone.url };
});
beforeEach(() => {
  zone.misbehaviour = undefined;
  zone.asked.length = 0;
});
afterEach(async () => {
  for (const mesh of closing.splice(0)) await mesh.close();
});
after(() => {
  zone.close();
  rmSync(folder, { recursive: true });
});

const keyOf = (byte: number): Promise<string> => nodeKey({ network, seed: seedOf(byte) });

/** Gives a key these certificates in the zone. */
function publish(key: string, certificates: readonly string[]): void {
  const values = certificates.map((text) => `selfsame1=${text}`);
  // A string has at most 255 bytes.
  const strings = values.map((value) => value.match(/.{1,255}/g) ?? [""]);
  zone.set(authority.nameOf(key, DOMAIN), strings);
}

async function joined(start: Promise<NodeMesh>): Promise<NodeMesh> {
  const mesh = await start;
  closing.push(mesh);
  return mesh;
}

const optionsOf = (byte: number, more: Partial<NodeJoinOptions> = {}): Partial<NodeJoinOptions> => {
  return { network, seed: seedOf(byte), admission: dns(options), ...more };
};

/** A node that wants to be admitted, with a store in memory and what it has said. */
interface TestApplicant extends Applicant {
  readonly kept: Map<string, Uint8Array>;
  readonly said: string[];
}

async function applicantOf(byte: number): Promise<TestApplicant> {
  const { name, authority: issuer } = parseNetwork(network);
  const kept = new Map<string, Uint8Array>();
  const said: string[] = [];
  return {
    network: name,
    authority: issuer ?? new Uint8Array(),
    key: fromHex(await keyOf(byte), 32, "the key"),
    role: "leaf",
    addresses: [],
    state: {
      own: (of) => kept.get(of),
      setOwn: async (values) => {
        for (const [of, value] of Object.entries(values)) {
          if (value === null) kept.delete(of);
          else kept.set(of, value);
        }
      },
    },
    log: (_, text) => said.push(text),
    kept,
    said,
  };
}

/** Lets a test move the time of day. */
function clockOf(t: TestContext): { advance: (ms: number) => void } {
  t.mock.timers.enable({ apis: ["Date"], now: Date.now() });
  return { advance: (ms) => t.mock.timers.setTime(Date.now() + ms) };
}

const bytesOf = (text: string): Uint8Array => fromBase64Url(text, "a certificate");
const sign = async (byte: number, terms?: Terms): Promise<string> =>
  authority.certify(await keyOf(byte), terms);

describe("a node that finds its certificate in the DNS", () => {
  test("joins, and members ask for newcomers", async () => {
    publish(await keyOf(1), [await sign(1, { address: HOST })]);
    publish(await keyOf(2), [await sign(2)]);
    const { mesh, bootstrap } = await member(optionsOf(1));
    closing.push(mesh);
    await mesh.serve("hello", () => new Response("hello"), { unowned: true });
    const guest = await joined(leaf(bootstrap, optionsOf(2)));
    const answer = await guest.fetch("https://hello.mesh/", { unowned: true });
    assert.equal(await answer.text(), "hello");
    assert.equal(new Set(zone.asked).size, 2);
  });

  test("is told its key and the command when there is none", async () => {
    const key = await keyOf(3);
    const start = member(optionsOf(3));
    const message = new RegExp(`under ring\\.example .*authority dns sign --network test --node ${key}`);
    await assert.rejects(start, { name: "NoCertificate", message });
  });

  test("takes of several certificates the one that counts for longest, and minds no others", async () => {
    const best = await sign(4, { until_ms: 2 * HOUR_MS });
    const late = await sign(4, { from_ms: HOUR_MS, until_ms: 9 * HOUR_MS });
    const others = [await sign(5), "AAAA", await sign(4), late];
    publish(await keyOf(4), [...others.slice(0, 2), best, ...others.slice(2)]);
    const membership = await dns(options).admit(await applicantOf(4));
    assert.deepEqual(membership.certificate, bytesOf(best));
  });

  for (const [what, name, certificates] of [
    ["of another authority", "WrongIssuer", async () => (await Authority.of(201)).certify(await keyOf(6))],
    ["of another key", "BadCertificate", () => sign(7)],
    ["that has expired", "ExpiredCertificate", () => sign(6, { until_ms: -1 })],
    ["that is early", "EarlyCertificate", () => sign(6, { from_ms: HOUR_MS, until_ms: 2 * HOUR_MS })],
    ["of a member, for a leaf", "WrongRole", () => sign(6, { address: HOST })],
    ["that is none", "BadCertificate", async () => "AAAA"],
    ["that is too long", "TooLarge", async () => "A".repeat(428)],
    ["that is no base64url", "BadDnsValue", async () => "!"],
  ] as const) {
    test(`is refused with a code when there is only one ${what}`, async () => {
      publish(await keyOf(6), [await certificates()]);
      await assert.rejects(dns(options).admit(await applicantOf(6)), { name });
    });
  }

  for (const [what, name, misbehaviour] of [
    [
      "fails",
      "DnsFailed",
      (response, { id, questions }) =>
        sendMessage(response, { type: "response", id, questions, flags: flagsOf(SERVFAIL) }),
    ],
    [
      "answers another question",
      "WrongDnsAnswer",
      (response, { id }) =>
        sendMessage(response, {
          type: "response",
          id,
          flags: flagsOf(0),
          questions: [{ type: "TXT", name: "x" }],
        }),
    ],
    [
      "answers with garbage",
      "WrongDnsAnswer",
      (response) => response.setHeader("content-type", "application/dns-message").end(Buffer.alloc(300, 7)),
    ],
    [
      "answers with nothing",
      "WrongDnsAnswer",
      (response) => response.setHeader("content-type", "application/dns-message").end(),
    ],
    [
      "answers with half of a message",
      "BadDnsMessage",
      (response, query) =>
        response.setHeader("content-type", "application/dns-message").end(zone.answerTo(query).slice(0, -20)),
    ],
    [
      "answers with more than a message",
      "DialFailed",
      (response) =>
        response.setHeader("content-type", "application/dns-message").end(Buffer.alloc(10_000_000)),
    ],
    [
      "answers with a page",
      "DialFailed",
      (response) => response.setHeader("content-type", "text/html").end("hi"),
    ],
    [
      "sends elsewhere",
      "DialFailed",
      (response) => response.writeHead(307, { location: `${zone.url}/elsewhere` }).end(),
    ],
    ["breaks off", "DialFailed", (response) => response.destroy()],
  ] as readonly (readonly [string, string, Misbehaviour])[]) {
    test(`is told when the resolver ${what}`, async () => {
      publish(await keyOf(8), [await sign(8)]);
      zone.misbehaviour = misbehaviour;
      await assert.rejects(dns(options).admit(await applicantOf(8)), { name });
      assert.equal(zone.asked.length, 3, "tries");
    });
  }

  for (const [what, misbehaviour] of [
    ["never answers", quiet],
    [
      "never ends its answer",
      (response) => response.setHeader("content-type", "application/dns-message").write(Buffer.alloc(20)),
    ],
  ] as readonly (readonly [string, Misbehaviour])[]) {
    test(`is told when the resolver ${what}`, async (t) => {
      zone.misbehaviour = misbehaviour;
      const { timeout } = AbortSignal;
      t.mock.method(AbortSignal, "timeout", () => timeout.call(AbortSignal, 50));
      await assert.rejects(dns(options).admit(await applicantOf(8)), { name: "TimedOut" });
    });
  }

  test("needs options that can be used", async () => {
    const bad = (wrong: object): void => {
      assert.throws(() => dns({ domain: DOMAIN, ...wrong }), { name: "BadConfig" });
    };
    bad({ dnsOverHttps: "ftp://dns.example" });
    bad({ dnsOverHttps: zone.url, nameServers: ["127.0.0.1"] });
    bad({ nameServers: ["dns.example"] });
    bad({ nameServers: [] });
    assert.throws(() => dns({ domain: 7 as never }), { name: "BadDomain" });
    const admission = dns({ ...options, domain: "ring_example" });
    await assert.rejects(member(optionsOf(1, { admission })), { name: "BadDomain" });
  });
});

describe("a certificate out of the DNS", () => {
  const certified: string[] = [];
  const certify = async (certificate: Uint8Array): Promise<void> => {
    certified.push(Buffer.from(certificate).toString("base64url"));
  };
  beforeEach(() => {
    certified.length = 0;
  });

  /** A membership by a certificate for an hour, and what the node is. */
  async function admittedFor(byte: number): Promise<{ applicant: TestApplicant; membership: Membership }> {
    publish(await keyOf(byte), [await sign(byte)]);
    const applicant = await applicantOf(byte);
    return { applicant, membership: await dns(options).admit(applicant) };
  }

  test("is looked for again once half of its time is over, and not before", async (t) => {
    const clock = clockOf(t);
    const { membership } = await admittedFor(10);
    assert.equal(membership.tend(certify), undefined);
    clock.advance(29 * MINUTE_MS);
    assert.equal(membership.tend(certify), undefined);
    const next = await sign(10);
    publish(await keyOf(10), [next]);
    clock.advance(2 * MINUTE_MS);
    const lookup = membership.tend(certify);
    assert.equal(membership.tend(certify), undefined, "one lookup at a time");
    await lookup;
    assert.deepEqual(certified, [next]);
    assert.deepEqual(membership.certificate, bytesOf(next));
    assert.equal(membership.tend(certify), undefined);
  });

  test("is looked for at halves of what is left while there is no later one", async (t) => {
    const clock = clockOf(t);
    const { applicant, membership } = await admittedFor(11);
    let lookups = 0;
    zone.misbehaviour = (response) => response.destroy();
    for (let minutes = 0; minutes < 59; minutes++) {
      clock.advance(MINUTE_MS);
      const lookup = membership.tend(certify);
      if (lookup === undefined) continue;
      lookups++;
      await lookup;
    }
    assert.ok(lookups >= 5 && lookups <= 7, `${lookups}`);
    assert.equal(applicant.said.length, lookups);
    assert.match(applicant.said[0] ?? "", /not renewed: .*cannot be reached/);
    assert.deepEqual(certified, []);
  });

  test("stays in use when the core refuses the next one", async (t) => {
    const clock = clockOf(t);
    const { applicant, membership } = await admittedFor(12);
    const { certificate } = membership;
    clock.advance(31 * MINUTE_MS);
    publish(await keyOf(12), [await sign(12)]);
    await membership.tend(() => Promise.reject(new Error("refused")));
    assert.equal(membership.certificate, certificate);
    assert.match(applicant.said[0] ?? "", /refused/);
  });

  test("is kept: an outage of the DNS stops no node that starts again while it counts", async (t) => {
    const clock = clockOf(t);
    const { applicant, membership } = await admittedFor(13);
    zone.asked.length = 0;
    const again = await dns(options).admit(applicant);
    assert.deepEqual(again.id, membership.id);
    assert.equal(zone.asked.length, 0, "nothing is due");
    clock.advance(40 * MINUTE_MS);
    zone.misbehaviour = (response) => response.destroy();
    const without = await dns(options).admit(applicant);
    assert.deepEqual(without.certificate, membership.certificate);
    assert.match(applicant.said[0] ?? "", /kept is used: .*cannot be reached/);
    clock.advance(30 * MINUTE_MS);
    await assert.rejects(dns(options).admit(applicant), { name: "DialFailed" });
  });

  test("gives way to one that ends earlier when it was revoked, also after a start", async (t) => {
    const clock = clockOf(t);
    const { applicant, membership } = await admittedFor(14);
    await membership.distrust();
    assert.equal(membership.tend(certify), undefined, "not at once");
    const next = await sign(14, { until_ms: HOUR_MS / 2 });
    publish(await keyOf(14), [next]);
    clock.advance(2 * MINUTE_MS);
    await membership.tend(certify);
    assert.deepEqual(certified, [next]);
    await membership.distrust();
    const last = await sign(14, { until_ms: HOUR_MS / 4 });
    publish(await keyOf(14), [last]);
    assert.deepEqual((await dns(options).admit(applicant)).certificate, bytesOf(last));
    await membership.distrust();
    zone.misbehaviour = (response) => response.destroy();
    // Whoever said so may have lied.
    assert.deepEqual((await dns(options).admit(applicant)).certificate, bytesOf(next));
  });

  test("that was kept and is damaged, or of another network, is not used", async () => {
    const { applicant } = await admittedFor(15);
    const [[name = "", value = new Uint8Array()] = []] = [...applicant.kept];
    for (const damaged of [value.slice(0, -1), value.slice(0, 8), new Uint8Array(), new Uint8Array(400)]) {
      applicant.kept.set(name, damaged);
      zone.asked.length = 0;
      await dns(options).admit(applicant);
      assert.equal(zone.asked.length, 1);
    }
    const elsewhere = { ...applicant, network: "elsewhere" };
    await assert.rejects(dns(options).admit(elsewhere), { name: "BadCertificate" });
  });

  test("survives in a store with a process", async () => {
    const storage = sqlite(joinPath(folder, "kept"));
    const key = await nodeKey({ network, storage });
    // A member that looks nobody up.
    const admission = certificate({ certificate: await sign(1, { address: HOST }) });
    const { mesh, bootstrap } = await member(optionsOf(1, { admission }));
    closing.push(mesh);
    publish(key, [authority.certify(key)]);
    const start = (): Promise<NodeMesh> => leaf(bootstrap, { network, storage, admission: dns(options) });
    const first = await start();
    await first.close();
    zone.asked.length = 0;
    const second = await joined(start());
    assert.equal(second.id, first.id);
    assert.ok(!zone.asked.includes(authority.nameOf(key, DOMAIN)));
  });
});
