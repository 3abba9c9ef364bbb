/**
 * A member or leaf on Node or Deno that provides the service, and makes the calls that it is told to make:
 *
 *     member.ts SETTINGS
 *     curl -d ORDER http://127.0.0.1:PORT/order
 */
import process from "node:process";
import { contextOf, type Handler, join, serve, sqlite, upgradeWebSocket } from "selfsame";
import {
  type Capsule,
  openCapsule,
  openReplica,
  replicaHandler,
  replicate,
  serveCapsules,
} from "selfsame/capsule";

import { perform, reasonOf } from "./calls.ts";
import { answer, countAt, echo, gauges } from "./service.ts";
import { type MemberSettings, type Order, type Outcome, SERVICE, type WriterSettings } from "./settings.ts";

const settings = JSON.parse(process.argv[2] ?? "") as MemberSettings;
const { network, name, seed, port, authority, bootstrap, ledger, folder, keep } = settings;
const UNOWNED = { unowned: true } as const;
/** Between two collections. */
const COLLECT_MS = 30_000;

const addresses =
  authority === undefined ? [] : ["ws", "http"].map((scheme) => `${scheme}://${authority}/.mesh`);
const replica =
  keep === undefined ? undefined : await openReplica({ storage: sqlite(`${folder}/capsules.db`), seed });
const answerReplica = replica === undefined ? undefined : replicaHandler(replica);
const mesh = await join({
  network,
  seed,
  bootstrap,
  ...(addresses.length === 0 ? {} : { address: addresses }),
  storage: sqlite(`${folder}/node.db`),
  allowPrivate: true,
});

const provide: Handler = (request) => {
  if (new URL(request.url).pathname !== "/socket") return answer(request, (id) => countAt(ledger, id));
  const { socket, response } = upgradeWebSocket(request);
  echo(socket);
  return response;
};

const client = {
  fetch: (url: string, init: RequestInit) => mesh.fetch(url, { ...init, ...UNOWNED }),
  socket: (url: string) => mesh.webSocket(url, [], UNOWNED),
};

let writer: Capsule | undefined;

async function openWriter({ metadata, seed: key, capsule, replicas, warmed }: WriterSettings): Promise<void> {
  const places = new Map(replicas.map(({ peer }, at) => [`replica-${at}.invalid`, peer]));
  const overMesh: typeof fetch = (input, init) => {
    const peer = places.get(new URL(String(input)).hostname);
    return mesh.fetch(`https://${capsule}.mesh/`, { ...init, ...UNOWNED, peer, retries: 0 } as RequestInit);
  };
  writer = await openCapsule({
    metadata: Buffer.from(metadata, "hex"),
    seed: key,
    servers: replicas.map(({ key: server }, at) => ({ key: server, url: `https://replica-${at}.invalid/` })),
    storage: sqlite(`${folder}/writer.db`),
    fetch: overMesh,
  });
  // A peer is dialled by its id where it is known to serve the name.
  await mesh.find(capsule, UNOWNED);
  for (let number = 0; number < warmed; number++) {
    await writer.append([new TextEncoder().encode(`${name} ${number}`)]);
  }
}

async function append({ id }: Order): Promise<Outcome> {
  const begun = performance.now();
  try {
    await writer?.append([new TextEncoder().encode(`<${id}>`)]);
    return { ok: true, attempts: 1, reasons: [], took_ms: performance.now() - begun };
  } catch (error) {
    return { ok: false, attempts: 1, reasons: [reasonOf(error)], took_ms: performance.now() - begun };
  }
}

async function follow(request: Request): Promise<Response> {
  const { pathname } = new URL(request.url);
  switch (pathname) {
    case "/order": {
      const order = (await request.json()) as Order;
      return Response.json(await (order.kind === "append" ? append(order) : perform(client, order)));
    }
    case "/writer":
      await openWriter((await request.json()) as WriterSettings);
      return new Response();
    case "/withdraw":
      await mesh.withdraw(SERVICE);
      return new Response();
    case "/publish":
      await mesh.serve(SERVICE, provide, UNOWNED);
      return new Response();
    case "/round":
      await replicating?.round();
      return new Response();
    case "/memory":
      (globalThis as { gc?: () => void }).gc?.();
      return Response.json({ ...process.memoryUsage(), ...gauges, status: await mesh.status() });
    default:
      return answerReplica?.(request) ?? new Response("there is no such path", { status: 404 });
  }
}

// V8 collects when a heap is nearly full, which in a process that allocates little takes hours: garbage is not what it holds.
const { gc } = globalThis as { gc?: () => void };
if (gc !== undefined) setInterval(gc, COLLECT_MS);

const app = (request: Request): Response | Promise<Response> =>
  contextOf(request) === undefined ? follow(request) : new Response(null, { status: 404 });
await serve({ fetch: mesh.handler(app), port, hostname: "127.0.0.1" });
await mesh.serve(name, provide, UNOWNED);
if (authority !== undefined) await mesh.serve(SERVICE, provide, UNOWNED);
if (replica !== undefined) await (await serveCapsules(mesh, replica)).published;
const replicating =
  replica === undefined || keep === undefined ? undefined : replicate(replica, { mesh, keep: [keep] });
console.log(JSON.stringify({ id: mesh.id, key: replica?.key, url: `http://127.0.0.1:${port}` }));
process.once("SIGTERM", () => {
  mesh.close({ drain: 5_000 } as never).then(
    () => process.exit(0),
    () => process.exit(1),
  );
});
process.stdin.on("end", () => process.exit(0)).resume();
