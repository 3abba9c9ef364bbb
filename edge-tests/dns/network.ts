/**
 * A closed network whose authority, `selfsame authority dns`, keeps its zone at a real name server: peers join by it, one is shut
 * out, newcomers whose records are missing or wrong are nobody's neighbours, and an outage stops only joins.
 */
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";

import type { Report } from "../rpc/report.ts";
import type { AdmissionModule, TsigKey } from "./module.ts";
import { failing, Peer, selfsame } from "./peer.ts";
import { BROKEN_DOMAIN, type NameServer, type ServerName, startServer } from "./servers.ts";

const DOMAIN = "ring.example";
const ADDRESS = "127.0.0.1:7000";
/** The quota of a network of addresses is for others' nodes: these are all on one machine. */
const QUOTA = ["--most-per-prefix", "100"];

/** What is wrong with the records of newcomers, each by its name, and the code that says so. */
const BAD: Readonly<Record<string, string>> = {
  malformed: "BadDnsValue",
  oversized: "TooLarge",
  foreign: "WrongIssuer",
  moved: "WrongAddress",
  brief: "ExpiredCertificate",
  missing: "NoCertificate",
};

/** Tries all of it with one kind of name server. */
export async function tryNetwork(
  name: ServerName,
  parts: { module: AdmissionModule; folder: string; key: TsigKey; report: Report },
): Promise<void> {
  const folder = join(parts.folder, `${name}-network`);
  await mkdir(folder, { recursive: true });
  const trial = new Trial(name, { ...parts, folder });
  try {
    await trial.run();
  } catch (error) {
    parts.report.check(`${name}: a network`, [error instanceof Error ? error.message : `${error}`]);
  } finally {
    await trial.stop();
  }
}

class Trial {
  readonly #name: ServerName;
  readonly #module: AdmissionModule;
  readonly #folder: string;
  readonly #key: TsigKey;
  readonly #report: Report;
  readonly #peers: Peer[] = [];
  /** Lines of the zone that no authority would write. */
  #bad = "";
  #network = "";
  /** The first list of revocations, which shuts nobody out. */
  #oldest = "";
  #server: NameServer | undefined;

  constructor(
    name: ServerName,
    parts: { module: AdmissionModule; folder: string; key: TsigKey; report: Report },
  ) {
    this.#name = name;
    this.#module = parts.module;
    this.#folder = parts.folder;
    this.#key = parts.key;
    this.#report = parts.report;
  }

  async run(): Promise<void> {
    await this.#makeZone();
    const first = await this.#join("one", []);
    const through = ["--join", await first.bootstrap()];
    const second = await this.#join("two", through);
    await this.#join("three", through);
    await first.successors(2);
    this.#ok("a zone is made by the authority, and three peers join by it");
    await this.#revoke(first, second);
    for (const [bad, code] of Object.entries(BAD)) await this.#refuse(first, through, bad, code);
    await this.#publish("late");
    await this.#served("late");
    await this.#certify("late");
    await this.#oldList(first);
    await this.#badServer();
    await this.#outage(first, through);
    await this.#doctor();
  }

  async stop(): Promise<void> {
    for (const peer of this.#peers) await peer.stop();
    await this.#server?.stop();
  }

  #ok(what: string, problems: readonly string[] = []): void {
    this.#report.check(`${this.#name}: ${what}`, problems);
  }

  async #authority(...args: string[]): Promise<string> {
    return await selfsame(this.#folder, "authority", ...args, "--network", "t");
  }

  async #nodeKey(peer: string): Promise<string> {
    return await selfsame(this.#folder, "id", "key", "--network", this.#network, "--data", peer);
  }

  /** Where updates go; a server that takes none gets the file anew. */
  #updates(): string[] {
    if (this.#name === "nsd") return [];
    return ["--name-server", `127.0.0.1:${this.#server?.port}`, "--tsig-key", "tsig.key"];
  }

