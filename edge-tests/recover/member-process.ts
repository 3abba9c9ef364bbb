/** Members of a test ring in Rust, Deno and workerd, each a process of its own that is started, asked, copied and ended. */
import { chmodSync, cpSync, existsSync, mkdirSync, rmSync, writeFileSync } from "node:fs";
import { createServer, request, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { Child } from "selfsame-twiitr/child";
import { secretFile } from "selfsame-twiitr/secret";
import type { NodeStatus } from "selfsame-twiitr/status";

import { DENO, ROOT } from "../lib/run.ts";
import type { Clock } from "./clock.ts";
import type { MemberSettings } from "./settings.ts";

/** The runtimes of a test ring. */
export const RUNTIMES = ["rust", "deno", "workerd"] as const;
/** One of them. */
export type Runtime = (typeof RUNTIMES)[number];

/** What is built once for all rings. */
export type Programs = {
  /** The command line of the wasmtime host. */
  readonly selfsame: string;
  /** Folder of the bundled Worker. */
  readonly worker: string;
};

/** Longest time for one question to a member. */
const ANSWER_MS = 4_000;
/** How often a folder that changes while it is copied is copied again. */
const COPIES = 5;
/** Longest part of an answer that is told as the reason of a failure. */
const MAX_REASON = 200;
/** What programs get of this process's environment. */
const INHERITED = ["PATH", "HOME", "TMPDIR", "DENO_DIR", "XDG_CACHE_HOME"];

/** Where a member of the Rust host answers, besides the port where it is dialled. */
type Desk = { readonly proxy: number; readonly metrics: number; readonly backend: Server };

/** A member of a test ring. */
export class MemberProcess {
  readonly runtime: Runtime;
  /** Folder of what it keeps. */
  readonly folder: string;
  readonly clock: Clock;
  readonly #programs: Programs;
  readonly #log: string;
  readonly #desk: Desk | undefined;
  #child: Child | undefined;
  #settings: MemberSettings;

  private constructor(
    runtime: Runtime,
    parts: { folder: string; log: string; clock: Clock; programs: Programs; desk: Desk | undefined },
    settings: MemberSettings,
  ) {
    this.runtime = runtime;
    this.folder = parts.folder;
    this.clock = parts.clock;
    this.#log = parts.log;
    this.#programs = parts.programs;
    this.#desk = parts.desk;
    this.#settings = settings;
  }

  /** Prepares a member that keeps its state in `folder`; `freePort` gives ports that nothing else of this test uses. */
  static async create(
    runtime: Runtime,
    parts: { folder: string; log: string; clock: Clock; programs: Programs; freePort: () => Promise<number> },
    settings: MemberSettings,
  ): Promise<MemberProcess> {
    const desk = runtime === "rust" ? await openDesk(settings.name, parts.freePort) : undefined;
    return new MemberProcess(runtime, { ...parts, desk }, settings);
  }

  /** How it is started the next time. */
  get settings(): MemberSettings {
    return this.#settings;
  }

  /** Changes how it is started the next time. */
  configure(changes: Partial<MemberSettings>): void {
    this.#settings = { ...this.#settings, ...changes };
  }

  /** Its peer id, once it has run. */
  get id(): string {
    return String(this.#child?.said("id") ?? "");
  }

  /** Whether it runs. */
  get isRunning(): boolean {
    return this.#child?.isRunning ?? false;
  }

  /** Name of the error code with which the node ended by itself, if it did: a Durable Object outlives it. */
  async endedWith(): Promise<string | undefined> {
    if (!this.isRunning) return this.#child?.said("code") as string | undefined;
    if (this.runtime !== "workerd") return undefined;
    const { body } = await ask(this.#settings.port, "/status");
    return (JSON.parse(body) as { code?: string }).code;
  }

  /** Starts it; resolves when it answers, or when it has ended by itself. */
  async start(): Promise<void> {
    mkdirSync(this.folder, { recursive: true, mode: 0o700 });
    this.#child = Child.start({
      name: this.#settings.name,
      ...this.#command(),
      cwd: ROOT,
      env: { ...inherited(), ...this.clock.env },
      log: this.#log,
      isReady: ({ event, url }) => event === "started" || typeof url === "string",
    });
    await Promise.race([this.#child.ready, this.#child.ended]);
  }

  /** Asks it to end, which lets it leave the ring where the runtime does that. */
  async stop(): Promise<void> {
    await this.#child?.stop();
  }

  /** Ends it as a crash does. */
  async kill(): Promise<void> {
    await this.#child?.kill();
  }

  /** Ends it for good. */
  async dispose(): Promise<void> {
    await this.stop();
    this.#desk?.backend.close();
    this.clock.close();
  }

  /** Copies its folder as an operator would, whether it runs or not. */
  copyFolder(target: string): void {
    for (let left = COPIES; ; left--) {
      rmSync(target, { recursive: true, force: true });
      try {
        return cpSync(this.folder, target, { recursive: true });
      } catch (error) {
        // A file that a store replaced meanwhile.
        if (left === 0 || (error as NodeJS.ErrnoException).code !== "ENOENT") throw error;
      }
    }
  }

  /** Puts a copy in the place of its folder, while it does not run. */
  restoreFolder(source: string): void {
    rmSync(this.folder, { recursive: true, force: true });
    cpSync(source, this.folder, { recursive: true });
  }

  /** What it knows of itself and the ring. */
  async status(): Promise<NodeStatus> {
    const { body } = await ask(this.#desk?.metrics ?? this.#settings.port, this.#desk ? "/ring" : "/status");
    const answer = JSON.parse(body) as NodeStatus & { status?: NodeStatus };
    return answer.status ?? answer;
  }

  /** Sends a request to a name as this member; resolves with why who serves it has not answered, if so. */
  async call(name: string): Promise<string | undefined> {
    const { status, body } =
      this.#desk === undefined
        ? await ask(this.#settings.port, `/call/${name}`)
        : await ask(this.#desk.proxy, "/", `${name}.mesh`);
    return status === 200 && body === name ? undefined : `${status} ${body.slice(0, MAX_REASON)}`;
  }

  #command(): { command: string; args: string[] } {
    const settings = JSON.stringify(this.#settings);
    if (this.#desk !== undefined) return this.#hostCommand(this.#desk);
    if (this.runtime === "deno") {
      const flags = ["run", "--quiet", "--no-prompt", "--cached-only", "--allow-all"];
      const script = join(import.meta.dirname, "member.ts");
      return { command: DENO, args: [...flags, script, this.folder, settings] };
    }
    const script = join(ROOT, "workers/twiitr/src/workerd.ts");
    const bindings = secretFile(join(this.folder, "bindings.json"), JSON.stringify({ SETTINGS: settings }));
    const args = [script, this.#programs.worker, this.folder, `${this.#settings.port}`, bindings];
    return { command: process.execPath, args };
  }

  #hostCommand({ proxy, metrics, backend }: Desk): { command: string; args: string[] } {
    const { network, name, seed, port, domain, bootstrap } = this.#settings;
    const identity = join(this.folder, "identity.key");
    if (!existsSync(identity)) writeFileSync(identity, `${seed}\n`, { mode: 0o600 });
    chmodSync(identity, 0o600);
    const { port: served } = backend.address() as AddressInfo;
    const authority = `127.0.0.1:${port}`;
    const addresses = ["ws", "http"].flatMap((scheme) => ["--address", `${scheme}://${authority}/.mesh`]);
    const joining = bootstrap.flatMap((address) => ["--join", address.replace("http", "ws")]);
    const args = [
      ...["proxy", "--json", "--network", network, "--data", this.folder, "--domain", domain, "--unowned"],
      ...["--node-listen", `ws://${authority}`, ...addresses, ...joining, "--allow-private"],
      ...["--listen", `127.0.0.1:${proxy}`, "--metrics", `127.0.0.1:${metrics}`],
      ...["--expose", `${name}=http://127.0.0.1:${served}`, "--end-with-input"],
    ];
    return { command: this.#programs.selfsame, args };
  }
}

/** Opens what the host passes requests on to: a server that answers the member's name. */
async function openDesk(name: string, freePort: () => Promise<number>): Promise<Desk> {
  const backend = createServer((_, response) => response.end(name));
  await new Promise<void>((listening) => backend.listen(0, "127.0.0.1", listening));
  return { proxy: await freePort(), metrics: await freePort(), backend };
}

function inherited(): Record<string, string> {
  return Object.fromEntries(
    INHERITED.flatMap((name) => {
      const value = process.env[name];
      return value === undefined ? [] : [[name, value]];
    }),
  );
}

/** Asks a server of this machine. */
function ask(port: number, path: string, host = "127.0.0.1"): Promise<{ status: number; body: string }> {
  return new Promise((resolve, reject) => {
    const options = { port, path, host: "127.0.0.1", headers: { host }, agent: false, timeout: ANSWER_MS };
    const asked = request(options, (response) => {
      let body = "";
      response.setEncoding("utf8");
      response.on("data", (text: string) => {
        body += text;
      });
      response.on("end", () => resolve({ status: response.statusCode ?? 0, body }));
      response.on("error", reject);
    });
    asked.on("timeout", () => asked.destroy(new Error("no answer in time")));
    asked.on("error", reject);
    asked.end();
  });
}
