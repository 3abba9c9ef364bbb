import { Hono } from "hono";

import type { AuditLog } from "./log.ts";

export { AuditLog, type AuditOptions, type Overview } from "./log.ts";
export { type AuditSettings, auditOf } from "./settings.ts";
export type { SignIn } from "./sign-in.ts";

/** The name of a record. */
const RECORD = /^[0-9a-f]{64}$/;

/**
 * The service `audit`: tells what the node that answers has verified of the audit log. What the records hold it tells nobody.
 *
 * `GET /`: how many records, heads, merges, writers. `GET /proof/RECORD`: a file that proves the record, with its sealed body,
 * which `verifyProof` and the live page verify. 404 for a record that is not there, 503 while the log cannot be read.
 */
export function audit(log: Pick<AuditLog, "overview" | "prove">, { servedBy }: { servedBy: string }): Hono {
  const app = new Hono();
  app.use(async (c, next) => {
    await next();
    c.header("served-by", servedBy);
    c.header("cache-control", "no-store");
  });
  app.get("/", async (c) => c.json({ verifiedBy: servedBy, ...(await log.overview()) }));
  app.get("/proof/:record", async (c) => {
    const name = c.req.param("record");
    if (!RECORD.test(name)) return c.json({ error: "the name of a record has 64 hexadecimal digits" }, 400);
    const file = new Uint8Array(await log.prove(name));
    const headers = {
      "content-type": "application/octet-stream",
      "content-disposition": `attachment; filename="${name.slice(0, 12)}.proof"`,
    };
    return c.body(file, 200, headers);
  });
  app.all("*", (c) => c.json({ error: "there are GET / and GET /proof/RECORD" }, 404));
  app.onError((error, c) => {
    if (error.name === "NoRecord") return c.json({ error: "there is no such record" }, 404);
    return c.json({ error: `the audit log cannot be read: ${error.message}` }, 503, { "retry-after": "1" });
  });
  return app;
}
