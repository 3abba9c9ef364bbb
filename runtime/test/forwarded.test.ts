import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { describe, type TestContext, test } from "node:test";
import { WebSocket } from "ws";
import type { Opened } from "../src/driver/paths.ts";
import { TrustedProxies } from "../src/transports/forwarded.ts";
import { member } from "./support.ts";

interface Case {
  readonly what: string;
  readonly peer: string;
  readonly forwarded?: readonly string[];
  readonly xForwardedFor?: readonly string[];
  readonly before?: readonly [text: string, times: number][];
  readonly source: string;
}

/** Cases that the host in Rust reads as well. */
const cases = JSON.parse(readFileSync(new URL("forwarded.json", import.meta.url), "utf8")) as {
  readonly proxies: readonly string[];
  readonly sources: readonly Case[];
  readonly badProxies: readonly string[];
};

/** A header as Node and Deno join it. */
function joined(values: readonly string[] | undefined, before: Case["before"] = []): string | undefined {
  if (values === undefined) return undefined;
  return before.map(([text, times]) => text.repeat(times)).join("") + values.join(", ");
}

describe("the source of a request", () => {
  const proxies = new TrustedProxies(cases.proxies);
  for (const { what, peer, forwarded, xForwardedFor, before, source } of cases.sources) {
    test(what, () => {
      const headers = {
        forwarded: joined(forwarded, before),
        "x-forwarded-for": joined(xForwardedFor, before),
      };
      assert.equal(
        proxies.source(peer, (name) => headers[name]),
        source,
      );
    });
  }
});

describe("trusted proxies", () => {
  for (const proxy of cases.badProxies) {
    test(`${JSON.stringify(proxy)} is refused`, () => {
      assert.throws(() => new TrustedProxies([proxy]), {
        name: "BadConfig",
        message: /such as 192\.0\.2\.1/,
      });
    });
  }

  test("more than 256 are refused", () => {
    assert.ok(new TrustedProxies(Array<string>(256).fill("10.0.0.1")));
    assert.throws(() => new TrustedProxies(Array<string>(257).fill("10.0.0.1")), /at most 256/);
  });
});

/** The addresses of the paths that a peer with this header opens at a node by WebSocket and by POST. */
async function remotes(
  t: TestContext,
  trustedProxies: readonly string[],
  header: string,
  more: Readonly<Record<string, string>> = {},
): Promise<string[]> {
  const { mesh, bootstrap } = await member({ trustedProxies });
  t.after(() => mesh.close());
  const url = bootstrap.replace(/#.*$/, "");
  const found: string[] = [];
  const { paths } = mesh;
  const open = paths.open.bind(paths);
  paths.open = (link, opened: Opened) => {
    found.push(opened.remote);
    return open(link, opened);
  };
  const headers = { ...more, "x-forwarded-for": header };
  const socket = new WebSocket(url, "selfsame.1", { perMessageDeflate: false, headers });
  t.after(() => socket.terminate());
  await new Promise((resolve, reject) => socket.once("open", resolve).once("error", reject));
  const posted = await fetch(url.replace("ws:", "http:"), {
    method: "POST",
    headers: { ...headers, "content-type": "application/selfsame", "selfsame-path": "0".repeat(32) },
  });
  assert.equal(posted.status, 200);
  return found;
}

describe("a node behind a proxy", () => {
  test("counts a path by the address that the trusted proxy forwards", async (t) => {
    assert.deepEqual(await remotes(t, ["127.0.0.1"], "192.0.2.9, 198.51.100.1"), [
      "198.51.100.1",
      "198.51.100.1",
    ]);
  });

  test("reads what a proxy appends behind many headers", async (t) => {
    const many = Object.fromEntries(Array.from({ length: 1100 }, (_, at) => [`a${at}`, "x"]));
    assert.deepEqual(await remotes(t, ["127.0.0.1"], "198.51.100.1", many), ["198.51.100.1", "198.51.100.1"]);
  });

  test("ignores the header of an untrusted peer", async (t) => {
    assert.deepEqual(await remotes(t, ["10.0.0.0/8"], "192.0.2.9, 198.51.100.1"), ["127.0.0.1", "127.0.0.1"]);
  });
});
