import { readFileSync } from "node:fs";
import { join } from "node:path";
import { fromBase64Url, fromHex, toHex } from "selfsame/codec";
import { AdmissionModule } from "../../runtime/src/admission/module.ts";
import { parseNetwork } from "../../runtime/src/driver/network-name.ts";

import { ROOT, run } from "./run.ts";

/** What the authority has signed for a node. */
export interface Signed {
  /** The node's id. */
  readonly id: string;
  readonly certificate: string;
  /** The line of the zone file. */
  readonly zone: string;
}

/** The authority of a closed network and the owner of its names, by the commands of the program `selfsame`. */
export class Authority {
  /** `NAME@KEY`. */
  readonly network: string;
  /** Key of the owner of all names. */
  readonly owner: string;
  readonly #run: (...args: string[]) => Promise<string>;

  private constructor(network: string, owner: string, program: (...args: string[]) => Promise<string>) {
    this.network = network;
    this.owner = owner;
    this.#run = program;
  }

  /** Makes the secrets of an authority, whose certificates are in a domain, and of an owner, in a folder. */
  static async create(selfsame: string, folder: string, name: string, domain: string): Promise<Authority> {
    const program = async (...args: string[]): Promise<string> =>
      (await run(selfsame, args, { cwd: folder })).trim();
    const network = await program("authority", "new", "--network", name);
    const server = `ns.${domain}=192.0.2.53`;
    await program("authority", "dns", "init", "--network", name, "--domain", domain, "--ns", server);
    await program("owner", "new", "--network", network);
    const owner = await program("owner", "show", "--network", network);
    return new Authority(network, owner, program);
  }

  /** Makes the key of the identity in a folder, which it makes if there is none. */
  keyOf(data: string): Promise<string> {
    return this.#run("id", "key", "--network", this.network, "--data", data);
  }

  /** Certifies a node; a leaf has no address. */
  async sign(key: string, address?: string): Promise<Signed> {
    const node = ["--network", this.network, "--node", key];
    const at = address === undefined ? [] : ["--address", address];
    const signed = JSON.parse(
      await this.#run("--json", "authority", "dns", "sign", ...node, ...at),
    ) as Signed;
    return { ...signed, id: await this.#idOf(key, signed.certificate) };
  }

  /** Lists those who are shut out. */
  revoke(...keys: string[]): Promise<string> {
    const nodes = keys.flatMap((key) => ["--node", key]);
    return this.#run("authority", "revoke", "--network", this.network, ...nodes);
  }

  /** Grants a peer to serve a name. */
  grant(name: string, peer: string): Promise<string> {
    return this.#run("grant", "--network", this.network, "--name", name, "--to", peer);
  }

  async #idOf(key: string, certificate: string): Promise<string> {
    const wasm = new Uint8Array(readFileSync(join(ROOT, "runtime/core/admission.wasm")));
    const module = new AdmissionModule(() => WebAssembly.compile(wasm));
    const { name, authority = new Uint8Array() } = parseNetwork(this.network);
    const holder = { network: name, authority, key: fromHex(key, 32, "the key") };
    return toHex((await module.certified(holder, fromBase64Url(certificate, "a certificate"))).id);
  }
}
