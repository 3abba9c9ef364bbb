import assert from "node:assert/strict";
import { describe, it } from "node:test";

import { page } from "./index.ts";

const read: string[] = [];
const app = page({
  read: async (name) => {
    read.push(name);
    return new TextEncoder().encode(name);
  },
  config: () => ({ network: "test", bootstrap: [], owned: [], allowPrivate: false, gateway: "/mesh" }),
});
const get = (path: string) => app.fetch(new Request(`http://page${path}`));

describe("the page's server", () => {
  it("serves the core so that it compiles while it loads, under a policy that lets it", async () => {
    const response = await get("/core.wasm");
    assert.equal(response.headers.get("content-type"), "application/wasm");
    const document = await get("/");
    assert.equal(await document.text(), "index.html");
    assert.match(
      document.headers.get("content-security-policy") ?? "",
      /script-src 'self' 'wasm-unsafe-eval'/,
    );
  });

  it("reads no other files", async () => {
    read.length = 0;
    for (const path of ["/package.json", "/..%2fsecret", "/%2e%2e/secret", "/constructor", "/sub/main.js"]) {
      assert.equal((await get(path)).status, 404, path);
    }
    assert.deepEqual(read, []);
  });

  it("tells the page its ring", async () => {
    const response = await get("/mesh.json");
    assert.equal(response.headers.get("cache-control"), "no-store");
    assert.equal(((await response.json()) as { network: string }).network, "test");
  });
});
