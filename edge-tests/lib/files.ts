import { readFile } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";

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

/** The core as the package carries it. */
export function readCore(): Promise<Uint8Array<ArrayBuffer>> {
  return readFile(new URL(import.meta.resolve("selfsame/core.wasm"))).then((bytes) => new Uint8Array(bytes));
}
