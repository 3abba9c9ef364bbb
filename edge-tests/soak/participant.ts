/** The members and leaves of a soak test, each of one or more processes that are started, told what to do and ended. */
import { existsSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { Child } from "selfsame-twiitr/child";
import { secretFile } from "selfsame-twiitr/secret";

import { inspect } from "../lib/inspector.ts";
import { DENO, ROOT } from "../lib/run.ts";
import { type Client, perform } from "./calls.ts";
import type { Forwarder } from "./forwarder.ts";
import { pidsOf } from "./samples.ts";
import { type MemberSettings, type Order, type Outcome, SERVICE } from "./settings.ts";
import { sidecarClient } from "./sidecar-client.ts";

/** The hosts. */
export type Host = "rust" | "node" | "deno" | "workerd";

/** What is built once. */
export interface Programs {
  readonly selfsame: string;
  /** Folder of the bundled Worker. */
  readonly worker: string;
}

/** Ports of a Rust participant, besides that at which it is dialled. */
export interface RustPorts {
  readonly proxy: number;
  readonly replica: number;
  /** Of the server that it exposes. */
  readonly backend: number;
}

/** How a participant is set up. */
export interface Parts {
  readonly host: Host;
  readonly settings: MemberSettings;
  readonly programs: Programs;
  readonly rust: RustPorts | undefined;
  readonly forwarder: Forwarder | undefined;
  /** Port of the inspector of a workerd; it has none unless given. */
  readonly inspectorPort: number | undefined;
  /** URLs of other replicas, for one that does not look for them in the mesh. */
  readonly replicas: readonly string[];
}

/** Whether a participant can be told what to do, and since when a process of it lives. */
export type State = "up" | "frozen" | "down";

/** What programs get of this process's environment. */
const INHERITED = ["PATH", "HOME", "TMPDIR", "DENO_DIR", "XDG_CACHE_HOME", "SELFSAME_CACHE"];
/**
 * V8 collects when a heap is nearly full, not when there is garbage, and on a machine with much memory that takes hours: a Worker that
 * does nothing but fetch grows by a gigabyte an hour until then. With small heaps what a process takes is what it holds.
 */
const HEAP_FLAGS: readonly string[] = [
  "--max-old-space-size=48",
  // Else a process that allocates little collects for the first time when the run is half over, and grows until then.
  "--initial-old-space-size=1",
  "--max-semi-space-size=1",
];
/** In workerd small objects of the heap stand for large ones outside, so that it must be smaller still. */
const WORKER_FLAGS = "--max-old-space-size=16 --initial-old-space-size=1 --max-semi-space-size=1";

/** A member or leaf. */
export class Participant {
  readonly host: Host;
  readonly name: string;
  readonly forwarder: Forwarder | undefined;
  state: State = "down";
  /** How often it was frozen or ended: what a call finds changed explains how it failed. */
  disturbed = 0;
  readonly #parts: Parts;
  readonly #client: Client | undefined;
  readonly #children: Map<string, Child> = new Map();
  #settings: MemberSettings;

  constructor(parts: Parts) {
    this.host = parts.host;
    this.name = parts.settings.name;
    this.forwarder = parts.forwarder;
    this.#parts = parts;
    this.#settings = parts.settings;
    this.#client = parts.rust && sidecarClient(parts.rust.proxy);
  }

  /** Whether it can be dialled. */
  get isMember(): boolean {
    return this.#settings.authority !== undefined;
  }

  /** Whether it holds the capsule. */
  get isReplica(): boolean {
    return this.#settings.keep !== undefined;
  }

  /** Its peer id, once it has run. */
  get id(): string {
    return String(this.#children.get(this.name)?.said("id"));
  }

  /** The key that its replica signs with, if it has told it; else it follows from the seed. */
  get replicaKey(): string | undefined {
    const key = (this.#children.get(`${this.name} replica`) ?? this.#children.get(this.name))?.said("key");
    return typeof key === "string" ? key : undefined;
  }

  /** Its secret seed. */
  get seed(): string {
    return this.#settings.seed;
  }

  /** The address at which others join through it. */
  get bootstrap(): string {
    return `ws://${this.#settings.authority}/.mesh#${this.id}`;
  }

  /** Changes whom it joins through the next time. */
  joinThrough(bootstrap: readonly string[]): void {
    this.#settings = { ...this.#settings, bootstrap };
  }

  /** Its processes by their labels: those that run the product, not what starts them. */
  processes(): { label: string; pid: number; log: string }[] {
    return [...this.#children].flatMap(([label, { pid, isRunning }]) => {
      if (pid === undefined || !isRunning) return [];
      const log = join(this.#settings.folder, `${label}.log`);
      const own = this.host === "workerd" ? pidsOf(pid, "workerd") : [pid];
      return own.map((one) => ({ label, pid: one, log }));
    });
  }

  /** Names of processes that have ended by themselves. */
  ended(): string[] {
    if (this.state === "down") return [];
    return [...this.#children].flatMap(([label, { isRunning }]) => (isRunning ? [] : [label]));
  }

  /** Starts it; resolves when it has joined and is published. */
  async start(): Promise<void> {
    mkdirSync(this.#settings.folder, { recursive: true, mode: 0o700 });
    const { rust } = this.#parts;
    if (rust !== undefined && this.isReplica) await this.#startReplica(rust);
    const event = rust === undefined ? "url" : "published";
    await this.#run(this.name, this.#command(), (message) =>
      event === "url" ? typeof message.url === "string" : message.event === event,
    );
    this.state = "up";
  }

  /** Asks it to end. */
  async stop(): Promise<void> {
    this.#disturb("down");
    await Promise.all([...this.#children.values()].map((child) => child.stop()));
  }

  /** Ends it as a crash does. */
  async kill(): Promise<void> {
    this.#disturb("down");
    await Promise.all([...this.#children.values()].map((child) => child.kill()));
  }

  /** Stops it in its tracks. */
  freeze(): void {
    this.#disturb("frozen");
    for (const child of this.#children.values()) child.signal("SIGSTOP");
  }

  /** Lets it go on. */
  thaw(): void {
    for (const child of this.#children.values()) child.signal("SIGCONT");
    this.state = "up";
  }

  /** Carries out an order; rejects when it is gone. */
  async follow(order: Order): Promise<Outcome> {
    if (this.#client !== undefined) return perform(this.#client, order);
    return (await this.tell("order", order)) as Outcome;
  }

  /** Tells it something over its own server. */
  async tell(what: string, body: unknown = {}): Promise<unknown> {
    const response = await fetch(`http://127.0.0.1:${this.#settings.port}/${what}`, {
      method: what === "memory" ? "GET" : "POST",
      ...(what === "memory" ? {} : { body: JSON.stringify(body) }),
    });
    const text = await response.text();
    if (!response.ok) throw new Error(`${this.name} answers ${response.status}: ${text}`);
    return text === "" ? undefined : JSON.parse(text);
  }

  /** Memory of its JavaScript heap after a collection, in MB; nothing where there is none to ask for. */
  async heap(): Promise<number | undefined> {
    const { inspectorPort } = this.#parts;
    if (!this.hasDesk || this.state !== "up") return undefined;
    if (this.host !== "workerd") return ((await this.tell("memory")) as { heapUsed: number }).heapUsed / 1e6;
    if (inspectorPort === undefined) return undefined;
    const inspector = await inspect(inspectorPort);
    try {
      await inspector.collect();
      const { usedSize, backingStorageSize } = await inspector.heap();
      return (usedSize + backingStorageSize) / 1e6;
    } finally {
      inspector.close();
    }
  }

  /** Whether it has a server where it is told things. */
  get hasDesk(): boolean {
    return this.#client === undefined;
  }

  #disturb(state: State): void {
    this.disturbed += 1;
    this.state = state;
  }

  async #run(
    label: string,
    { command, args }: { command: string; args: string[] },
    isReady: (message: Readonly<Record<string, unknown>>) => boolean,
  ): Promise<void> {
    const log = join(this.#settings.folder, `${label}.log`);
    const child = Child.start({ name: label, command, args, cwd: ROOT, env: environment(), log, isReady });
    this.#children.set(label, child);
    await child.ready;
  }

  #startReplica({ replica }: RustPorts): Promise<void> {
    const { folder, keep = "" } = this.#settings;
    const args = ["capsule", "serve", "--json", "--listen", `127.0.0.1:${replica}`, "--write-buffer", "1"];
    args.push("--data", join(folder, "replica"), "--end-with-input", "--keep", keep);
    for (const url of this.#parts.replicas) args.push("--replica", url);
    const command = this.#parts.programs.selfsame;
    return this.#run(`${this.name} replica`, { command, args }, ({ event }) => event === "serving");
  }

  #command(): { command: string; args: string[] } {
    const { host, rust, programs } = this.#parts;
    const { folder, port } = this.#settings;
    if (rust !== undefined) return { command: programs.selfsame, args: this.#sidecar(rust) };
    const settings = JSON.stringify(this.#settings);
    if (host === "workerd") {
      const bindings = secretFile(join(folder, "bindings.json"), JSON.stringify({ SETTINGS: settings }));
      const script = join(import.meta.dirname, "workerd.ts");
      const args = [script, programs.worker, folder, `${port}`, bindings];
      return { command: process.execPath, args: [...args, `${this.#parts.inspectorPort ?? 0}`] };
    }
    const script = join(import.meta.dirname, "member.ts");
    if (host === "node") {
      const flags = ["--expose-gc", ...HEAP_FLAGS, "--disable-warning=ExperimentalWarning"];
      return { command: process.execPath, args: [...flags, script, settings] };
    }
    const flags = ["run", "--quiet", "--no-prompt", "--cached-only", "--allow-all"];
    const v8 = `--v8-flags=${["--expose-gc", ...HEAP_FLAGS].join()}`;
    return { command: DENO, args: [...flags, v8, script, settings] };
  }

  #sidecar({ proxy, replica, backend }: RustPorts): string[] {
    const { network, name, seed, port, authority, bootstrap, folder, keep } = this.#settings;
    const identity = join(folder, "identity.key");
    if (!existsSync(identity)) writeFileSync(identity, `${seed}\n`, { mode: 0o600 });
    const exposed = `http://127.0.0.1:${backend}`;
    const args = ["proxy", "--json", "--network", network, "--data", folder, "--unowned", "--allow-private"];
    args.push("--listen", `127.0.0.1:${proxy}`, "--end-with-input", "--expose", `${name}=${exposed}`);
    for (const address of bootstrap) args.push("--join", address);
    if (keep !== undefined) args.push("--expose", `${keep}=http://127.0.0.1:${replica}`);
    if (authority === undefined) return args;
    args.push("--expose", `${SERVICE}=${exposed}`, "--node-listen", `ws://127.0.0.1:${port}`);
    for (const scheme of ["ws", "http"]) args.push("--address", `${scheme}://${authority}/.mesh`);
    return args;
  }
}

/** What is inherited, and the flags of V8 for a workerd that Miniflare starts. */
export function environment(): Record<string, string> {
  const inherited = Object.fromEntries(
    INHERITED.flatMap((name) => {
      const value = process.env[name];
      return value === undefined ? [] : [[name, value]];
    }),
  );
  return { ...inherited, MINIFLARE_WORKERD_V8_FLAGS: WORKER_FLAGS };
}
