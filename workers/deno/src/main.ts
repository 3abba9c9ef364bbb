/**
 * A member of the ring on Deno: AppAuth's `handler` and `check`, the gateway and the live page.
 *
 *     deno run --allow-net --allow-read --allow-write --allow-env src/main.ts
 *
 * Settings are environment variables; `settings.ts` says which.
 */
import { Hono } from "hono";
import { type Handler, join, sqlite } from "selfsame";
import { jsonLogger, telemetry, traced } from "selfsame/telemetry";
import { check, handler, parseDictionary } from "selfsame-apps/appauth";
import users from "selfsame-apps/appauth/users.json" with { type: "json" };
import { edge, ownerOf } from "selfsame-apps/edge";
import { observability } from "selfsame-apps/observability";
import { type PageConfig, page } from "selfsame-apps/page";

import { readSettings } from "./settings.ts";

const settings = readSettings((name) => Deno.env.get(name));
const { host, port, owner, owned } = settings;
const authority = `${host}:${port}`;

const mesh = await join({
  network: settings.network,
  bootstrap: settings.bootstrap,
  address: settings.address,
  storage: sqlite(settings.data),
  owner: owner ? ownerOf(owned, owner) : undefined,
  allowPrivate: settings.allowPrivate,
  domain: "deno",
  telemetry: telemetry({ name: "deno" }),
  log: jsonLogger({ write: (line) => console.error(line) }),
});

const app = new Hono();
app.route(
  "/",
  edge({ mesh: (c) => traced(mesh, c.req.raw), platform: "deno", owned, gateway: settings.gateway }),
);
app.route("/", page({ read: (name) => Deno.readFile(`${settings.page}/${name}`), config: pageConfig }));
const server = Deno.serve({ hostname: host, port, onListen: () => undefined }, mesh.handler(app.fetch));

const checker = check(parseDictionary(users), { servedBy: "deno" });
const entrance = handler({ fetch: (url, init) => mesh.fetch(url, init), servedBy: "deno" });
const services: Record<string, Handler> = {
  check: (request) => checker.fetch(request),
  handler: (request) => entrance.fetch(request),
  observability: observability(),
};
for (const [name, grant] of Object.entries(settings.grants)) {
  const service = services[name];
  if (service === undefined) throw new TypeError(`GRANTS: this node has no service ${name}`);
  await mesh.serve(name, service, { grant, ...settings.versions[name] });
}

for (const signal of ["SIGINT", "SIGTERM"] as const) Deno.addSignalListener(signal, () => void stop());
if (settings.endsWithInput) void untilInputEnds().then(stop);
console.log(JSON.stringify({ id: mesh.id, url: `http://${authority}` }));

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
  };
}

async function untilInputEnds(): Promise<void> {
  for await (const _ of Deno.stdin.readable);
}

let isStopping = false;

async function stop(): Promise<void> {
  if (isStopping) return;
  isStopping = true;
  await mesh.close();
  await Promise.race([server.shutdown(), new Promise((resolve) => setTimeout(resolve, 500))]);
  Deno.exit(0);
}