  async #makeZone(): Promise<void> {
    this.#network = await this.#authority("new");
    const secret = Buffer.from(this.#key.secret).toString("base64");
    const key = `key "${this.#key.name}" {\n  algorithm hmac-sha256;\n  secret "${secret}";\n};\n`;
    await writeFile(join(this.#folder, "tsig.key"), key);
    for (const bad of Object.keys(BAD)) await this.#certify(bad);
    this.#bad = await this.#badLines();
    const ns = ["--domain", DOMAIN, "--ns", `ns.${DOMAIN}=127.0.0.1`];
    const zone = await this.#authority("dns", "init", ...ns);
    const place = { folder: join(this.#folder, "server"), domain: DOMAIN, key: this.#key };
    this.#server = await startServer(this.#name, this.#module, place, await this.#withBad(zone));
  }

  /** A certificate in a file, which the zone does not have. */
  async #certify(peer: string): Promise<void> {
    const node = ["--node", await this.#nodeKey(peer), "--address", ADDRESS];
    const certificate = await this.#authority("sign", ...node, ...QUOTA);
    await writeFile(join(this.#folder, `${peer}.certificate`), certificate);
  }

  async #badLines(): Promise<string> {
    const nameOf = async (peer: string): Promise<string> =>
      this.#module.peerName(Buffer.from(await this.#nodeKey(peer), "hex"), DOMAIN);
    const lineOf = async (peer: string, certificate: string): Promise<string> =>
      this.#module.zoneLine(await nameOf(peer), 60, Buffer.from(certificate, "base64url"));
    await selfsame(this.#folder, "authority", "new", "--network", "t", "--key", "other.key");
    const foreign = ["--key", "other.key", "--node", await this.#nodeKey("foreign"), "--address", ADDRESS];
    const moved = ["--node", await this.#nodeKey("moved"), "--address", "127.0.0.2:7000", ...QUOTA];
    const brief = ["--node", await this.#nodeKey("brief"), "--address", ADDRESS, "--expires", "1s", ...QUOTA];
    const long = `"selfsame1=${"A".repeat(200)}" "${"A".repeat(250)}"`;
    return [
      `${await nameOf("malformed")}. 60 IN TXT "selfsame1=no!value"`,
      `${await nameOf("oversized")}. 60 IN TXT ${long}`,
      await lineOf("foreign", await this.#authority("sign", ...foreign)),
      await lineOf("moved", await this.#authority("sign", ...moved)),
      await lineOf("brief", await this.#authority("sign", ...brief)),
      "",
    ].join("\n");
  }

  /** A zone that the authority has printed, with the lines that it would not write, and without what it has signed for these. */
  async #withBad(zone: string): Promise<string> {
    const names = await Promise.all(
      Object.keys(BAD).map(async (bad) =>
        this.#module.peerName(Buffer.from(await this.#nodeKey(bad), "hex"), DOMAIN),
      ),
    );
    const lines = zone.split("\n").filter((line) => !names.some((name) => line.startsWith(name)));
    return `${lines.join("\n")}\n${this.#bad}`;
  }

  async #publish(peer: string): Promise<void> {
    const node = ["--node", await this.#nodeKey(peer), "--address", ADDRESS];
    await this.#authority("dns", "sign", ...node, ...QUOTA, ...this.#updates());
    await this.#reload();
  }

  async #reload(): Promise<void> {
    if (this.#name !== "nsd") return;
    await this.#server?.reload(await this.#withBad(await this.#authority("dns", "zone")));
  }

  #dns(): string[] {
    return ["--network", this.#network, "--dns", DOMAIN, "--name-server", `127.0.0.1:${this.#server?.port}`];
  }

  /** Starts a peer that finds its certificate in the zone. */
  async #join(peer: string, through: readonly string[]): Promise<Peer> {
    await this.#publish(peer);
    await this.#served(peer);
    const args = ["--data", peer, ...this.#dns(), ...through, "--revocations", "revocations"];
    if (peer === "one") this.#oldest = await this.#authority("revoke");
    await writeFile(join(this.#folder, "revocations"), this.#oldest);
    const started = await Peer.start(this.#folder, args);
    this.#peers.push(started);
    await started.event("joined");
    return started;
  }

  /** Waits until the server has read its file again: the doctor looks a node's certificate up as the node does. */
  async #served(peer: string): Promise<void> {
    for (let tries = 0; tries < 60; tries += 1) {
      const told = await failing(this.#folder, "doctor", "--data", peer, ...this.#dns());
      if (/ok +admission/.test(told)) return;
    }
    throw new Error(`the server does not serve the certificate of ${peer}`);
  }

  async #revoke(first: Peer, second: Peer): Promise<void> {
    const list = await this.#authority(
      "dns",
      "revoke",
      "--node",
      await this.#nodeKey("two"),
      ...this.#updates(),
    );
    await writeFile(join(this.#folder, "revocations"), list);
    await this.#reload();
    first.reload();
    await first.successors(1);
    await second.counts("RevokedCertificate");
    await second.successors(0);
    await first.successors(1);
    await second.stop();
    this.#ok("one is revoked, parted with, and refused when it comes back");
  }

  /** A newcomer with a certificate of which the zone says something else. */
  async #refuse(first: Peer, through: readonly string[], bad: string, code: string): Promise<void> {
    const before = await first.counted(code);
    const args = [
      "--data",
      bad,
      "--network",
      this.#network,
      "--certificate",
      `${bad}.certificate`,
      ...through,
    ];
    const newcomer = await Peer.start(this.#folder, args);
    this.#peers.push(newcomer);
    await first.counts(code);
    await newcomer.stop();
    await first.successors(1);
    const address = ["--address", `ws://${ADDRESS}`];
    const told = await failing(this.#folder, "doctor", "--data", bad, ...address, ...this.#dns());
    const line = told.split("\n").find((text) => /wrong +admission/.test(text) && text.includes(code));
    this.#ok(`a newcomer whose record is ${bad} is nobody's neighbour: ${code}, counted and told`, [
      ...(before > 0 ? [`${code} was counted before`] : []),
      ...(line?.includes(": ") ? [] : [`the doctor says ${told}`]),
    ]);
  }

  /** A list from before the last one undoes nothing. */
  async #oldList(first: Peer): Promise<void> {
    await writeFile(join(this.#folder, "revocations"), this.#oldest);
    first.reload();
    await first.counts("StaleRevocations");
    await first.successors(1);
    this.#ok("an old list of revocations is left out: StaleRevocations, counted");
  }

  /** What a server says of a zone that it cannot load, or does not have. */
  async #badServer(): Promise<void> {
    for (const [domain, code] of [
      [BROKEN_DOMAIN, "DnsFailed"],
      ["elsewhere.example", "DnsRefused"],
    ] as const) {
      const at = ["--dns", domain, "--name-server", `127.0.0.1:${this.#server?.port}`];
      const told = await failing(this.#folder, "doctor", "--data", "late", "--network", this.#network, ...at);
      const line = told.split("\n").find((text) => /wrong +admission/.test(text));
      this.#ok(`${domain}: ${code}, told`, line?.includes(code) ? [] : [told]);
    }
  }

  /** The server stops in its tracks, so that queries time out, and then ends. */
  async #outage(first: Peer, through: readonly string[]): Promise<void> {
    this.#server?.pause();
    const newcomer = ["--network", this.#network, "--certificate", "late.certificate", ...through];
    const late = await Peer.start(this.#folder, ["--data", "late", ...newcomer]);
    this.#peers.push(late);
    await first.counts("TimedOut");
    await first.successors(1);
    const told = await failing(this.#folder, "doctor", "--data", "late", "--timeout", "1s", ...this.#dns());
    this.#server?.resume();
    await late.event("joined");
    await first.successors(2);
    this.#ok(
      "an outage of the name server stops only joins, and these go on afterwards",
      /wrong +admission.*TimedOut|wrong +admission.*no answer/.test(told) ? [] : [told],
    );
  }

  /** What the first peer has counted stands in its doctor's lines. */
  async #doctor(): Promise<void> {
    const told = await failing(this.#folder, "doctor", "--data", "one", ...this.#dns());
    const codes = [...Object.values(BAD), "StaleRevocations"].filter((code) => code !== "TooLarge");
    const missing = codes.filter(
      (code) => !new RegExp(`wrong +admission.*\\(${code}\\), \\d+ times`).test(told),
    );
    this.#ok("the doctor of a member tells all that it has counted", missing.length === 0 ? [] : [told]);
  }
}
