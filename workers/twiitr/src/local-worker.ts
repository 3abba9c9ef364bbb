import type { MiniflareOptions } from "miniflare";

/** The date that `wrangler.jsonc` names. */
const COMPATIBILITY_DATE = "2026-10-01";

/** A Worker for a local workerd. */
export type LocalWorker = {
  /** Its modules by name, the first one the main one; `.wasm` is compiled. */
  modules: Readonly<Record<string, string | Uint8Array<ArrayBuffer>>>;
  /** Address to listen at; 127.0.0.1 unless given. */
  host?: string;
  /** Port there; a free one unless given. */
  port?: number;
  bindings?: Readonly<Record<string, string>>;
  /** Bindings of Durable Objects with SQLite, by name: the class. */
  durableObjects?: Readonly<Record<string, string>>;
  /** Folder in which they are kept; in memory unless given. */
  data?: string;
};

/** What miniflare takes to run the Worker as `wrangler deploy` would send it. */
export function localWorker({
  modules,
  host = "127.0.0.1",
  port,
  bindings,
  durableObjects,
  data,
}: LocalWorker): MiniflareOptions {
  const name = "selfsame";
  const classes = Object.entries(durableObjects ?? {});
  const texts = Object.entries(bindings ?? {});
  const [mainModule = "index.js"] = Object.keys(modules);
  return {
    host,
    ...(port === undefined ? {} : { port }),
    ...(data === undefined ? {} : { resourcePersistencePath: data }),
    logRequests: false,
    telemetry: { enabled: false },
    workers: [
      {
        config: {
          name,
          compatibilityDate: COMPATIBILITY_DATE,
          manifest: {
            mainModule,
            modules: Object.fromEntries(
              Object.entries(modules).map(([path, contents]) => [path, { type: typeOf(path), contents }]),
            ),
          },
          env: {
            ...Object.fromEntries(texts.map(([key, value]) => [key, { type: "text", value }])),
            ...Object.fromEntries(
              classes.map(([key, exportName]) => [key, { type: "durable-object", worker: name, exportName }]),
            ),
          },
          exports: Object.fromEntries(
            classes.map(([, exportName]) => [exportName, { type: "durable-object", storage: "sqlite" }]),
          ),
        },
      },
    ],
  };
}

function typeOf(path: string): "esm" | "wasm" {
  return path.endsWith(".wasm") ? "wasm" : "esm";
}
