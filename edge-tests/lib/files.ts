import { readFile } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { build } from "esbuild";

import { ROOT } from "./run.ts";

/** Serves some files on this machine until it is closed. */
export async function serveFiles(
  files: Readonly<Record<string, { type: string; body: string | Uint8Array }>>,
): Promise<{ url: string; close: () => void }> {
  const server = createServer((request, response) => {
    const { pathname } = new URL(request.url ?? "/", "http://files");
    const file = files[pathname.slice(1) || "index.html"];
    if (file === undefined) response.writeHead(404).end();
    else response.writeHead(200, { "content-type": file.type }).end(file.body);
  });
  await new Promise<void>((listening) => server.listen(0, "127.0.0.1", listening));
  const { port } = server.address() as AddressInfo;
  const close = (): void => {
    server.close();
    server.closeAllConnections();
  };
  return { url: `http://127.0.0.1:${port}/`, close };
}

/** Serves a page that runs a program of this folder, bundled as for any browser, until it is closed. */
export async function servePage(program: string): Promise<{ url: string; close: () => void }> {
  const { outputFiles } = await build({
    entryPoints: [join(ROOT, "edge-tests", program)],
    bundle: true,
    write: false,
    format: "esm",
    target: "es2022",
    platform: "browser",
  });
  return serveFiles({
    "index.html": { type: "text/html", body: '<!doctype html><script type="module" src="page.js"></script>' },
    "page.js": { type: "text/javascript", body: outputFiles[0]?.contents ?? "" },
  });
}

/** The core as the package carries it. */
export function readCore(): Promise<Uint8Array<ArrayBuffer>> {
  return readFile(new URL(import.meta.resolve("selfsame/core.wasm"))).then((bytes) => new Uint8Array(bytes));
}
