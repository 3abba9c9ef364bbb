import { type Context, Hono } from "hono";

import { type HandlerOptions, handler } from "./appauth/index.ts";
import { gateway } from "./gateway/index.ts";

/** The text format of Prometheus. */
const METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8";

/** Names that no gateway passes on: whoever guesses passwords is counted at an entrance, and `check` counts nobody. */
const INSIDE = ["check"];

/** What the app asks of a mesh: a node, or the binding of one. */
export type EdgeMesh = {
  fetch(input: Request | string, init?: RequestInit & { unowned?: boolean }): Promise<Response>;
  status(): Promise<unknown>;
  metrics(): Promise<string>;
};

/** How the app runs on a platform. */
export type EdgeOptions = {
  /** The mesh that belongs to a request. */
  mesh: (c: Context) => EdgeMesh;
  /** What is told in the header `served-by`, such as `deno`. */
  platform: string;
  /** Names that only holders of the owner's grants serve. */
  owned: readonly string[];
  /** Names that the gateway passes on, or `*` for all but `check`. */
  gateway: readonly string[];
  /** Calls `check` by RPC; see {@link HandlerOptions}. */
  call?: HandlerOptions["call"];
  /** Who asks; see {@link HandlerOptions}. */
  sourceOf?: HandlerOptions["sourceOf"];
  /** The attempts to sign in of all sources, where an app is made for each request. */
  attempts?: HandlerOptions["attempts"];
  /** Hears of each login that was right or wrong. */
  onLogin?: HandlerOptions["onLogin"];
};

/** The public app of a node: AppAuth's entrance, the gateway into the mesh, and what the node knows of the ring. */
export function edge({
  mesh,
  platform,
  owned,
  gateway: open,
  call,
  sourceOf,
  attempts,
  onLogin,
}: EdgeOptions): Hono {
  const app = new Hono();
  app.get("/status", async (c) => c.json(await mesh(c).status(), 200, { "cache-control": "no-store" }));
  app.get("/metrics", async (c) => c.text(await mesh(c).metrics(), 200, { "content-type": METRICS_TYPE }));
  const through = gateway({
    fetch: (request, c) => {
      const name = new URL(request.url).hostname.slice(0, -".mesh".length);
      return mesh(c).fetch(request, owned.includes(name) ? {} : { unowned: true });
    },
    allows: (name) => !INSIDE.includes(name) && (open.includes("*") || open.includes(name)),
  });
  app.route("/", through);
  const fetch: HandlerOptions["fetch"] = (url, init, c) => mesh(c).fetch(url, init);
  app.route("/", handler({ fetch, call, servedBy: platform, sourceOf, attempts, onLogin }));
  return app;
}

/** The words of a setting, separated by spaces or commas. */
export function words(setting: string | undefined): string[] {
  return (setting ?? "").split(/[\s,]+/).filter(Boolean);
}

/** The same owner for each of some names. */
export function ownerOf(names: readonly string[], owner: string): Record<string, string> {
  return Object.fromEntries(names.map((name) => [name, owner]));
}

/** Grants by name, from a setting of `name=grant` words. */
export function grantsOf(setting: string | undefined): Record<string, string> {
  const pairs = words(setting).map((word) => {
    const [name = "", grant = ""] = word.split("=", 2);
    if (!name || !grant) throw new TypeError(`GRANTS: expected name=grant, found ${word.slice(0, 40)}`);
    return [name, grant] as const;
  });
  return Object.fromEntries(pairs);
}
