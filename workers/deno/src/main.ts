/**
 * A member of the ring on Deno: AppAuth's `handler` and `check`, the gateway and the live page.
 *
 *     deno run --allow-net --allow-read --allow-write --allow-env src/main.ts
 *
 * Settings are environment variables; `settings.ts` says which.
 */
import { type Context, Hono } from "hono";
import { type Handler, join, sqlite } from "selfsame";
import { dns } from "selfsame/admission";
import { openReplica, replicate, serveCapsules } from "selfsame/capsule";
import { createRpcClient, createRpcServer, type RpcOrigin, TICKET_PATH } from "selfsame/rpc";
import { jsonLogger, telemetry, traced } from "selfsame/telemetry";
import { callable, check, handler, type Login, parseDictionary } from "selfsame-apps/appauth";
import users from "selfsame-apps/appauth/users.json" with { type: "json" };
import { AuditLog, type AuditSettings, audit } from "selfsame-apps/audit";
import { edge, ownerOf } from "selfsame-apps/edge";
import { observability } from "selfsame-apps/observability";
import { type PageConfig, page } from "selfsame-apps/page";

import { readSettings } from "./settings.ts";

/** What this node is told apart by. */
const PLATFORM = "deno";

/** Where calls of `check` over HTTP arrive. */
const RPC_PATH = "/rpc";

/** Some checks at a time on a busy machine; whoever takes longer is asked through the mesh. */
const RPC_TIMEOUT_MS = 2000;

const settings = readSettings((name) => Deno.env.get(name), Deno.readTextFileSync);
const { host, port, owner, owned } = settings;
const authority = `${host}:${port}`;

const mesh = await join({
  network: settings.network,
  bootstrap: settings.bootstrap,
  address: settings.address,
  storage: sqlite(settings.data),
  admission: settings.dns && dns(settings.dns),
  owner: owner ? ownerOf(owned, owner) : undefined,
  allowPrivate: settings.allowPrivate,
  domain: PLATFORM,
  telemetry: telemetry({ name: PLATFORM }),
  log: jsonLogger({ write: (line) => console.error(line) }),
});

const kept = settings.audit && (await keepLog(settings.audit));
const log = kept?.log;
const onLogin = (login: Login): void => {
  const signIn = { ...login, time_ms: Date.now(), answeredBy: PLATFORM };
  log?.note(signIn).catch((error: unknown) => console.error("a sign-in is not in the audit log:", error));
};

const checker = check(parseDictionary(users), { servedBy: PLATFORM });
const rpc = settings.ticketKey && (await startRpc(settings.ticketKey));

const app = new Hono();
const meshOf = (c: Context) => traced(mesh, c.req.raw);
if (rpc !== undefined) app.all(RPC_PATH, (c) => rpc.answer(c.req.raw, c.env as RpcOrigin));
app.route(
  "/",
  edge({
    mesh: meshOf,
    platform: PLATFORM,
    owned,
    gateway: settings.gateway,
    call: rpc?.call,
    sourceOf,
    onLogin,
  }),
);
app.route("/", page({ read: (name) => Deno.readFile(`${settings.page}/${name}`), config: pageConfig }));
const server = Deno.serve({ hostname: host, port, onListen: () => undefined }, mesh.handler(app.fetch));

const entrance = handler({
  fetch: (url, init) => mesh.fetch(url, init),
  call: rpc?.call,
  servedBy: PLATFORM,
  sourceOf: callerOf,
  onLogin,
});
const services: Record<string, Handler> = {
  check: (request, context) => {
    const isRpc = rpc !== undefined && new URL(request.url).pathname.startsWith(TICKET_PATH);
    return isRpc ? rpc.tickets(request, context) : checker.fetch(request);
  },
  handler: (request, { caller }) => entrance.fetch(request, { caller }),
  observability: observability(),
  ...(log === undefined ? {} : { audit: handlerOf(audit(log, { servedBy: PLATFORM })) }),
};
for (const [name, grant] of Object.entries(settings.grants)) {
  const service = services[name];
  if (service === undefined) throw new TypeError(`GRANTS: this node has no service ${name}`);
  await mesh.serve(name, service, { grant, ...settings.versions[name] });
}

