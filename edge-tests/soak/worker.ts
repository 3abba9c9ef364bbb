// A member in a Durable Object that provides the service, and a Worker that makes the calls that it is told to make.
import { WorkerEntrypoint } from "cloudflare:workers";
import { Hono } from "hono";
import { MeshNode, type MeshNodeOptions, type ServiceOptions } from "selfsame";
import { capsules } from "selfsame/capsule";
import { mesh } from "selfsame/hono";

import { type CallingSocket, perform } from "./calls.ts";
import { type AnsweringSocket, answer, countAt, echo, gauges } from "./service.ts";
import { type MemberSettings, type Order, SERVICE } from "./settings.ts";

/** Bindings of the Worker. */
export type Env = {
  NODE: DurableObjectNamespace<Node>;
  /** The settings, as JSON. */
  SETTINGS: string;
};

const UNOWNED = { unowned: true } as const;
const settingsOf = (env: Env): MemberSettings => JSON.parse(env.SETTINGS) as MemberSettings;

/** Fetches that this process has made: peers are dialled by them, too. */
let fetches = 0;
const platformFetch = globalThis.fetch;
globalThis.fetch = (...given: Parameters<typeof fetch>) => {
  fetches++;
  return platformFetch(...given);
};

/** The member. */
export class Node extends MeshNode<Env> {
  override options = (env: Env): MeshNodeOptions => {
    const { network, seed, authority, bootstrap } = settingsOf(env);
    return {
      network,
      seed,
      bootstrap: bootstrap.map((address) => address.replace("ws:", "http:")),
      address: [`ws://${authority}/.mesh`, `http://${authority}/.mesh`],
      allowPrivate: true,
    };
  };

  override services: Record<string, ServiceOptions> = {
    [SERVICE]: { entrypoint: "Provider", unowned: true },
    [settingsOf(this.env).name]: { entrypoint: "Provider", unowned: true },
  };

  override more = keeping(settingsOf(this.env));

  /** What an alarm does, now. */
  round(): Promise<void> {
    return this.alarm();
  }
}

function keeping({ keep, seed }: MemberSettings): ReturnType<typeof capsules> | undefined {
  return keep === undefined ? undefined : capsules({ seed, replicate: { keep: [keep], interval_ms: 1 } });
}

/** The service. */
export class Provider extends WorkerEntrypoint<Env> {
  override fetch(request: Request): Response | Promise<Response> {
    if (new URL(request.url).pathname !== "/socket") {
      return answer(request, (id) => countAt(settingsOf(this.env).ledger, id));
    }
    const { 0: client, 1: server } = new WebSocketPair();
    echo(server as unknown as AnsweringSocket);
    server.accept();
    return new Response(null, { status: 101, webSocket: client });
  }
}

const app = new Hono<{ Bindings: Env }>();
app.use(mesh((c) => (c.env as Env).NODE));
app.get("/status", async (c) => c.json(await c.var.mesh.status()));
app.get("/memory", async (c) => c.json({ ...gauges, fetches, status: await c.var.mesh.status() }));
app.post("/withdraw", async (c) => {
  await objectOf(c.env).withdraw(SERVICE);
  return c.text("");
});
app.post("/publish", async (c) => {
  await objectOf(c.env).publish(SERVICE, {});
  return c.text("");
});
app.post("/round", async (c) => {
  await objectOf(c.env).round();
  return c.text("");
});
app.post("/order", async (c) => {
  const order = (await c.req.json()) as Order;
  const outcome = await perform(
    {
      fetch: (url, init) => c.var.mesh.fetch(url, { ...init, ...UNOWNED }),
      socket: (url) => c.var.mesh.webSocket(url, [], UNOWNED) as CallingSocket,
    },
    order,
  );
  return c.json(outcome);
});

function objectOf(env: Env): DurableObjectStub<Node> {
  return env.NODE.get(env.NODE.idFromName("mesh"));
}

export default app;
