import { Hono } from "hono";
import { bodyLimit } from "hono/body-limit";

import { type Dictionary, parseCredentials, verifyPassword } from "./credentials.ts";

/** A login is two short texts. */
const MAX_BODY_BYTES = 8 * 1024;
/** Each check takes 16 MiB while it runs. */
const MAX_RUNNING = 4;

/** How the service presents itself. */
export type CheckOptions = {
  /** What is told in the header `served-by`, such as `deno`. */
  servedBy: string;
};

/**
 * The service `check`: takes `{ user, password }` as JSON and compares it with a dictionary of salted hashes.
 *
 * 200 `{ user }` for a right password, 401 for a wrong one or an unknown user, 400 for a body that is no login, 413
 * for one too large, 415 for another type, 503 while too many checks run.
 */
export function check(dictionary: Dictionary, { servedBy }: CheckOptions): Hono {
  let running = 0;
  const app = new Hono();
  app.use(async (c, next) => {
    await next();
    c.header("served-by", servedBy);
    c.header("cache-control", "no-store");
  });
  app.use(
    bodyLimit({ maxSize: MAX_BODY_BYTES, onError: (c) => c.json({ error: "the body is too large" }, 413) }),
  );
  app.post("/", async (c) => {
    if (mediaType(c.req.header("content-type")) !== "application/json") {
      return c.json({ error: "send application/json" }, 415);
    }
    const credentials = parseCredentials(await c.req.json().catch(() => undefined));
    if (credentials === undefined) return c.json({ error: 'send { "user": text, "password": text }' }, 400);
    if (running === MAX_RUNNING) {
      return c.json({ error: "too many checks run: try again" }, 503, { "retry-after": "1" });
    }
    running += 1;
    try {
      const right = await verifyPassword(dictionary, credentials);
      return right ? c.json({ user: credentials.user }) : c.json({ error: "wrong user or password" }, 401);
    } finally {
      running -= 1;
    }
  });
  app.all("/", (c) => c.json({ error: "send a POST" }, 405, { allow: "POST" }));
  return app;
}

/** The type without its parameters. */
export function mediaType(contentType: string | undefined): string {
  return (contentType ?? "").split(";", 1).join().trim().toLowerCase();
}