for (const signal of ["SIGINT", "SIGTERM"] as const)
  Deno.addSignalListener(signal, () => stop().catch(console.error));
if (settings.endsWithInput) untilInputEnds().then(stop).catch(console.error);
console.log(JSON.stringify({ id: mesh.id, url: `http://${authority}` }));

/** Holds the capsule of the audit log, keeps up with its other replicas, and opens the log. */
async function keepLog({ metadata, seed }: AuditSettings): Promise<{ log: AuditLog; capsule: string }> {
  const replica = await openReplica({ storage: sqlite(beside("capsules.sqlite")) });
  const capsule = await replica.hold(metadata);
  const { published } = await serveCapsules(mesh, replica);
  published.catch((error: unknown) => console.error("the capsule of the audit log is not published:", error));
  replicate(replica, { mesh });
  const log = new AuditLog({ mesh, metadata, seed, storage: sqlite(beside("audit.sqlite")) });
  return { log, capsule };
}

/** Lets `check` be called by RPC, over UDP at a port of the system's choice and over HTTP, and calls it. */
async function startRpc(ticketKey: Uint8Array) {
  const { network } = settings;
  const handler = callable(checker);
  // Comparing a password twice does no harm.
  const server = createRpcServer({ service: "check", network, ticketKey, idempotent: true, handler });
  const { address } = await server.listenUdp({ host, port: 0 });
  const client = createRpcClient({ mesh });
  const call = async (login: Uint8Array): Promise<Uint8Array> => {
    const answer = await client.call("check", login, { idempotent: true, timeout_ms: RPC_TIMEOUT_MS });
    return answer.payload;
  };
  const answer = (request: Request, origin: RpcOrigin) => server.fetch(request, origin);
  return { tickets: server.tickets(address, ...urlsOf(RPC_PATH)), answer, call };
}

/** The URL of a path of this server, as others reach it. */
function urlsOf(path: string): string[] {
  const address = settings.address.find((address) => /^(ws|http)s?:/.test(address));
  return address === undefined ? [] : [new URL(path, address.replace(/^ws/, "http")).href];
}

/** A file in the folder of the node's store. */
function beside(name: string): string {
  return settings.data.replace(/[^/\\]*$/, name);
}

/** The address of whoever asks this server. */
function sourceOf(c: Context): string | undefined {
  return (c.env as { remoteAddr?: { hostname?: string } }).remoteAddr?.hostname;
}

/** The peer that asks through the mesh. */
function callerOf(c: Context): string | undefined {
  return (c.env as { caller?: string }).caller;
}

function handlerOf(app: Hono): Handler {
  return (request) => app.fetch(request);
}

function pageConfig(): PageConfig {
  const own = settings.address.map((address) => `${address}#${mesh.id}`);
  const known = [...own, ...settings.bootstrap].filter((address) => /^wss?:/.test(address));
  return {
    network: settings.network,
    bootstrap: known,
    ...(owner ? { owner } : {}),
    owned,
    allowPrivate: settings.allowPrivate,
    gateway: `http://${authority}/mesh`,
    ...(kept === undefined ? {} : { capsule: kept.capsule }),
    ...pageAdmission(),
  };
}

/** How the page is admitted, where somebody certifies the keys of pages. */
function pageAdmission(): Pick<PageConfig, "admission"> {
  const { dns, certify } = settings;
  if (dns?.dnsOverHttps === undefined || certify === undefined) return {};
  return { admission: { domain: dns.domain, dnsOverHttps: dns.dnsOverHttps, certify } };
}

async function untilInputEnds(): Promise<void> {
  for await (const _ of Deno.stdin.readable);
}

let isStopping = false;

async function stop(): Promise<void> {
  if (isStopping) return;
  isStopping = true;
  await log?.close();
  await mesh.close();
  await Promise.race([server.shutdown(), new Promise((resolve) => setTimeout(resolve, 500))]);
  Deno.exit(0);
}
