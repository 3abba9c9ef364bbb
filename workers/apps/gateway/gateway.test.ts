import assert from "node:assert/strict";
import { describe, it } from "node:test";

import { MeshError } from "selfsame/codec";

import { edge } from "../edge.ts";
import { gateway } from "./index.ts";

const TRIED = [{ peer: "ab".repeat(32), reason: "Disconnected" }] as const;

let seen: Request | undefined;
const app = gateway({
  fetch: async (request) => {
    seen = request;
    if (request.url.startsWith("https://gone.mesh/")) throw new MeshError("NoProvider", "", { tried: TRIED });
    if (request.url.startsWith("https://slow.mesh/")) throw new MeshError("Deadline");
    if (request.url.startsWith("https://odd.mesh/")) throw new TypeError("an odd failure");
    const headers = { "set-cookie": "a=b", "content-type": "text/html", "x-own": "kept" };
    return new Response(`got ${await request.text()}`, { status: 418, headers });
  },
  allows: (name) => name !== "hidden",
});
const ask = (path: string, init?: RequestInit) => app.fetch(new Request(`http://front${path}`, init));

describe("the gateway", () => {
  it("passes method, path, query, headers and body on", async () => {
    const headers = { "x-own": "kept", cookie: "session=1", connection: "close" };
    const response = await ask("/mesh/hello.page-1/a%20b/c?x=1&y", { method: "PUT", body: "body", headers });
    assert.equal(seen?.url, "https://hello.page-1.mesh/a%20b/c?x=1&y");
    assert.equal(seen?.method, "PUT");
    assert.equal(seen?.headers.get("x-own"), "kept");
    assert.equal(seen?.headers.get("cookie"), null);
    assert.equal(response.status, 418);
    assert.equal(await response.text(), "got body");
  });

  it("takes the root of a service with and without its slash", async () => {
    await ask("/mesh/hello/");
    assert.equal(seen?.url, "https://hello.mesh/");
    await ask("/mesh/hello?q=1");
    assert.equal(seen?.url, "https://hello.mesh/?q=1");
  });

  it("decodes a name once, in any case, and leaves its path as it is", async () => {
    const expected: [path: string, url: string][] = [
      ["/mesh/%63heck/", "https://check.mesh/"],
      ["/mesh/%43HECK/a%2fb//c?x=%2f", "https://check.mesh/a%2fb//c?x=%2f"],
      ["/mesh/ECHO?x=1", "https://echo.mesh/?x=1"],
      ["/mesh/hello//admin.mesh/secret", "https://hello.mesh//admin.mesh/secret"],
      ["/mesh/hello/%2f%2fadmin.mesh", "https://hello.mesh/%2f%2fadmin.mesh"],
      ["/mesh/hello/@admin.mesh/", "https://hello.mesh/@admin.mesh/"],
    ];
    for (const [path, url] of expected) {
      await ask(path);
      assert.equal(seen?.url, url, path);
    }
  });

  it("keeps strangers' pages and cookies away from its own origin", async () => {
    const response = await ask("/mesh/hello/");
    assert.equal(response.headers.get("set-cookie"), null);
    assert.match(response.headers.get("content-security-policy") ?? "", /^sandbox;/);
    assert.equal(response.headers.get("x-content-type-options"), "nosniff");
    assert.equal(response.headers.get("x-own"), "kept");
  });

  it("hides what may not be reached and what is no name", async () => {
    const names = [
      "hidden",
      "HIDDEN",
      "%68idden",
      "a%2fb",
      "%2563heck",
      "a%00",
      "%ff",
      "a%3fb",
      "a@b",
      "a".repeat(64),
    ];
    for (const path of names.map((name) => `/mesh/${name}/`)) {
      seen = undefined;
      assert.equal((await ask(path)).status, 404, path);
      assert.equal(seen, undefined);
    }
  });

  it("says why nobody answers, and who was tried", async () => {
    const expected: [string, number, object][] = [
      ["gone", 503, { detail: "nobody serves this name", error: "NoProvider", tried: TRIED }],
      ["slow", 504, { detail: "the deadline passed", error: "Deadline" }],
      ["odd", 502, { detail: "an odd failure" }],
    ];
    for (const [name, status, members] of expected) {
      const response = await ask(`/mesh/${name}/`);
      assert.equal(response.status, status);
      assert.equal(response.headers.get("content-type"), "application/problem+json");
      const { title, ...problem } = (await response.json()) as { title: string };
      assert.ok(title);
      assert.deepEqual(problem, { status, ...members });
    }
  });
});

describe("an edge node whose gateway is open", () => {
  const asked: string[] = [];
  const mesh = {
    fetch: async (input: Request | string) => {
      asked.push(input instanceof Request ? input.url : input);
      return new Response("yes");
    },
    status: async () => ({}),
    metrics: async () => "",
  };
  const open = edge({ mesh: () => mesh, platform: "test", owned: [], gateway: ["*", "check"] });

  it("passes on nobody's guesses at passwords past the entrance that counts them", async () => {
    assert.equal((await open.request("/mesh/echo/")).status, 200);
    for (const path of ["/mesh/check/", "/mesh/CHECK/", "/mesh/%63heck/"]) {
      assert.equal((await open.request(path, { method: "POST", body: "{}" })).status, 404, path);
    }
    assert.deepEqual(asked, ["https://echo.mesh/"]);
  });
});
