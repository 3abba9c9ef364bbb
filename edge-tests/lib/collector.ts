import { spawnSync } from "node:child_process";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";

import { pythonWith } from "./python.ts";

const FOLDER = join(import.meta.dirname, "../telemetry");
/** Room for what thousands of requests leave. */
const MAX_BUFFER = 256 * 1024 * 1024;

/** A span, as the official schema reads it. */
export interface ToldSpan {
  /** Id of the node that told of it. */
  readonly node: string;
  /** Its id, 16 hex digits. */
  readonly id: string;
  /** That of the span that caused it. */
  readonly parent: string;
  /** The method, then the service. */
  readonly name: string;
  /** Whether it was sent or served, as the schema names it. */
  readonly kind: string;
  /** What is known of it. */
  readonly attributes: Readonly<Record<string, unknown>>;
}

/** A number of a scrape. */
export interface Sample {
  readonly name: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly value: number;
}

/** What was understood. */
export interface Told {
  /** The spans of one trace. */
  readonly spans: readonly ToldSpan[];
  /** Names of what is measured. */
  readonly measured: readonly string[];
  /** The samples of each scrape. */
  readonly scrapes: readonly (readonly Sample[])[];
}

/** A collector of OTLP over HTTP. */
export interface Collector {
  /** The base of its addresses. */
  readonly endpoint: string;
  /** Reads what has arrived so far. */
  read(trace: string, scrapes: readonly string[]): Told;
  /** Completes when something more has arrived. */
  more(): Promise<void>;
  /** Takes no more. */
  close(): void;
}

/** Starts a collector that takes what it is sent, in the binary encoding. */
export async function startCollector(): Promise<Collector> {
  const python = pythonWith(join(FOLDER, "requirements.txt"));
  const traces: string[] = [];
  const metrics: string[] = [];
  let arrived = Promise.withResolvers<void>();
  const server = createServer(async (request, answer) => {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk);
    const isTrace = request.url === "/v1/traces";
    const isKnown = isTrace || request.url === "/v1/metrics";
    const isBinary = request.headers["content-type"] === "application/x-protobuf";
    if (isKnown && isBinary) (isTrace ? traces : metrics).push(Buffer.concat(chunks).toString("base64"));
    answer.writeHead(isKnown && isBinary ? 200 : 400, { "content-type": "application/x-protobuf" }).end();
    arrived.resolve();
    arrived = Promise.withResolvers();
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    endpoint: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    read: (trace, scrapes) => {
      const input = JSON.stringify({ trace, traces, metrics, scrapes });
      const options = { input, encoding: "utf8", maxBuffer: MAX_BUFFER } as const;
      const { status, stdout, stderr } = spawnSync(python, [join(FOLDER, "trace.py")], options);
      if (status !== 0) throw new Error(`what was told is not understood:\n${stderr}`);
      return JSON.parse(stdout) as Told;
    },
    more: () => arrived.promise,
    close: () => {
      server.close();
      server.closeAllConnections();
    },
  };
}
