/** What strangers write: the programs of the packaging tests. They know the package's name and nothing of this repository. */

/** Joins through `bootstrap` and prints what `hello` answers. */
const call = (bootstrap: string, options: string): string => `
const mesh = await join({ network: "packaging", bootstrap: ${bootstrap}, allowPrivate: true, ${options} });
const response = await mesh.fetch("https://hello.mesh/from?who", { unowned: true });
const answer = response.status + " " + (await response.text());
await mesh.leave();
`;

/** A Node program: \`node call.js BOOTSTRAP\`. */
export const node: string = `
import { join, memory } from "selfsame";
${call("process.argv[2]", "storage: memory()")}
console.log(answer);
process.exit(0);
`;

/** A Deno program, which Deno also checks against the types. */
export const deno: string = `
import { join, memory } from "selfsame";
${call("Deno.args[0]", "storage: memory()")}
console.log(answer);
Deno.exit(0);
`;

/** A page's script that finds its bootstrap in the address; the core is inside the bundle. */
export const browser: string = `
import { indexedDb, join } from "selfsame";
${call("decodeURIComponent(location.search.slice(1))", 'storage: indexedDb("packaging")')}
document.title = answer;
`;

/** The same with the core as a file of its own, as Vite serves it. */
export const viteSlim: string = `
import url from "selfsame/core.wasm?url";
import { indexedDb, join } from "selfsame/slim";
const module = await WebAssembly.compileStreaming(fetch(url));
${call("decodeURIComponent(location.search.slice(1))", 'storage: indexedDb("packaging"), module')}
document.title = answer;
`;

/** A Worker with a node in a Durable Object, as the README shows it. */
export const worker: string = `
import { WorkerEntrypoint } from "cloudflare:workers";
import { Hono } from "hono";
import { MeshNode } from "selfsame";
import { mesh } from "selfsame/hono";

export class Hello extends WorkerEntrypoint {
  fetch() {
    return new Response("hello from workerd");
  }
}

export class Node extends MeshNode {
  options = (env) => ({ network: "packaging", bootstrap: env.BOOTSTRAP, address: env.URL, allowPrivate: true });
  services = { "hello-worker": { entrypoint: "Hello", unowned: true } };
}

const app = new Hono();
app.use(mesh((c) => c.env.NODE));
app.get("/call", async (c) => {
  const response = await c.var.mesh.fetch("https://hello.mesh/from?who", { unowned: true });
  return c.text(response.status + " " + (await response.text()));
});
export default app;
`;

/** A program for Node and Deno that prints the key of a seed in a closed network, and why the DNS admits it to none. */
export const closed: string = `
import process from "node:process";
import { join, memory } from "selfsame";
import { dns, nodeKey } from "selfsame/admission";

const [network, dnsOverHttps] = process.argv.slice(2);
const seed = "07".repeat(32);
console.log(await nodeKey({ network, seed }));
const admission = dns({ domain: "ring.example", dnsOverHttps });
const bootstrap = "ws://127.0.0.1:9/.mesh#" + "00".repeat(32);
await join({ network, seed, admission, bootstrap, storage: memory() }).catch((error) => console.log(error.name));
process.exit(0);
`;

/** A Worker whose node is in a closed network. */
export const closedWorker: string = `
import { MeshNode } from "selfsame";
import { dns } from "selfsame/admission";

export class Node extends MeshNode {
  options = (env) => ({
    network: env.NETWORK,
    address: env.URL,
    admission: dns({ domain: "ring.example", dnsOverHttps: env.RESOLVER }),
  });
}
export default { fetch: (request, env) => env.NODE.getByName("mesh").fetch(request) };
`;

/** The Worker's configuration. */
export const wrangler: string = JSON.stringify({
  name: "packaging",
  main: "worker.js",
  compatibility_date: "2026-10-01",
  send_metrics: false,
  durable_objects: { bindings: [{ name: "NODE", class_name: "Node" }] },
  migrations: [{ tag: "v1", new_sqlite_classes: ["Node"] }],
});

/** What the types promise, for each way in which TypeScript resolves packages. */
export const types: string = `
import { join, memory, type Mesh, type Provider } from "selfsame";
import { join as joinSlim } from "selfsame/slim";
import { decodeStatus, type CoreStatus } from "selfsame/codec";
import { mesh } from "selfsame/hono";
import { certificate, dns, nodeKey } from "selfsame/admission";

export async function use(module: WebAssembly.Module): Promise<Provider[]> {
  const node: Mesh = await join({ network: "types", storage: memory() });
  await using slim = await joinSlim({ network: "types", storage: memory(), module });
  const status: CoreStatus = decodeStatus(new Uint8Array());
  mesh((c) => c.env as never);
  const network: string = await nodeKey({ network: "types", seed: "" });
  await using closed = await join({ network, storage: memory(), admission: certificate({ certificate: "" }) });
  await closed.renewCertificate(new Uint8Array());
  // @ts-expect-error a network's certificates are in a domain
  await join({ network, storage: memory(), admission: dns({}) });
  await slim.fetch("https://check.mesh/", { unowned: true });
  // @ts-expect-error a network has a name
  await join({ storage: memory() });
  return node.find(status.network);
}
`;
