import { Hono } from "hono";

/** What the page is told; see `config.ts` of the page. */
export type PageConfig = {
  network: string;
  bootstrap: string[];
  owner?: string;
  owned: string[];
  allowPrivate: boolean;
  gateway: string;
  capsule?: string;
  admission?: PageAdmission;
};

/** How the page is admitted to a closed network; see `config.ts` of the page. */
export type PageAdmission = { domain: string; dnsOverHttps: string; certify: string };

/** What serving the page needs of its platform. */
export type PageOptions = {
  /** Reads a file of the built page. */
  read: (name: string) => Promise<Uint8Array<ArrayBuffer>>;
  /** What the page is told. */
  config: () => PageConfig;
};

const FILES: Readonly<Record<string, string>> = {
  "index.html": "text/html; charset=utf-8",
  "main.js": "text/javascript; charset=utf-8",
  "closed.js": "text/javascript; charset=utf-8",
  "chunk.js": "text/javascript; charset=utf-8",
  "style.css": "text/css; charset=utf-8",
  "capsule.css": "text/css; charset=utf-8",
  "icon.svg": "image/svg+xml",
  // Browsers compile while they load only what has this type.
  "core.wasm": "application/wasm",
  "capsule.wasm": "application/wasm",
};

/** The page dials members wherever they are; everything else it has from here. */
const POLICY = [
  "default-src 'none'",
  "script-src 'self' 'wasm-unsafe-eval'",
  "style-src 'self'",
  "img-src 'self'",
  "connect-src 'self' ws: wss: http: https:",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join("; ");

/** Serves the live page at `/`. */
export function page({ read, config }: PageOptions): Hono {
  const app = new Hono();
  app.get("/mesh.json", (c) => c.json(config(), 200, { "cache-control": "no-store" }));
  app.get("/:file{[a-z.]*}", async (c, next) => {
    const name = c.req.param("file") || "index.html";
    const type = Object.hasOwn(FILES, name) ? FILES[name] : undefined;
    if (type === undefined) return next();
    const headers = {
      "content-type": type,
      "cache-control": "no-cache",
      "x-content-type-options": "nosniff",
    };
    return c.body(await read(name), 200, { ...headers, "content-security-policy": POLICY });
  });
  return app;
}
