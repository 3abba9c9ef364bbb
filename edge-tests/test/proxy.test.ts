/**
 * A program in Python and one in Go, neither of which knows of a mesh, call each other through two sidecars: all that
 * they use is the HTTP of their standard libraries, and the proxy that their environment names. A collector and a scrape
 * see the whole path of a request.
 */
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { get } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { after, before, describe, it } from "node:test";

import { type Collector, type Sample, startCollector, type ToldSpan } from "../lib/collector.ts";
import { run } from "../lib/run.ts";
import { type Program, type Sidecar, start, startSidecar } from "../lib/sidecar.ts";

const PROGRAMS = join(import.meta.dirname, "../proxy");
/** What each program tries, in its order. */
const CHECKS = [
  "plain",
  "not_found",
  "large_answer",
  "large_request",
  "streaming_answer",
  "streaming_request",
  "concurrent",
  "tunnel",
  "nobody",
  "deadline",
  "elsewhere",
];

/** How a program is run. */
type Language = "python" | "go";

/** A trace that a program begins, and its span. */
const TRACE = "0af7651916cd43dd8448eb211c80319c";
const SPAN = "b7ad6b7169203331";

let folder: string;
let collector: Collector;
let commands: Record<Language, readonly [command: string, ...args: string[]]>;
const programs: Program[] = [];
const sidecars: Partial<Record<Language, Sidecar>> = {};

/** The first of these commands that runs. */
function find(names: readonly string[], version: string, remedy: string): string {
  for (const name of names) {
    try {
      execFileSync(name, [version], { stdio: "ignore" });
      return name;
    } catch {
      // The next one may be there.
    }
  }
  throw new Error(`there is no ${names.join(" or ")}: ${remedy}`);
}

/** Starts a program that serves, and a sidecar beside it. */
async function serve(language: Language, first?: Sidecar): Promise<Sidecar> {
  const [command, ...args] = commands[language];
  const program = start(`the program in ${language}`, command, [...args, "serve"]);
  programs.push(program);
  const port = await program.line(() => true);
  const sidecar = await startSidecar({
    data: join(folder, `${language}-data`),
    expose: `${language}=http://127.0.0.1:${port}`,
    otlp: collector.endpoint,
    ...(first === undefined ? {} : { join: first.join }),
  });
  sidecars[language] = sidecar;
  return sidecar;
}

before(async () => {
  const python = find(
    process.platform === "win32" ? ["python"] : ["python3", "python"],
    "--version",
    "install Python 3.10 or newer (Debian: apt-get install python3)",
  );
  const go = find(
    ["go"],
    "version",
    "install Go 1.19 or newer (Debian: apt-get update && apt-get install golang-go; else https://go.dev/dl)",
  );
  folder = await mkdtemp(join(tmpdir(), "selfsame-proxy-"));
  const built = join(folder, process.platform === "win32" ? "program.exe" : "program");
  await run(go, ["build", "-o", built, join(PROGRAMS, "program.go")]);
  commands = { python: [python, join(PROGRAMS, "program.py")], go: [built] };
  collector = await startCollector();
  const first = await serve("python");
  await serve("go", first);
});

after(async () => {
  // The second sidecar leaves the ring while the first is there to hear it.
  for (const sidecar of [sidecars.go, sidecars.python]) await sidecar?.stop();
  for (const program of programs) await program.stop();
  collector?.close();
  if (folder !== undefined) await rm(folder, { recursive: true, force: true });
});

/** What works when the program of one language calls that of the other. */
async function call(language: Language, other: Language): Promise<string[]> {
  const [command, ...args] = commands[language];
  const sidecar = sidecars[language];
  assert(sidecar !== undefined, "the sidecar runs");
  const env: NodeJS.ProcessEnv = { ...process.env, http_proxy: sidecar.url };
  for (const name of ["HTTP_PROXY", "no_proxy", "NO_PROXY", "all_proxy", "ALL_PROXY"]) delete env[name];
  const printed = await run(command, [...args, "call", `http://${other}.mesh`, sidecar.id], { env });
  return printed.trim().split(/\r?\n/);
}

