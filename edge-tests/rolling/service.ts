/** The replicas of `greeting` on all runtimes: how each is started, told what to publish, and killed. */
import { mkdirSync, rmSync, writeFileSync } from "node:fs";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { Child } from "selfsame-twiitr/child";
import type { Cluster } from "selfsame-twiitr/cluster";
import { freePort } from "selfsame-twiitr/ports";
import type { Built } from "selfsame-twiitr/programs";

import { ROOT, run } from "../lib/run.ts";
import { GREETING, type Published } from "./greeting.ts";
import type { ReplicaSettings } from "./replica.ts";

/** A replica that can be told what to publish, and killed and replaced. */
export interface Replica {
  readonly name: string;
  /** Publishes with another version or weight. */
  publish(version: Published["version"], weight: number): Promise<void>;
  /** Ends it without a word and starts another one in its place. */
  replace(): Promise<void>;
  /** Asks it to end. */
  stop(): Promise<void>;
}

/** What all replicas need to know. */
export type Surroundings = { cluster: Cluster; built: Built; folder: string; firstPort: number };

/** Grants a node the name. */
async function grantFor({ cluster, built }: Surroundings, id: string): Promise<string> {
  const of = ["--network", cluster.plan.network, "--key", join(cluster.folder, "owner.key")];
  const to = ["grant", "--name", GREETING, "--to", id, "--expires", "30d"];
  return (JSON.parse(await run(built.selfsame, ["--json", ...to, ...of])) as { grant: string }).grant;
}

/** A replica on Node or Deno. */
export class ScriptReplica implements Replica {
  readonly name: string;
  readonly #runtime: "node" | "deno";
  readonly #around: Surroundings;
  #child: Child | undefined;
  #url = "";
  #published: Published | undefined;
  #starts = 0;

  constructor(name: string, runtime: "node" | "deno", around: Surroundings) {
    this.name = name;
    this.#runtime = runtime;
    this.#around = around;
  }

  async publish(version: Published["version"], weight: number): Promise<void> {
    if (this.#child === undefined) await this.#start();
    const grant = this.#published?.grant ?? (await grantFor(this.#around, String(this.#child?.said("id"))));
    this.#published = { grant, version, weight };
    const response = await fetch(`${this.#url}/publish`, {
      method: "POST",
      body: JSON.stringify(this.#published),
    });
    if (!response.ok) throw new Error(`${this.name} does not publish: ${await response.text()}`);
  }

  async replace(): Promise<void> {
    const before = this.#published;
    await this.#child?.kill();
    this.#child = undefined;
    this.#published = undefined;
    if (before !== undefined) await this.publish(before.version, before.weight);
  }

  async stop(): Promise<void> {
    await this.#child?.stop();
    this.#child = undefined;
  }

  async #start(): Promise<void> {
    const { cluster, built, folder, firstPort } = this.#around;
    const port = await freePort(firstPort);
    const settings: ReplicaSettings = {
      network: cluster.plan.network,
      port,
      bootstrap: [...cluster.bootstrapOf("wasmtime", "ws"), ...cluster.bootstrapOf("deno", "ws")],
      owner: cluster.owner ?? "",
    };
    this.#starts += 1;
    const script = join(ROOT, "edge-tests/rolling/replica.ts");
    const args = [script, JSON.stringify(settings)];
    const isDeno = this.#runtime === "deno";
    this.#child = Child.start({
      name: this.name,
      command: isDeno ? built.deno : process.execPath,
      args: isDeno ? ["run", "--quiet", "--no-prompt", "--cached-only", "--allow-all", ...args] : args,
      cwd: ROOT,
      env: process.env as Record<string, string>,
      log: join(folder, `${this.name}-${this.#starts}.log`),
      isReady: ({ url }) => typeof url === "string",
    });
    await this.#child.ready;
    this.#url = String(this.#child.said("url"));
  }
}

/** A replica in a Durable Object. */
export class ObjectReplica implements Replica {
  readonly name: string;
  readonly #url: string;
  readonly #around: Surroundings;
  #grant: string | undefined;

  constructor(name: string, url: string, around: Surroundings) {
    this.name = name;
    this.#url = url;
    this.#around = around;
  }

  async publish(version: Published["version"], weight: number): Promise<void> {
    const isNew = this.#grant === undefined;
    this.#grant ??= await this.#granted();
    await this.#tell(isNew ? "configure" : "publish", { grant: this.#grant, version, weight });
  }

  async replace(): Promise<void> {
    await this.#tell("restart");
  }

  async #granted(): Promise<string> {
    const { id } = (await (await fetch(`${this.#url}/status/${this.name}`)).json()) as { id: string };
    return grantFor(this.#around, id);
  }

  async #tell(what: string, published?: Published): Promise<void> {
    const body = published === undefined ? "" : JSON.stringify(published);
    const response = await fetch(`${this.#url}/${what}/${this.name}`, { method: "POST", body });
    if (!response.ok) throw new Error(`${this.name} does not ${what}: ${await response.text()}`);
  }

  async stop(): Promise<void> {
    // It ends with its workerd.
  }
}

/** A replica behind the wasmtime host, which passes the requests on to a server of this process. */
export class HostReplica implements Replica {
  readonly name = "wasmtime";
  readonly #around: Surroundings;
  readonly #server: Server;
  #child: Child | undefined;
  #starts = 0;

  constructor(around: Surroundings) {
    this.#around = around;
    this.#server = createServer((_, response) => response.setHeader("version", "1").end("hello"));
  }

  /** Its version is 1 and its weight 1, or it ends. */
  async publish(version: Published["version"], weight: number): Promise<void> {
    if (version !== "1" || (weight !== 0 && weight !== 1))
      throw new Error("the host publishes version 1 whole");
    if (weight === 0) return this.stop();
    await new Promise<void>((listening) => this.#server.listen(0, "127.0.0.1", listening));
    await this.replace();
  }

  async replace(): Promise<void> {
    if (!this.#server.listening) return;
    await this.#child?.kill();
    this.#starts += 1;
    const { cluster, built, folder, firstPort } = this.#around;
    const data = join(folder, `host-${this.#starts}`);
    rmSync(data, { recursive: true, force: true });
    mkdirSync(data, { recursive: true, mode: 0o700 });
    const of = ["--network", cluster.plan.network, "--data", data];
    const { id } = JSON.parse(await run(built.selfsame, ["--json", "id", "new", ...of])) as { id: string };
    const grant = join(data, "greeting.grant");
    writeFileSync(grant, await grantFor(this.#around, id));
    const port = await freePort(firstPort);
    const backend = (this.#server.address() as AddressInfo).port;
    const addresses = ["ws", "http"].flatMap((scheme) => [
      "--address",
      `${scheme}://127.0.0.1:${port}/.mesh`,
    ]);
    const joining = cluster.bootstrapOf("deno", "ws").flatMap((address) => ["--join", address]);
    this.#child = Child.start({
      name: this.name,
      command: built.selfsame,
      args: [
        ...["node", "--json", ...of, "--listen", `ws://127.0.0.1:${port}`, ...addresses, ...joining],
        ...["--serve", `${GREETING}=http://127.0.0.1:${backend}`, "--grant", grant],
        ...["--owner", cluster.owner ?? "", "--allow-private", "--end-with-input"],
      ],
      cwd: ROOT,
      env: {},
      log: join(folder, `host-${this.#starts}.log`),
      isReady: ({ event }) => event === "joined",
    });
    await this.#child.ready;
  }

  async stop(): Promise<void> {
    await this.#child?.stop();
    this.#child = undefined;
    this.#server.close();
  }
}
