/**
 * Certificates in DNS with real name servers: a zone is made, peers are looked up, one is revoked.
 *
 *     npm run test:dns -- [--server nsd,knot,bind9]
 *
 * nsd gets a zone file with the lines that the module writes, knot and bind9 signed updates. Values are looked up by the
 * module, by the resolver of the package in Node and by that of the Rust host. Then peers join a network by a zone that its
 * authority keeps there. A server that is not installed is a failure.
 */
import { randomBytes } from "node:crypto";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";

import { createResolver } from "../../runtime/src/entries/admission-node.ts";
import { ROOT, run } from "../lib/run.ts";
import { Report } from "../rpc/report.ts";
import { overTcp, overUdp } from "./exchange.ts";
import { AdmissionModule, type Change, Refusal, type TsigKey, valuesOf } from "./module.ts";
import { tryNetwork } from "./network.ts";
import { missing, type NameServer, SERVER_NAMES, type ServerName, startServer } from "./servers.ts";

const DOMAIN = "ring.example";
const KEY: TsigKey = { name: "authority.key", secret: randomBytes(32) };
/** How long a server may take to serve what it has read or confirmed. */
const SERVED_MS = 30_000;

/** A peer and what its authority has signed for it. */
interface Peer {
  readonly key: Uint8Array;
  readonly values: readonly Uint8Array[];
}

const { values: options } = parseArgs({
  options: { server: { type: "string", default: SERVER_NAMES.join(",") } },
});
const report = new Report();
const module = await AdmissionModule.load();
const folder = await mkdtemp(join(tmpdir(), "selfsame-dns-"));
const lookUpInRust = await buildResolver();

/** A peer with its longest certificate, one with an old and a new one, and one with more than fits a datagram. */
const PEERS: readonly Peer[] = [[320], [1, 200], Array.from({ length: 8 }, () => 320)].map((lengths) => ({
  key: randomBytes(32),
  values: lengths.map((length) => randomBytes(length)),
}));
const AUTHORITY = randomBytes(32);
/** Serial of the zone that was written last. */
let serial = 0;

for (const name of options.server.split(",")) {
  if (!SERVER_NAMES.includes(name as ServerName)) {
    report.check(name, [`there is no such server; there are ${SERVER_NAMES.join(", ")}`]);
    continue;
  }
  const problem = missing(name as ServerName);
  if (problem === undefined) await tryServer(name as ServerName);
  else report.check(name, [problem]);
}
await rm(folder, { recursive: true });
report.finish();

async function tryServer(name: ServerName): Promise<void> {
  const place = { folder: join(folder, name), domain: DOMAIN, key: KEY };
  const server = await startServer(name, module, place, zoneOf(name === "nsd" ? PEERS : []));
  try {
    if (name === "nsd") await tryFile(server);
    else await tryUpdates(server);
    await tryRefusals(server);
  } finally {
    await server.stop();
  }
  await tryNetwork(name, { module, folder, key: KEY, report });
  await expectError(`${name}: a server that is gone`, "cannot be reached", server, PEERS[0]);
}

/** Peers of a zone file, of which one is taken out. */
async function tryFile(server: NameServer): Promise<void> {
  await expectPeers(server, "zone lines", PEERS);
  const [first, ...left] = PEERS;
  await server.reload(zoneOf(left));
  await expectPeers(server, "zone lines after a revocation", [revoked(first), ...left]);
  const request = update(server, [{ name: nameOf(first) }]);
  await expectCode(`${server.name}: an update of a server that takes none`, "DnsRejected", request);
}

/** Peers that updates add one after another, of which one is deleted. */
async function tryUpdates(server: NameServer): Promise<void> {
  // An update replaces what a name has: several values come from a zone file only.
  const [first, second, ...others] = PEERS.map(({ key, values }) => ({ key, values: values.slice(0, 1) }));
  for (const peer of [first, second, ...others]) await update(server, [changeOf(peer)]);
  await expectPeers(
    server,
    "updates",
    [first, second, ...others].filter((peer) => peer !== undefined),
  );
  await update(server, [{ name: nameOf(first) }]);
  const renewed = { key: second?.key ?? AUTHORITY, values: [randomBytes(320)] };
  await update(server, [changeOf(renewed)]);
  const left = [revoked(first), renewed, ...others];
  await expectPeers(server, "updates after a revocation and a renewal", left);
  await tryBadUpdates(server);
  await expectPeers(server, "refused updates", left);
}

function changeOf(peer: Peer | undefined): Change {
  return { name: nameOf(peer), value: peer?.values[0] ?? AUTHORITY };
}

function revoked(peer: Peer | undefined): Peer {
  return { key: peer?.key ?? AUTHORITY, values: [] };
}

async function tryBadUpdates(server: NameServer): Promise<void> {
  const change = { name: nameOf(PEERS[0]), value: AUTHORITY };
  const refused = [
    ["another secret", "DnsBadSignature", { ...KEY, secret: randomBytes(32) }, now_s(), DOMAIN],
    ["an unknown key", "DnsBadKey", { ...KEY, name: "unknown.key" }, now_s(), DOMAIN],
    ["an old time", "DnsBadTime", KEY, now_s() - 3600, DOMAIN],
    ["another zone", "DnsRejected", KEY, now_s(), "other.example"],
  ] as const;
  for (const [what, code, key, at_s, zone] of refused) {
    const name = zone === DOMAIN ? change.name : module.authorityName(zone);
    await expectCode(
      `${server.name}: an update with ${what}`,
      code,
      update(server, [{ ...change, name }], key, at_s, zone),
    );
  }
}

