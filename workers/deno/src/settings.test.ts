import assert from "node:assert/strict";
import { describe, it } from "node:test";

import { readSettings } from "./settings.ts";

const files: Record<string, string> = { "audit.seed": `${"11".repeat(32)}\n`, "bad.seed": "11" };
const read = (variables: Record<string, string>) =>
  readSettings(
    (name) => variables[name],
    (file) => files[file] ?? assert.fail(file),
  );

describe("the settings of the Deno node", () => {
  it("have usual values for a first start", () => {
    const { network, address, bootstrap, owned, grants, gateway } = read({});
    assert.deepEqual(
      [network, bootstrap, owned, grants, gateway],
      ["twiitr", [], ["handler", "check", "observability", "audit"], {}, []],
    );
    assert.deepEqual(address, ["ws://127.0.0.1:8788/.mesh", "http://127.0.0.1:8788/.mesh"]);
  });

  it("take lists of words and grants by name", () => {
    const { bootstrap, grants, gateway, versions } = read({
      BOOTSTRAP: "ws://a/.mesh#1, ws://b/.mesh#2",
      GRANTS: "check=abc handler=def",
      GATEWAY: "*",
      VERSIONS: "check=2:0.1 handler=1.0",
    });
    assert.deepEqual(bootstrap, ["ws://a/.mesh#1", "ws://b/.mesh#2"]);
    assert.deepEqual(grants, { check: "abc", handler: "def" });
    assert.deepEqual(gateway, ["*"]);
    assert.deepEqual(versions, {
      check: { version: "2", weight: 0.1 },
      handler: { version: "1.0", weight: 1 },
    });
  });

  it("name an audit log by its metadata and the file with the seed of who writes it", () => {
    assert.equal(read({}).audit, undefined);
    const { audit } = read({ AUDIT: "0aff", AUDIT_SEED_FILE: "audit.seed" });
    assert.deepEqual(audit, { metadata: Uint8Array.of(0x0a, 0xff), seed: "11".repeat(32) });
    assert.throws(() => read({ AUDIT: "metadata", AUDIT_SEED_FILE: "audit.seed" }), /AUDIT: expected/);
    for (const wrong of [{}, { AUDIT_SEED_FILE: "bad.seed" }, { AUDIT_SEED: "11".repeat(32) }]) {
      assert.throws(() => read({ AUDIT: "0aff", ...wrong }), /audit log: expected a seed/);
    }
  });

  it("name the file of the ticket key", () => {
    assert.equal(read({}).ticketKey, undefined);
    assert.deepEqual(read({ TICKET_KEY_FILE: "audit.seed" }).ticketKey, new Uint8Array(32).fill(0x11));
    assert.throws(() => read({ TICKET_KEY_FILE: "bad.seed" }), /TICKET_KEY_FILE: expected a file of 64/);
  });

  it("name the domain of a closed network and whom to ask for its certificates", () => {
    assert.equal(read({}).dns, undefined);
    assert.deepEqual(read({ DNS: "ring.example" }).dns, { domain: "ring.example" });
    const dnsOverHttps = "https://dns.example/dns-query";
    const { dns } = read({ DNS: "ring.example", DNS_OVER_HTTPS: dnsOverHttps });
    assert.deepEqual(dns, { domain: "ring.example", dnsOverHttps });
    assert.throws(() => read({ DNS_OVER_HTTPS: dnsOverHttps }), /DNS_OVER_HTTPS: expected DNS beside it/);
  });

  it("that are wrong are named", () => {
    assert.throws(() => read({ PORT: "none" }), /PORT: expected 1 to 65535/);
    assert.throws(() => read({ PORT: "70000" }), /PORT/);
    assert.throws(() => read({ OWNER: "key" }), /OWNER: expected a public key/);
    assert.throws(() => read({ GRANTS: "check" }), /GRANTS: expected name=grant, found check/);
    for (const wrong of ["check", "check=2:1.5", "check=2:x", "=2"]) {
      assert.throws(() => read({ VERSIONS: wrong }), /VERSIONS: expected name=version:weight/, wrong);
    }
  });
});
