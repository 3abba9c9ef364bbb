/**
 * WebSocket through the mesh between all runtimes: Node, Deno, a Durable Object in workerd and a page in Chromium open
 * sockets to each other and to a server that knows of no mesh behind the sidecar of the wasmtime host, and so does a program
 * beside the sidecar.
 */
import assert from "node:assert/strict";
import { mkdirSync, rmSync } from "node:fs";
import { createServer, type Server } from "node:http";
import { join as joinPath } from "node:path";
import { after, before, describe, it } from "node:test";
import { build } from "esbuild";
import type { Miniflare } from "miniflare";
import type { Browser, Page } from "playwright-core";
import { join, memory, type NodeMesh } from "selfsame/node";
import { buildAll } from "selfsame-twiitr/build";
import type { Child } from "selfsame-twiitr/child";
import { freePort } from "selfsame-twiitr/ports";
import { WebSocket, WebSocketServer } from "ws";

import { HOW_TO_GET_A_BROWSER, launchChromium } from "../lib/chromium.ts";
import { DATA } from "../lib/cluster.ts";
import { serveFiles } from "../lib/files.ts";
import { ROOT } from "../lib/run.ts";
import { startMember, startWorker } from "../lib/runtimes.ts";
import { type Sidecar, startSidecar } from "../lib/sidecar.ts";
import { accept, EXPECTED, PROTOCOL, type Socket, type Talk, talk } from "../websocket/talk.ts";

/** The network of a sidecar of these tests. */
const NETWORK = "programs";
const UNOWNED = { unowned: true } as const;
const SERVICES = ["host", "node", "deno", "workerd", "page"] as const;
const browser: Browser | undefined = await launchChromium();
const skip = browser === undefined ? HOW_TO_GET_A_BROWSER : false;
const folder = joinPath(DATA, "websocket");

let server: Server;
let sidecar: Sidecar;
let miniflare: Miniflare;
let caller: NodeMesh;
const members: Child[] = [];
/** Where each runtime but the page is told whom to talk to. */
const urls: Record<string, string> = {};
let files: Awaited<ReturnType<typeof serveFiles>> | undefined;
let page: Page | undefined;

/** Starts the server that knows of no mesh. */
async function startServer(): Promise<number> {
  let ended = "";
  const sockets = new WebSocketServer({ noServer: true, handleProtocols: () => PROTOCOL });
  sockets.on("connection", (socket) => {
    accept(socket as unknown as Socket, (how) => {
      ended = how;
    });
  });
  server = createServer((_, answer) => answer.end(ended));
  server.on("upgrade", (request, socket, head) => {
    if (request.url === "/refused")
      return socket.end("HTTP/1.1 403 Forbidden\r\ncontent-length: 7\r\n\r\nnot you");
    sockets.handleUpgrade(request, socket, head, (accepted) => sockets.emit("connection", accepted));
  });
  const port = await freePort(8600);
  await new Promise<void>((resolve) => server.listen(port, "127.0.0.1", resolve));
  return port;
}

async function startIn(name: "node" | "deno"): Promise<void> {
  const settings = { network: NETWORK, name, port: await freePort(8620), bootstrap: sidecar.join };
  const member = await startMember("edge-tests/websocket/member.ts", settings, folder);
  members.push(member);
  urls[name] = String(member.said("url"));
}

async function startInWorkerd(): Promise<void> {
  const settings = { network: NETWORK, port: await freePort(8640), bootstrap: sidecar.join };
  const worker = await startWorker("edge-tests/websocket/worker.ts", settings, folder);
  miniflare = worker.miniflare;
  urls.workerd = `${worker.url}/talk`;
}

/** Opens a page that is a leaf. */
async function startPage(browser: Browser): Promise<void> {
  const { outputFiles } = await build({
    entryPoints: [joinPath(ROOT, "edge-tests/websocket/page.ts")],
    bundle: true,
    write: false,
    format: "esm",
    target: "es2022",
    platform: "browser",
  });
  files = await serveFiles({
    "index.html": { type: "text/html", body: '<!doctype html><script type="module" src="page.js"></script>' },
    "page.js": { type: "text/javascript", body: outputFiles[0]?.contents ?? "" },
  });
  page = await browser.newPage();
  await page.goto(`${files.url}?${new URLSearchParams({ network: NETWORK, bootstrap: sidecar.join })}`);
  await page.waitForFunction("document.title === 'ready'", undefined, { timeout: 20_000 });
}

before(async () => {
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  await buildAll(() => undefined);
  const port = await startServer();
  sidecar = await startSidecar({ data: joinPath(folder, "host"), expose: `host=http://127.0.0.1:${port}` });
  await startIn("node");
  await startIn("deno");
  await startInWorkerd();
  if (browser !== undefined) await startPage(browser);
  caller = await join({ network: NETWORK, storage: memory(), bootstrap: sidecar.join, allowPrivate: true });
});

after(async () => {
  await caller?.close();
  await browser?.close();
  files?.close();
  await miniflare?.dispose();
  for (const member of members) await member.stop();
  await sidecar?.stop();
  server?.close();
});

/** Lets a runtime talk to a service. */
async function talkFrom(runtime: string, service: string): Promise<Talk> {
  if (runtime === "page") return (await page?.evaluate(`talkTo("${service}")`)) as Talk;
  const response = await fetch(`${urls[runtime]}/${service}`);
  assert.equal(response.status, 200);
  return (await response.json()) as Talk;
}

/** A socket of a program that knows of no mesh, whose proxy is the sidecar. */
function throughSidecar(service: string, protocols: string[]): Socket {
  const headers = { host: `${service}.mesh` };
  return new WebSocket(sidecar.url.replace("http", "ws"), protocols, { headers }) as unknown as Socket;
}

async function endedAt(service: string): Promise<string> {
  return (await caller.fetch(`https://${service}.mesh/ended`, UNOWNED)).text();
}

for (const service of SERVICES) {
  describe(`a WebSocket to the service in ${service}`, { skip: service === "page" && skip }, () => {
    for (const runtime of ["node", "deno", "workerd", "page"]) {
      it(`is opened from ${runtime}`, { skip: runtime === "page" && skip }, async () => {
        assert.deepEqual(await talkFrom(runtime, service), EXPECTED);
        assert.equal(await endedAt(service), "3001 enough");
      });
    }

    it("is opened by a program beside the sidecar", async () => {
      assert.deepEqual(await talk((protocols) => throughSidecar(service, protocols)), EXPECTED);
    });

    it("is opened from outside, through a Worker that hands it on", async () => {
      const url = `${urls.workerd?.replace("http", "ws").replace("/talk", "/through")}/${service}`;
      const open = (protocols: string[]): Socket => new WebSocket(url, protocols) as unknown as Socket;
      assert.deepEqual(await talk(open), EXPECTED);
    });

    it("is none when the service refuses", async () => {
      const socket = caller.webSocket(`wss://${service}.mesh/refused`, [], UNOWNED);
      const { error } = await new Promise<{ error: Error }>((resolve) => {
        socket.addEventListener("error", resolve);
      });
      assert.match(error.message, /it answered 403/);
    });
  });
}