async function tryRefusals(server: NameServer): Promise<void> {
  const name = module.authorityName("elsewhere.example");
  await expectCode(`${server.name}: a name of another domain`, "DnsRefused", lookUp(server, name));
}

/** Sends an update and checks that the server says it has made it. */
async function update(
  server: NameServer,
  changes: readonly Change[],
  key: TsigKey = KEY,
  at_s: number = now_s(),
  zone: string = DOMAIN,
): Promise<void> {
  const signed = module.update(zone, key, changes, at_s);
  module.checkUpdated(signed, now_s(), await overTcp(server.port, signed.message));
}

/** The values that the resolver of the package finds. */
async function lookUpInNode({ port }: NameServer, key: Uint8Array): Promise<string[]> {
  const { values } = await createResolver({ servers: [`127.0.0.1:${port}`] }).certificates(key, DOMAIN);
  return values.map((value) => Buffer.from(value).toString("hex")).sort();
}

/** Checks that the module, Node and Rust find what the zone holds of these peers. */
async function expectPeers(server: NameServer, what: string, peers: readonly Peer[]): Promise<void> {
  const problems: string[] = [];
  const until = Date.now() + SERVED_MS;
  for (const { key, values } of peers) {
    const name = module.peerName(key, DOMAIN);
    const expected = values.map((value) => Buffer.from(value).toString("hex")).sort();
    let found = await lookUp(server, name);
    while (`${found}` !== `${expected}` && Date.now() < until) found = await lookUp(server, name);
    if (`${found}` !== `${expected}`)
      problems.push(`${name}: the module finds ${found.length} of ${expected.length}`);
    const inNode = await lookUpInNode(server, key);
    if (`${inNode}` !== `${expected}`)
      problems.push(`${name}: Node finds ${inNode.length} of ${expected.length}`);
    const inRust = await lookUpInRust(server, key);
    if (`${inRust}` !== `${expected}`)
      problems.push(`${name}: Rust finds ${inRust.length} of ${expected.length}`);
  }
  report.check(`${server.name}: ${what}, ${peers.length} peers`, problems);
}

/** The values of a name, by UDP, and by TCP when they do not fit. */
async function lookUp({ port }: NameServer, name: string): Promise<string[]> {
  const { id, message } = module.query(name);
  const outcome = module.response(id, name, true, await overUdp(port, message));
  if (outcome.type !== "Truncated") return valuesOf(outcome);
  return valuesOf(module.response(id, name, false, await overTcp(port, message)));
}

async function expectCode(what: string, code: string, outcome: Promise<unknown>): Promise<void> {
  const found = await outcome.then(
    () => "nothing",
    (error: unknown) => {
      if (error instanceof Refusal) return error.code;
      throw error;
    },
  );
  report.check(`${what}: ${code}`, found === code ? [] : [`the module says ${found}`]);
}

async function expectError(what: string, text: string, server: NameServer, peer?: Peer): Promise<void> {
  const outcome = await lookUpInRust(server, peer?.key ?? AUTHORITY).then(
    () => "an answer",
    (error: Error) => error.message,
  );
  report.check(what, outcome.includes(text) ? [] : [outcome]);
}

/** A zone with the lines of these peers. */
function zoneOf(peers: readonly Peer[]): string {
  const lines = peers.flatMap(({ key, values }) =>
    values.map((value) => module.zoneLine(module.peerName(key, DOMAIN), 60, value)),
  );
  serial += 1;
  return [
    `${DOMAIN}. 60 IN SOA ns.${DOMAIN}. admin.${DOMAIN}. ${serial} 3600 600 86400 30`,
    `${DOMAIN}. 60 IN NS ns.${DOMAIN}.`,
    `ns.${DOMAIN}. 60 IN A 127.0.0.1`,
    module.zoneLine(module.authorityName(DOMAIN), 60, AUTHORITY),
    ...lines,
    "",
  ].join("\n");
}

function nameOf(peer: Peer | undefined): string {
  return module.peerName(peer?.key ?? AUTHORITY, DOMAIN);
}

function now_s(): number {
  return Math.floor(Date.now() / 1000);
}

/** Builds the example that asks by the resolver of the Rust host. */
async function buildResolver(): Promise<(server: NameServer, key: Uint8Array) => Promise<string[]>> {
  const what = ["--bin", "selfsame", "--example", "certificates"];
  const build = ["build", "--quiet", "--locked", "--package", "selfsame-host", ...what];
  await run("cargo", build, { timeout: 1_800_000 });
  const program = join(process.env.CARGO_TARGET_DIR ?? join(ROOT, "target"), "debug/examples/certificates");
  return async ({ port }, key) => {
    const printed = await run(program, [`127.0.0.1:${port}`, DOMAIN, Buffer.from(key).toString("hex")]);
    return printed
      .split("\n")
      .filter((line) => line !== "")
      .sort();
  };
}
