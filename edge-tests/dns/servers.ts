import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { createServer } from "node:net";
import { join } from "node:path";
import process from "node:process";

import { overUdp } from "./exchange.ts";
import type { AdmissionModule, TsigKey } from "./module.ts";

/** How long one answer is awaited while a server starts, and how long it may take to start. */
const TRY_MS = 250;
const START_MS = 60_000;

/** A domain whose zone has no file, so that servers answer SERVFAIL. */
export const BROKEN_DOMAIN = "broken.example";

/** Name of a server that the tests know. */
export type ServerName = "nsd" | "knot" | "bind9";

/** A name server of Debian, with its zone in a folder of its own. */
export interface NameServer {
  readonly name: ServerName;
  readonly port: number;
  /** Writes the zone's file again and has the server read it. */
  reload(zone: string): Promise<void>;
  /** Has it answer nothing until it goes on. */
  pause(): void;
  /** Has it go on. */
  resume(): void;
  /** Ends it. */
  stop(): Promise<void>;
}

interface Kind {
  /** The program, where Debian has it. */
  readonly program: string;
  /** The package that has the program. */
  readonly package: string;
  readonly arguments: (config: string) => readonly string[];
  readonly config: (place: Place) => string;
}

interface Place {
  readonly folder: string;
  readonly port: number;
  readonly domain: string;
  readonly key: TsigKey;
}

const secretOf = ({ secret }: TsigKey): string => Buffer.from(secret).toString("base64");

const KINDS: Record<ServerName, Kind> = {
  nsd: {
    program: "/usr/sbin/nsd",
    package: "nsd",
    arguments: (config) => ["-d", "-c", config],
    config: ({ folder, port, domain }) => `server:
  ip-address: 127.0.0.1@${port}
  username: ""
  chroot: ""
  zonesdir: "${folder}"
  pidfile: "${folder}/nsd.pid"
  xfrdfile: "${folder}/xfrd.state"
  zonelistfile: "${folder}/zone.list"
  xfrdir: "${folder}"
  database: ""
  server-count: 1
remote-control:
  control-enable: no
zone:
  name: ${domain}
  zonefile: zone
zone:
  name: ${BROKEN_DOMAIN}
  zonefile: none
`,
  },
  knot: {
    program: "/usr/sbin/knotd",
    package: "knot",
    arguments: (config) => ["-c", config],
    config: ({ folder, port, domain, key }) => `server:
  rundir: "${folder}"
  listen: 127.0.0.1@${port}
database:
  storage: "${folder}"
key:
  - id: ${key.name}
    algorithm: hmac-sha256
    secret: ${secretOf(key)}
acl:
  - id: update
    key: ${key.name}
    action: update
zone:
  - domain: ${domain}
    storage: "${folder}"
    file: zone
    acl: update
  - domain: ${BROKEN_DOMAIN}
    storage: "${folder}"
    file: none
`,
  },
  bind9: {
    program: "/usr/sbin/named",
    package: "bind9",
    arguments: (config) => ["-g", "-c", config],
    config: ({ folder, port, domain, key }) => `options {
  directory "${folder}";
  listen-on port ${port} { 127.0.0.1; };
  listen-on-v6 { none; };
  pid-file "${folder}/named.pid";
  session-keyfile "${folder}/session.key";
  managed-keys-directory "${folder}";
  recursion no;
  dnssec-validation no;
};
controls { };
key "${key.name}" { algorithm hmac-sha256; secret "${secretOf(key)}"; };
zone "${domain}" { type primary; file "zone"; allow-update { key "${key.name}"; }; };
zone "${BROKEN_DOMAIN}" { type primary; file "none"; };
`,
  },
};

/** The names of all servers. */
export const SERVER_NAMES: readonly ServerName[] = Object.keys(KINDS) as ServerName[];

/** What is missing to start a server, if anything is. */
export function missing(name: ServerName): string | undefined {
  const { program, package: wanted } = KINDS[name];
  if (existsSync(program)) return undefined;
  return `${name}: there is no ${program}; run: apt-get install --no-install-recommends ${wanted}`;
}

/** Starts a server with a zone, and waits until it answers. */
export async function startServer(
  name: ServerName,
  module: AdmissionModule,
  { folder, domain, key }: Omit<Place, "port">,
  zone: string,
): Promise<NameServer> {
  const { program, arguments: argumentsOf, config } = KINDS[name];
  await mkdir(folder, { recursive: true });
  const port = await freePort();
  const zoneFile = join(folder, "zone");
  const configFile = join(folder, "config");
  await writeFile(zoneFile, zone);
  await writeFile(configFile, config({ folder, port, domain, key }));
  const log = join(folder, "log");
  const child = spawn(program, argumentsOf(configFile), {
    stdio: ["ignore", "pipe", "pipe"],
    // A group of its own, so that all its processes stop at once.
    detached: true,
  });
  const lines: Buffer[] = [];
  for (const stream of [child.stdout, child.stderr]) stream.on("data", (piece) => lines.push(piece));
  child.once("exit", () => void writeFile(log, Buffer.concat(lines)));
  const server = {
    name,
    port,
    reload: async (changed: string) => {
      await writeFile(zoneFile, changed);
      child.kill("SIGHUP");
    },
    pause: () => signal(child, "SIGSTOP"),
    resume: () => signal(child, "SIGCONT"),
    stop: () => stop(child),
  };
  try {
    await answering(server, child, module, domain);
  } catch (error) {
    await server.stop();
    const said = await readFile(log, "utf8").catch(() => "");
    throw new Error(`${name} does not answer; it says\n${said}`, { cause: error });
  }
  return server;
}

/** Asks until the server answers for its zone. */
async function answering(
  { port }: NameServer,
  child: ChildProcess,
  module: AdmissionModule,
  domain: string,
): Promise<void> {
  const name = module.authorityName(domain);
  const until = Date.now() + START_MS;
  while (Date.now() < until && child.exitCode === null) {
    const { id, message } = module.query(name);
    try {
      module.response(id, name, true, await overUdp(port, message, TRY_MS));
      return;
    } catch {
      // Not yet: nothing listens, or the zone is not loaded.
    }
  }
  throw new Error("no answer for the zone");
}

function signal({ pid }: ChildProcess, name: NodeJS.Signals): void {
  if (pid !== undefined) process.kill(-pid, name);
}

async function stop(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const ended = once(child, "exit");
  child.kill("SIGTERM");
  await ended;
}

/** A port that is free now. */
export async function freePort(): Promise<number> {
  const probe = createServer().listen(0, "127.0.0.1");
  await once(probe, "listening");
  const address = probe.address();
  probe.close();
  await once(probe, "close");
  if (address === null || typeof address === "string") throw new Error("a port has no number");
  return address.port;
}
