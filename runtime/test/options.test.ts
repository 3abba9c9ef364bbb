import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { nameOfUrl } from "../src/driver/options.ts";
import { join, memory } from "../src/entries/node.ts";
import { leaf, member } from "./support.ts";

const ID = "ab".repeat(32);

describe("bad options are one line that says what is right", () => {
  const cases: [what: string, options: object, message: RegExp][] = [
    ["no network", {}, /^network is a name of 1 to 63 characters, of a closed network NAME@KEY$/],
    ["a long network", { network: "x".repeat(64) }, /^network is/],
    [
      "an unknown option",
      { network: "n", bootstap: "x" },
      /^there is no option bootstap; the options are .*bootstrap/,
    ],
    [
      "an address that is no URL",
      { network: "n", address: "localhost" },
      /^address localhost is no URL such as/,
    ],
    ["a scheme that nobody dials", { network: "n", address: "ftp://a/" }, /^address ftp:/],
    ["too many addresses", { network: "n", address: Array(9).fill("ws://a/") }, /at most 8/],
    ["a bootstrap without an id", { network: "n", bootstrap: "wss://a/" }, /has no #peer-id/],
    ["a bootstrap with a bad id", { network: "n", bootstrap: "wss://a/#12" }, /64 lower-case hex digits/],
    [
      "an owner that is no key",
      { network: "n", address: "wss://a/", owner: "12" },
      /^owner must be 64 hexadecimal digits; got \d+$/,
    ],
    [
      "an owner for a bad name",
      { network: "n", address: "wss://a/", owner: { A: ID } },
      /^a service name has 1 to 63/,
    ],
    [
      "a seed with a character that is none",
      { network: "n", address: "wss://a/", seed: `${"0".repeat(62)}g0` },
      /^seed must be 64 hexadecimal digits; character 63 is none$/,
    ],
    [
      "a seed that is none",
      { network: "n", address: "wss://a/", seed: "xyz" },
      /^seed must be 64 hexadecimal digits; got 3$/,
    ],
    ["a leaf without a bootstrap", { network: "n" }, /^a node without an address is a leaf/],
    [
      "a flag that is none",
      { network: "n", address: "wss://a/", allowPrivate: "yes" },
      /^allowPrivate is true or false$/,
    ],
    ["a short idle time", { network: "n", idleMs: 5 }, /^idleMs is a number from/],
  ];
  for (const [what, options, message] of cases) {
    test(what, async () => {
      const given = { storage: memory(), ...options } as unknown as Parameters<typeof join>[0];
      await assert.rejects(join(given), (error: Error & { class?: string }) => {
        assert.equal(error.class, "Usage");
        assert.match(error.message, message);
        assert.ok(!error.message.includes("\n"));
        return true;
      });
    });
  }

  test("no storage", async () => {
    const given = { network: "n", address: "wss://a/" } as unknown as Parameters<typeof join>[0];
    await assert.rejects(join(given), { name: "BadConfig", message: /^storage says where/ });
  });
});

test("a mesh URL names a service", () => {
  for (const url of [
    "https://a.b-1.mesh/x",
    "http://a.b-1.mesh?x=1",
    "https://A.B-1.Mesh",
    "https://%61.b-1.mesh/",
  ]) {
    assert.equal(nameOfUrl(new URL(url)), "a.b-1");
  }
  for (const url of [
    "http://a.mesh:8080/",
    "ftp://a.mesh/",
    "https://a_b.mesh/",
    "https://a.mesh:8080/",
    "https://example.com/",
    "https://.mesh/",
  ]) {
    assert.throws(() => nameOfUrl(new URL(url)), { class: "Usage" }, url);
  }
});

test("a bootstrap that does not run, one with another id, and one of another network", async () => {
  const quick = { joinTimeoutMs: 100 };
  await assert.rejects(leaf(`ws://127.0.0.1:1/.mesh#${ID}`, quick), { class: "Unreachable" });
  const { mesh, bootstrap } = await member();
  const [url] = bootstrap.split("#");
  await assert.rejects(leaf(`${url}#${ID}`, quick), (error: Error) => error.name !== "Error");
  await assert.rejects(
    leaf(bootstrap, { ...quick, network: "other" }),
    (error: Error) => error.name !== "Error",
  );
  await mesh.close();
});

test("a bootstrap without an id is believed when that is asked for", async () => {
  const { mesh, bootstrap } = await member();
  const [url = ""] = bootstrap.split("#");
  const other = await leaf(url, { trustOnFirstUse: true });
  assert.ok((await other.status()).peers.includes(mesh.id));
  await other.close();
  await mesh.close();
});
