import { execFile } from "node:child_process";
import { existsSync, mkdirSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { type AdmissionMethod, dns, nodeKey } from "selfsame/admission";

import { ZoneServer } from "../../../runtime/test/zone-server.ts";
import { PageCertifier } from "./page-certifier.ts";
import { keptSecret } from "./secret.ts";

const execute = promisify(execFile);

/** No name server of the Internet answers for a domain below `example` (RFC 2606). */
const DOMAIN = "twiitr.example";
/** Certificates of nodes are made anew with each start. */
const EXPIRES = "30d";
/** Those of pages are made whenever one is opened. */
const PAGE_EXPIRES = "1d";

/** Where the certificates of a closed network are, as `dns` of `selfsame/admission` takes it. */
export type Zone = { readonly domain: string; readonly dnsOverHttps: string };

/** Runs a command of the authority and returns what it prints. */
type Command = (args: readonly string[]) => Promise<Readonly<Record<string, string>>>;

/** A closed network whose authority, zone and name server are on this machine. */
export class ClosedNetwork {
  /** `NAME@KEY`. */
  readonly network: string;
  readonly zone: Zone;
  /** File of the authority's secret. */
  readonly authorityFile: string;
  readonly #folder: string;
  readonly #server: ZoneServer;
  readonly #command: Command;
  #pages: PageCertifier | undefined;

  private constructor(folder: string, network: string, server: ZoneServer, command: Command) {
    this.network = network;
    this.zone = { domain: DOMAIN, dnsOverHttps: server.url };
    this.authorityFile = authorityIn(folder);
    this.#folder = folder;
    this.#server = server;
    this.#command = command;
  }

  /** Opens the network whose authority is in a folder, or makes one there, and starts its name server. */
  static async open(selfsame: string, folder: string, name: string): Promise<ClosedNetwork> {
    const key = authorityIn(folder);
    mkdirSync(folder, { recursive: true, mode: 0o700 });
    const command: Command = async (args) => {
      const of = ["--network", name, "--key", key];
      const { stdout } = await execute(selfsame, ["--json", "authority", ...args, ...of]);
      return JSON.parse(stdout) as Record<string, string>;
    };
    const { network = "" } = await command([existsSync(key) ? "show" : "new"]);
    const init = ["dns", "init", "--domain", DOMAIN, "--ns", `ns.${DOMAIN}=127.0.0.1`];
    const { zone = "" } = await command(init);
    const server = await ZoneServer.start();
    // Pages that were open before the last start go on.
    for (const line of zone.split("\n")) if (/\sIN\s+TXT\s/.test(line)) server.load(line);
    return new ClosedNetwork(folder, network, server, command);
  }

  /** Puts a certificate of a node into the zone: of a member at its address, or of a leaf. */
  async certify(key: string, address?: string): Promise<void> {
    await this.#sign(key, EXPIRES, address === undefined ? [] : ["--address", address]);
  }

  /** Certifies a leaf of this process, which is the same with each start, and returns what `join` takes of it. */
  async leaf(name: string): Promise<{ seed: string; admission: AdmissionMethod }> {
    const seed = keptSecret(join(this.#folder, `${name}.seed`));
    await this.certify(await nodeKey({ network: this.network, seed }));
    return { seed, admission: dns(this.zone) };
  }

  /** Certifies the keys that pages of an origin tell with the invitation of their link. */
  async admitPages(origin: string): Promise<void> {
    const invitation = keptSecret(join(this.#folder, "page.invitation"));
    const certify = (key: string): Promise<void> => this.#sign(key, PAGE_EXPIRES, []);
    this.#pages = await PageCertifier.start({ origin, invitation, certify });
  }

  /** Who certifies pages, once pages are admitted. */
  get pages(): PageCertifier | undefined {
    return this.#pages;
  }

  /** Ends the name server. */
  close(): void {
    this.#pages?.close();
    this.#server.close();
  }

  async #sign(key: string, expires: string, more: readonly string[]): Promise<void> {
    const args = ["dns", "sign", "--node", key, "--expires", expires, ...more];
    const { zone = "" } = await this.#command(args);
    this.#server.load(zone);
  }
}

function authorityIn(folder: string): string {
  return join(folder, "authority.key");
}
