// A node in a Durable Object that tells, in its log, of everything that costs money while it idles.
import { WorkerEntrypoint } from "cloudflare:workers";
import { Hono } from "hono";
import { MeshNode, type MeshNodeOptions } from "selfsame";
import { mesh } from "selfsame/hono";
import { telemetry } from "selfsame/telemetry";

/** Bindings of the Worker. */
export type Env = { NODE: DurableObjectNamespace<Node>; URL: string };

/** What is counted. */
type Cost = "wake" | "alarm" | "row";

function tell(cost: Cost, count: number): void {
  for (let told = 0; told < count; told++) console.log(`cost ${cost}`);
}

/** The node under test. */
export class Node extends MeshNode<Env> {
  override options = (env: Env): MeshNodeOptions => ({
    network: "sleep",
    address: [`${env.URL.replace("http", "ws")}/.mesh`, `${env.URL}/.mesh`],
    allowPrivate: true,
    // Nobody serves it: what waits for a collector that does not come must not keep the object awake.
    telemetry: telemetry({ service: { name: "observability", unowned: true } }),
  });

  override services = { boot: { entrypoint: "Boot", unowned: true } };

  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, env);
    tell("wake", 1);
    countRows(ctx.storage);
  }

  override alarm(): Promise<void> {
    tell("alarm", 1);
    return super.alarm();
  }
}

/** Every write of a row is paid for, and so is every alarm that is set. */
function countRows(storage: DurableObjectStorage): void {
  const sql: SqlStorage = Object.getPrototypeOf(storage.sql);
  const { exec } = sql;
  if (exec.name === "counted") return;
  sql.exec = function counted<T extends Record<string, SqlStorageValue>>(
    this: SqlStorage,
    query: string,
    ...bindings: unknown[]
  ): SqlStorageCursor<T> {
    const cursor = exec.call(this, query, ...bindings) as SqlStorageCursor<T>;
    tell("row", cursor.rowsWritten);
    return cursor;
  };
  const alarms: DurableObjectStorage = Object.getPrototypeOf(storage);
  const { setAlarm } = alarms;
  alarms.setAlarm = function counted(this: DurableObjectStorage, ...given): Promise<void> {
    tell("row", 1);
    return setAlarm.apply(this, given);
  };
}

/** Tells which boot of the node answers. */
export class Boot extends WorkerEntrypoint<Env> {
  override async fetch(): Promise<Response> {
    const { bootId } = await this.env.NODE.get(this.env.NODE.idFromName("mesh")).status();
    return Response.json({ bootId });
  }
}

const app = new Hono<{ Bindings: Env }>();
app.use(mesh((c) => (c.env as Env).NODE));
app.get("/status", async (c) => c.json(await c.var.mesh.status()));

export default app;