for (const [language, other] of [
  ["python", "go"],
  ["go", "python"],
] as const) {
  describe(`the program in ${language} calls the one in ${other}`, () => {
    let lines: readonly string[] = [];
    before(async () => {
      lines = await call(language, other);
    });
    for (const check of CHECKS) {
      it(check, () => assert(lines.includes(`ok ${check}`), lines.join("\n")));
    }
    it("and nothing else is tried", () => assert.equal(lines.length, CHECKS.length));
  });
}

/** Sends a request of a trace through a sidecar, by the field Host as programs do that have no proxy. */
function ask(sidecar: Sidecar, service: string): Promise<number> {
  const headers = { host: `${service}.mesh`, traceparent: `00-${TRACE}-${SPAN}-01` };
  return new Promise((resolve, reject) => {
    const request = get(`${sidecar.url}/hello?secret=1`, { headers }, (response) => {
      response.resume().once("end", () => resolve(response.statusCode ?? 0));
    });
    request.once("error", reject);
  });
}

async function scrape({ metrics }: Sidecar): Promise<string> {
  const response = await fetch(metrics);
  assert.equal(response.status, 200);
  assert.match(response.headers.get("content-type") ?? "", /^application\/openmetrics-text/);
  return response.text();
}

/** The sum of a sample over all series that have these labels. */
function sum(samples: readonly Sample[], name: string, labels: Readonly<Record<string, string>>): number {
  return samples
    .filter((sample) => sample.name === name)
    .filter((sample) => Object.entries(labels).every(([label, value]) => sample.labels[label] === value))
    .reduce((total, { value }) => total + value, 0);
}

describe("what is told of a request from beside the program in python to the one in go", () => {
  let spans: readonly ToldSpan[] = [];
  let caller: Sidecar;
  let callee: Sidecar;

  before(async () => {
    assert(sidecars.python !== undefined && sidecars.go !== undefined, "both sidecars run");
    caller = sidecars.python;
    callee = sidecars.go;
    assert.equal(await ask(caller, "go"), 200);
    for (;;) {
      spans = collector.read(TRACE, []).spans;
      if (spans.length >= 2) return;
      await collector.more();
    }
  });

  it("is one span of each sidecar, in one trace, each below the one that caused it", () => {
    const [client, server] = [caller, callee].map(({ id }) => spans.find(({ node }) => node === id));
    assert.equal(spans.length, 2);
    assert.deepEqual([client?.name, client?.kind, client?.parent], ["GET go", "SPAN_KIND_CLIENT", SPAN]);
    assert.deepEqual(
      [server?.name, server?.kind, server?.parent],
      ["GET go", "SPAN_KIND_SERVER", client?.id],
    );
    assert.equal(client?.attributes["selfsame.provider"], callee.id);
    assert.equal(server?.attributes["selfsame.caller"], caller.id);
    assert.equal(server?.attributes["url.path"], "/hello");
    for (const span of [client, server]) assert.equal(span?.attributes["http.response.status_code"], 200);
  });

  it("holds nothing of what the request says", () => {
    assert.doesNotMatch(JSON.stringify(spans), /secret/);
  });

  it("is counted at both, as a scrape shows", async () => {
    const texts = await Promise.all([scrape(caller), scrape(callee)]);
    const { scrapes } = collector.read(TRACE, texts);
    const [sent = [], served = []] = scrapes;
    const labels = { selfsame_service: "go", http_request_method: "GET", http_response_status_code: "200" };
    const count = "http_request_duration_seconds_count";
    assert(sum(sent, count.replace("http", "http_client"), { ...labels, node: caller.id }) > 0);
    assert(sum(served, count.replace("http", "http_server"), { ...labels, node: callee.id }) > 0);
    assert.equal(sum(served, "selfsame_node", { what: "joined" }), 1);
    assert.equal(sum(sent, "selfsame_telemetry_lost_spans_total", {}), 0);
  });

  it("reaches the collector as numbers, too", async () => {
    const wanted = ["http.client.request.duration", "http.server.request.duration"];
    const isTold = () => {
      const { measured } = collector.read(TRACE, []);
      return wanted.every((name) => measured.includes(name));
    };
    while (!isTold()) await collector.more();
  });
});
