import { type ChildProcess, spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { delimiter, dirname, join } from "node:path";
import process from "node:process";
import { setTimeout as delay } from "node:timers/promises";

import { type Block, type Command, commandsOf, noteTried } from "./document.ts";
import { freePorts } from "./ports.ts";

/** Longest time of a command; one that installs or compiles takes minutes. */
const COMMAND_MS = 900_000;
/** Longest time until a program that goes on running can be used. */
const READY_MS = 60_000;
/** Time for a program to end by itself. */
const STOP_MS = 10_000;
/** Between two looks at a port. */
const LOOK_MS = 50;
/** What takes longer says so. */
const PROGRESS_MS = 2000;

/** A peer id or key in hexadecimal, or the name of a capsule or record in base32. */
const PRINTED = /(?<![0-9a-z])(?:[0-9a-f]{64}|[a-z2-7]{52})(?![0-9a-z])/;

/** Programs that go on running, and what they print or listen on when they can be used. */
const SERVICES: readonly (readonly [RegExp, RegExp | "port"])[] = [
  [/^selfsame (?:node|proxy)\b.*--(?:serve|expose) /, /^(?:published|serving)/m],
  [/^selfsame (?:node|proxy)\b/, /^joined/m],
  [/^selfsame capsule serve\b/, /^replica at/m],
  [/^selfsame rpc serve\b.*--pre-shared-key/, /^calls of/m],
  [/^selfsame rpc serve\b/, /^published/m],
  [/^selfsame rpc route\b/, /^calls arrive at/m],
  [/^selfsame nodes\b.*--keep/, /^the ring runs until/m],
  [/^npx wrangler dev\b/, /Ready on/],
  [/^deno run\b/, /Listening on/],
  [/^node server\.mjs/, /#[0-9a-f]{64}/],
  [/^node echo\.mjs/, /^ready/m],
  [/^python3 -m http\.server\b/, "port"],
  [/^npx esbuild\b.*--serve/, "port"],
];
const PORT = /(?:--listen(?: [a-z]+:\/\/| )[\w.]+:|--port |http\.server |--serve=[\w.]+:)(\d+)/;

/** A program that goes on running. */
interface Service {
  /** The command, as it stands in the document. */
  readonly text: string;
  readonly child: ChildProcess;
  readonly output: () => string;
}

/** Who has nothing but an empty folder and the documents. */
export class Newcomer {
  /** The folder, outside of the repository. */
  readonly folder: string;
  /** What stands for the words in capitals, as far as a command has printed it. */
  readonly printed: Map<string, string> = new Map();
  readonly #replaced: readonly (readonly [RegExp | string, string])[];
  readonly #ports: ReadonlyMap<string, string>;
  readonly #env: NodeJS.ProcessEnv;
  readonly #services: Service[] = [];
  readonly #note: (text: string) => void;

  private constructor(options: NewcomerOptions, ports: ReadonlyMap<string, string>) {
    const { path, env = {}, replaced = [], note } = options;
    this.folder = mkdtempSync(join(tmpdir(), "selfsame-first-use-"));
    this.#replaced = replaced;
    this.#ports = ports;
    this.#note = note;
    this.#env = {
      ...process.env,
      PATH: [...path, process.env.PATH].join(delimiter),
      XDG_CONFIG_HOME: join(this.folder, ".config"),
      WRANGLER_SEND_METRICS: "false",
      CLOUDFLARE_CF_FETCH_ENABLED: "false",
      NO_COLOR: "1",
      ...env,
    };
    for (const name of ["NODE_OPTIONS", "npm_config_prefix"]) delete this.#env[name];
  }

  /** An empty folder and free ports in place of those that the documents name. */
  static async arrive(options: NewcomerOptions): Promise<Newcomer> {
    return new Newcomer(options, await freePorts());
  }

  /** Writes the file that a block is. */
  write(block: Block): void {
    const { file, text, place } = block;
    noteTried(block);
    if (file === undefined) throw new Error(`${place} names no file in its first line`);
    const path = join(this.folder, file);
    mkdirSync(dirname(path), { recursive: true });
    // A file of JSON has no comments.
    const body = file.endsWith(".json") ? text.slice(text.indexOf("\n") + 1) : text;
    writeFileSync(path, this.filled(body));
  }

  /** Does what the blocks say in their order: writes files and runs commands. Gives what each command printed. */
  async follow(blocks: readonly Block[], skip: RegExp = /^$/): Promise<Map<string, string>> {
    const outputs = new Map<string, string>();
    for (const block of blocks) {
      if (block.language !== "sh") this.write(block);
      else {
        noteTried(block);
        for (const command of commandsOf(block.text)) {
          if (!skip.test(command.text)) outputs.set(command.text, await this.run(command));
        }
      }
    }
    return outputs;
  }

  /** Runs a command as it stands, but for ports and words in capitals, and gives what it printed. */
  async run({ text, prints }: Command): Promise<string> {
    const service = SERVICES.find(([pattern]) => pattern.test(text));
    const line = this.filled(text);
    const waiting = setTimeout(() => this.#note(`  $ ${text}`), PROGRESS_MS);
    try {
      const output =
        service === undefined ? await this.#finish(line) : await this.#serve(text, line, service[1]);
      if (prints !== undefined) {
        const [value] = PRINTED.exec(output) ?? [];
        if (value === undefined) throw new Error(`$ ${line}\nprints no ${prints}:\n${output}`);
        this.printed.set(prints, value);
      }
      return output;
    } finally {
      clearTimeout(waiting);
    }
  }

  /** A text of the documents with this machine's ports, and with what stands for the words in capitals. */
  filled(text: string): string {
    let filled = text;
    for (const [what, by] of this.#replaced) filled = filled.replaceAll(what, by);
    filled = filled.replaceAll(/\b\d{4,5}\b/g, (port) => this.#ports.get(port) ?? port);
    const words = [...this.printed.keys()].sort((one, other) => other.length - one.length);
    if (words.length === 0) return filled;
    const pattern = new RegExp(`(?<![A-Z-])(?:${words.join("|")})(?![A-Z-])`, "g");
    return filled.replaceAll(pattern, (word) => this.printed.get(word) ?? word);
  }

  /** What a program that goes on running has printed, once that has a sign in it. */
  async hears(text: string, sign: RegExp): Promise<string> {
    const output = this.#services.find((service) => service.text === text)?.output ?? (() => "");
    await until(() => sign.test(output()), `$ ${text}\ndid not say ${sign}`, output);
    return output();
  }

  /** Ends the programs that go on running and were started by such a command. */
  async end(isMeant: (text: string) => boolean): Promise<void> {
    const meant = this.#services.filter(({ text }) => isMeant(text));
    for (const service of meant) this.#services.splice(this.#services.indexOf(service), 1);
    await Promise.all(meant.map(({ child }) => stop(child)));
  }

  /** Ends what goes on running and removes the folder. */
  async leave(): Promise<void> {
    await Promise.all(this.#services.splice(0).map(({ child }) => stop(child)));
    rmSync(this.folder, { recursive: true, force: true, maxRetries: 5 });
  }

  #start(line: string, withInput = false): { child: ChildProcess; output: () => string } {
    const stdio = [withInput ? "pipe" : "ignore", "pipe", "pipe"] as const;
    const child = spawn("bash", ["-c", line], {
      cwd: this.folder,
      env: this.#env,
      detached: true,
      stdio: [...stdio],
    });
    let output = "";
    for (const stream of [child.stdout, child.stderr]) {
      stream?.setEncoding("utf8").on("data", (text: string) => {
        output += text;
      });
    }
    return { child, output: () => output };
  }

  async #finish(line: string): Promise<string> {
    const { child, output } = this.#start(line);
    const ended = new Promise<number>((resolve) => child.once("close", (code) => resolve(code ?? 1)));
    const timer = setTimeout(() => signal(child, "SIGKILL"), COMMAND_MS);
    const code = await ended;
    clearTimeout(timer);
    if (code !== 0) throw new Error(`$ ${line}\nended with ${code}:\n${output()}`);
    return output();
  }

  async #serve(text: string, line: string, sign: RegExp | "port"): Promise<string> {
    const earlier = this.#services.findIndex((service) => service.text === text);
    for (const { child } of earlier < 0 ? [] : this.#services.splice(earlier, 1)) await stop(child);
    const { child, output } = this.#start(line, true);
    this.#services.push({ text, child, output });
    const port = Number(PORT.exec(line)?.[1]);
    const isReady = (): Promise<boolean> | boolean => {
      if (child.exitCode !== null) throw new Error(`$ ${line}\nended with ${child.exitCode}:\n${output()}`);
      return sign === "port" ? answers(port) : sign.test(output());
    };
    await until(isReady, `$ ${line}\nis not ready`, output);
    return output();
  }
}

/** What a newcomer finds on a machine. */
export interface NewcomerOptions {
  /** Folders of programs. */
  readonly path: readonly string[];
  readonly env?: NodeJS.ProcessEnv;
  /** What the documents say for something that is elsewhere here, such as the package of a registry. */
  readonly replaced?: readonly (readonly [RegExp | string, string])[];
  /** Tells of progress. */
  readonly note: (text: string) => void;
}

/** Waits until something is so; fails with what a program has printed. */
async function until(
  isSo: () => Promise<boolean> | boolean,
  complaint: string,
  output: () => string,
): Promise<void> {
  const deadline = performance.now() + READY_MS;
  while (!(await isSo())) {
    if (performance.now() > deadline) throw new Error(`${complaint}:\n${output()}`);
    await delay(LOOK_MS);
  }
}

function answers(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect({ port, host: "127.0.0.1" });
    socket.once("connect", () => {
      socket.destroy();
      resolve(true);
    });
    socket.once("error", () => resolve(false));
  });
}

/** Signals a program and all that it started. */
function signal(child: ChildProcess, name: NodeJS.Signals): void {
  if (child.pid === undefined || child.exitCode !== null || child.signalCode !== null) return;
  try {
    process.kill(-child.pid, name);
  } catch (error) {
    // It ended in between.
    if ((error as NodeJS.ErrnoException).code !== "ESRCH") throw error;
  }
}

async function stop(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const ended = new Promise<void>((resolve) => child.once("exit", () => resolve()));
  signal(child, "SIGTERM");
  const timer = setTimeout(() => signal(child, "SIGKILL"), STOP_MS);
  await ended;
  clearTimeout(timer);
}
