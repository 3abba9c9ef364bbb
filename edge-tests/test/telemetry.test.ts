/** What a node tells, read with the official schema of OTLP and the official parser of Prometheus, in Python. */
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join as joinPath } from "node:path";
import { before, describe, it } from "node:test";
import { join, memory } from "selfsame/node";
import { telemetry } from "selfsame/telemetry";
import { freePort } from "selfsame-twiitr/ports";

import { pythonWith } from "../lib/python.ts";

const folder = joinPath(import.meta.dirname, "../telemetry");
const UNOWNED = { unowned: true } as const;

/** What a collector and a scrape got. */
type Told = { traces: object[]; metrics: object[]; prometheus: string };

/** Lets a node make requests, and returns all that it told of them. */
async function tell(): Promise<Told> {
  const traces: object[] = [];
  const metrics: object[] = [];
  const collector = createServer(async (request, answer) => {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk);
    (request.url === "/v1/traces" ? traces : metrics).push(JSON.parse(Buffer.concat(chunks).toString()));
    answer.setHeader("content-type", "application/json").end("{}");
  });
  await new Promise<void>((resolve) => collector.listen(0, "127.0.0.1", resolve));
  const endpoint = `http://127.0.0.1:${(collector.address() as AddressInfo).port}`;
  const port = await freePort(8740);
  const mesh = await join({
    network: "telemetry",
    storage: memory(),
    listen: { port, hostname: "127.0.0.1" },
    address: `ws://127.0.0.1:${port}/.mesh`,
    allowPrivate: true,
    telemetry: telemetry({ endpoint, attributes: { "a.number": 1.5, "a.flag": true } }),
  });
  await mesh.serve("check", () => new Response("no", { status: 401 }), { ...UNOWNED, version: "2" });
  const headers = {
    traceparent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
    tracestate: "vendor=1",
  };
  await mesh.fetch("https://check.mesh/", { headers, ...UNOWNED });
  await assert.rejects(mesh.fetch("https://nobody.mesh/", UNOWNED));
  const prometheus = await mesh.metrics();
  // What is queued is sent before a node closes.
  await mesh.close();
  collector.close();
  return { traces, metrics, prometheus };
}

describe("telemetry", () => {
  let told: Told;
  let python: string;

  before(async () => {
    python = pythonWith(joinPath(folder, "requirements.txt"));
    told = await tell();
  });

  function check(given: Told): { status: number | null; stdout: string; stderr: string } {
    const input = JSON.stringify(given);
    return spawnSync(python, [joinPath(folder, "check.py")], { input, encoding: "utf8" });
  }

  it("is what the schema and the parser take, whole", () => {
    const { status, stdout, stderr } = check(told);
    assert.equal(status, 0, stderr);
    const { spans, histograms, families } = JSON.parse(stdout) as Record<string, unknown>;
    assert.deepEqual(spans, ["GET check", "GET check", "GET nobody"]);
    assert.deepEqual(histograms, ["http.client.request.duration", "http.server.request.duration"]);
    assert.deepEqual(families, {
      http_client_request_duration_seconds: "histogram",
      http_server_request_duration_seconds: "histogram",
      http_server_active_requests: "gauge",
      selfsame_node: "gauge",
    });
  });

  it("would not be taken with a field that the schema does not have, or a line that is none", () => {
    const renamed = JSON.parse(JSON.stringify(told).replaceAll('"startTimeUnixNano"', '"startTime"')) as Told;
    assert.match(check(renamed).stderr, /ParseError/);
    assert.notEqual(check({ ...told, prometheus: `${told.prometheus}no number\n` }).status, 0);
  });
});
