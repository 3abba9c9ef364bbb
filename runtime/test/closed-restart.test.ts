import assert from "node:assert/strict";
import { after, test } from "node:test";
import { certificate, nodeKey } from "../src/entries/admission-node.ts";
import type { MeshEvent } from "../src/entries/node.ts";
import { Authority } from "./authority.ts";
import { member, until } from "./support.ts";

const SEED = "01".repeat(32);
const HOST = "127.0.0.1:7000";
const LIFE_MS = 3000;

// Every instance that the package makes, so that a test can damage the memory of one: a real trap follows.
const instances: WebAssembly.Instance[] = [];
const { instantiate } = WebAssembly;
after(() => Object.assign(WebAssembly, { instantiate }));

test("a core that is started again shows the certificate that was renewed", async () => {
  const authority = await Authority.of(200);
  const { network } = authority;
  const key = await nodeKey({ network, seed: SEED });
  Object.assign(WebAssembly, {
    instantiate: async (module: WebAssembly.Module, imports: WebAssembly.Imports) => {
      const instance = await instantiate.call(WebAssembly, module, imports);
      instances.push(instance);
      return instance;
    },
  });
  const expires_ms = Date.now() + LIFE_MS;
  const first = authority.certify(key, { address: HOST, until_ms: LIFE_MS });
  const admission = certificate({ certificate: first });
  const events: MeshEvent[] = [];
  const onEvent = (event: MeshEvent): number => events.push(event);
  const { mesh } = await member({ network, seed: SEED, admission, onEvent, log: () => undefined });
  await mesh.renewCertificate(authority.certify(key, { address: HOST }));
  await until("the first certificate has expired", () => Date.now() > expires_ms);
  // The last instance is the node.
  const node = instances.at(-1) ?? assert.fail("no instance");
  const { memory } = node.exports as { memory: WebAssembly.Memory };
  new Uint8Array(memory.buffer).fill(0xff);
  await assert.rejects(mesh.status(), { name: "Disconnected" });
  await until("the node has restarted", () => events.some(({ type }) => type === "restarted"));
  assert.equal((await mesh.status()).id, mesh.id);
  await until("it has joined again", async () => (await mesh.status()).joined);
  await mesh.close();
});
