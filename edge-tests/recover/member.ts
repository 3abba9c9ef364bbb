/**
 * A member on Deno that serves its name, tells its status and calls others:
 *
 *     member.ts FOLDER SETTINGS
 *     curl http://127.0.0.1:PORT/status
 *     curl http://127.0.0.1:PORT/call/NAME
 */
import process from "node:process";
import { join, MeshError, serve, sqlite } from "selfsame";

import type { MemberSettings } from "./settings.ts";

const [folder = "", text = ""] = process.argv.slice(2);
const { port, name, bootstrap, ...settings } = JSON.parse(text) as MemberSettings;
const url = `http://127.0.0.1:${port}`;
const tell = (message: Record<string, unknown>): void => console.log(JSON.stringify(message));

function fail(error: unknown): never {
  tell({ error: String(error), code: error instanceof MeshError ? error.name : undefined });
  process.exit(1);
}

const mesh = await join({
  ...settings,
  bootstrap: bootstrap.map((address) => address.replace("http", "ws")),
  address: [`${url.replace("http", "ws")}/.mesh`, `${url}/.mesh`],
  storage: sqlite(`${folder}/node.sqlite`),
  allowPrivate: true,
  onEvent: (event) => {
    if (event.type === "ended") fail(event.error);
  },
}).catch(fail);

async function answer(request: Request): Promise<Response> {
  const [, question, called] = new URL(request.url).pathname.split("/");
  if (question === "status") return Response.json(await mesh.status());
  return mesh
    .fetch(`https://${called}.mesh/`, { unowned: true })
    .catch((error: unknown) => new Response(String(error), { status: 502 }));
}

await serve({ fetch: mesh.handler(answer), port, hostname: "127.0.0.1" });
tell({ id: mesh.id, url });
mesh.serve(name, () => new Response(name), { unowned: true }).catch(fail);
process.once("SIGTERM", () => void mesh.close().then(() => process.exit(0)));
process.stdin.on("end", () => process.exit(0)).resume();
