import assert from "node:assert/strict";
import { describe, it } from "node:test";

import {
  Attempts,
  callable,
  check,
  type HandlerOptions,
  handler,
  parseDictionary,
  storePassword,
  verifyPassword,
} from "./index.ts";

const dictionary = parseDictionary({ ada: await storePassword("enchantress of numbers") });
const service = check(dictionary, { servedBy: "test" });
const app = handler({ fetch: async (url, init) => service.fetch(new Request(url, init)), servedBy: "front" });

function post(body: string, type = "application/json", headers: Record<string, string> = {}): Request {
  return new Request("http://front/login", {
    method: "POST",
    body,
    headers: { "content-type": type, ...headers },
  });
}

function login(user: unknown, password: unknown): Request {
  return post(JSON.stringify({ user, password }));
}

async function statusOf(request: Request): Promise<number> {
  return (await app.fetch(request)).status;
}

describe("a login", () => {
  it("with the right password is welcome, and told who checked", async () => {
    const response = await app.fetch(login("ada", "enchantress of numbers"));
    assert.equal(response.status, 200);
    assert.deepEqual(await response.json(), {
      message: "Welcome, ada.",
      user: "ada",
      checkedBy: "test",
      over: "HTTP",
    });
    assert.equal(response.headers.get("served-by"), "front");
    assert.equal(response.headers.get("cache-control"), "no-store");
  });

  it("with a wrong password, an unknown user or a name of Object is refused alike", async () => {
    for (const user of ["ada", "bob", "constructor", "__proto__"]) {
      const response = await app.fetch(login(user, "guess"));
      assert.equal(response.status, 401, user);
      assert.deepEqual(await response.json(), {
        error: "Wrong user or password.",
        checkedBy: "test",
        over: "HTTP",
      });
    }
  });

  it("as a form means the same as JSON", async () => {
    const form = "application/x-www-form-urlencoded;charset=UTF-8";
    assert.equal(await statusOf(post("user=ada&password=enchantress+of+numbers", form)), 200);
    assert.equal(await statusOf(post("user=ada&password=guess", form)), 401);
  });

  it("may compose accents as the keyboard likes", async () => {
    const service = check({ cafe: await storePassword("caf\u00e9") }, { servedBy: "test" });
    const app = handler({
      fetch: async (url, init) => service.fetch(new Request(url, init)),
      servedBy: "front",
    });
    assert.equal((await app.fetch(login("cafe", "cafe\u0301"))).status, 200);
  });

  it("that is no login is a bad request", async () => {
    for (const body of [
      "",
      "{",
      "null",
      "[]",
      '"ada"',
      "{}",
      '{"user":"ada"}',
      '{"user":1,"password":"x"}',
    ]) {
      assert.equal(await statusOf(post(body)), 400, body);
    }
    assert.equal(await statusOf(login("", "x")), 400);
    assert.equal(await statusOf(login("u".repeat(129), "x")), 400);
    assert.equal(await statusOf(login("ada", "x".repeat(1025))), 400);
    assert.equal(await statusOf(post("user=ada", "application/x-www-form-urlencoded")), 400);
  });

  it("of another type, too large, or by another method is told so", async () => {
    assert.equal(await statusOf(post("user=ada&password=x", "text/plain")), 415);
    assert.equal(await statusOf(post("x".repeat(9000))), 413);
    const wrongMethod = await app.fetch(new Request("http://front/login", { method: "DELETE" }));
    assert.equal(wrongMethod.status, 405);
    assert.equal(wrongMethod.headers.get("allow"), "GET, HEAD, POST");
  });

  it("is answered in HTML where a browser asks, without echoing markup", async () => {
    const body = new URLSearchParams({ user: "<b>", password: "x" }).toString();
    const response = await app.fetch(
      post(body, "application/x-www-form-urlencoded", { accept: "text/html" }),
    );
    assert.equal(response.status, 401);
    assert.match(response.headers.get("content-security-policy") ?? "", /default-src 'none'/);
    const page = await response.text();
    assert.match(page, /role="alert">Wrong user or password/);
    assert.doesNotMatch(page, /<b>/);
  });
});

describe("a handler that calls check by RPC", () => {
  const fetch = async (url: string, init: RequestInit): Promise<Response> =>
    service.fetch(new Request(url, init));
  const answered = async (call: HandlerOptions["call"], password: string) => {
    const response = await handler({ fetch, call, servedBy: "front" }).fetch(login("ada", password));
    return [response.status, ((await response.json()) as { over?: string }).over];
  };
  const rightly = callable(service);
  const call = (payload: Uint8Array): Promise<Uint8Array> => rightly({ payload: payload.slice() });

  it("answers what it is told, and says so", async () => {
    assert.deepEqual(await answered(call, "enchantress of numbers"), [200, "RPC"]);
    assert.deepEqual(await answered(call, "guess"), [401, "RPC"]);
    const app = handler({ fetch, call, servedBy: "front" });
    const body = new URLSearchParams({ user: "ada", password: "guess" }).toString();
    const form = post(body, "application/x-www-form-urlencoded", { accept: "text/html" });
    assert.match(await (await app.fetch(form)).text(), /checked by test, over encrypted RPC/);
  });

  it("asks through the mesh where that fails or means nothing", async () => {
    const wrong = ["", "{", "null", "[]", '{"status":"200","checkedBy":"x"}', '{"status":200}'];
    const answers = wrong.map((text) => async () => new TextEncoder().encode(text));
    const none = async () => undefined;
    for (const call of [...answers, none, async () => Promise.reject(new Error("nobody answers"))]) {
      assert.deepEqual(await answered(call, "guess"), [401, "HTTP"]);
    }
  });
});

describe("a handler that nobody answers", () => {
  it("says that it is not the user's fault, and when to try again", async () => {
    for (const fetch of [
      async () => Promise.reject(new Error("nobody serves this name")),
      async () => new Response("broken", { status: 500 }),
    ]) {
      const response = await handler({ fetch, servedBy: "front" }).fetch(login("ada", "x"));
      assert.equal(response.status, 503);
      assert.equal(response.headers.get("retry-after"), "1");
    }
  });
});

describe("a handler whose check is lost on the way", () => {
  it("asks another, three in all", async () => {
    for (const [lost, status] of [
      [2, 401],
      [3, 503],
    ] as const) {
      let asked = 0;
      const fetch = async (url: string, init: RequestInit): Promise<Response> => {
        asked += 1;
        if (asked <= lost) throw new Error("the connection to the peer ended");
        return service.fetch(new Request(url, init));
      };
      assert.equal((await handler({ fetch, servedBy: "front" }).fetch(login("ada", "x"))).status, status);
      assert.equal(asked, 3);
    }
  });
});

describe("check", () => {
  const ask = (body: string, headers: Record<string, string>) =>
    service.fetch(new Request("https://check.mesh/", { method: "POST", body, headers }));

  it("answers the right codes itself", async () => {
    const json = { "content-type": "application/json" };
    const right = await ask('{"user":"ada","password":"enchantress of numbers"}', json);
    assert.equal(right.status, 200);
    assert.equal(right.headers.get("served-by"), "test");
    assert.equal((await ask('{"user":"ada","password":"x"}', json)).status, 401);
    assert.equal((await ask("{", json)).status, 400);
    assert.equal((await ask("x".repeat(9000), json)).status, 413);
    assert.equal((await ask("{}", { "content-type": "text/plain" })).status, 415);
    assert.equal((await service.fetch(new Request("https://check.mesh/"))).status, 405);
  });

  it("does not take on more checks than it has memory for", async () => {
    const requests = Array.from({ length: 6 }, () => app.fetch(login("ada", "x")));
    const statuses = (await Promise.all(requests)).map((response) => response.status).sort();
    assert.deepEqual(statuses, [401, 401, 401, 401, 503, 503]);
  });
});

describe("a dictionary", () => {
  it("keeps no password twice in the same form", async () => {
    const [one, other] = [await storePassword("same"), await storePassword("same")];
    assert.notEqual(one.salt, other.salt);
    assert.notEqual(one.hash, other.hash);
  });

  it("with a malformed entry is refused with the entry's name", () => {
    assert.throws(() => parseDictionary([]), /expected an object/);
    assert.throws(() => parseDictionary({ ada: null }), /"ada" needs a salt of 16/);
    assert.throws(() => parseDictionary({ ada: { salt: "zz".repeat(16), hash: "00".repeat(32) } }), /"ada"/);
  });

  it("hashes as OpenSSL does", async () => {
    const { scryptSync } = await import("node:crypto");
    const salt = Buffer.from("000102030405060708090a0b0c0d0e0f", "hex");
    const hash = scryptSync("pleaseletmein", salt, 32, { N: 2 ** 14, r: 8, p: 1 }).toString("hex");
    const stored = { user: { salt: salt.toString("hex"), hash } };
    assert.equal(await verifyPassword(stored, { user: "user", password: "pleaseletmein" }), true);
  });
});

describe("wrong passwords", () => {
  const limited = (attempts?: Attempts) => {
    const fetch = async (url: string, init: RequestInit) => service.fetch(new Request(url, init));
    const app = handler({ fetch, servedBy: "front", sourceOf: (c) => c.req.header("source"), attempts });
    return async (source: string, password: string): Promise<Response> =>
      app.fetch(post(JSON.stringify({ user: "ada", password }), "application/json", { source }));
  };

  it("of one source are few in a minute, and others sign in meanwhile", async () => {
    const signIn = limited();
    for (let count = 0; count < 10; count++) assert.equal((await signIn("one", "guess")).status, 401);
    const refused = await signIn("one", "enchantress of numbers");
    assert.equal(refused.status, 429);
    assert.equal(refused.headers.get("retry-after"), "60");
    assert.equal((await signIn("two", "enchantress of numbers")).status, 200);
  });

  it("count while they are checked, and right ones do not", async () => {
    const attempts = new Attempts();
    for (let count = 0; count < 100; count++) attempts.begin("one", 0)?.isRight();
    const running = Array.from({ length: 11 }, () => attempts.begin("one", 0));
    assert.deepEqual([running[9] === undefined, running[10] === undefined], [false, true]);
    running[0]?.isRight();
    assert.ok(attempts.begin("one", 59_999) !== undefined);
    assert.equal(attempts.begin("one", 59_999), undefined);
    assert.ok(attempts.begin("one", 60_000) !== undefined);
    assert.ok(attempts.begin("one", -1) !== undefined, "a clock that goes back locks nobody out");
  });

  it("of one network count together, however it is written", () => {
    const attempts = new Attempts();
    for (let host = 0; host < 10; host++) attempts.begin(`2001:db8:0:1${host}0::${host}`, 0);
    for (const other of ["2001:db8:0:1ff:ffff::1", "2001:db8::100:0:0:0:9", "2001:DB8:0:100::"]) {
      assert.equal(attempts.begin(other, 0), undefined, other);
    }
    for (let count = 0; count < 10; count++) attempts.begin("::ffff:c000:209", 0);
    for (const other of ["192.0.2.9", "::ffff:192.0.2.9", "::FFFF:C000:209"]) {
      assert.equal(attempts.begin(other, 0), undefined, other);
    }
    for (let host = 0; host < 10; host++) attempts.begin(`fe80::${host}%eth${host}`, 0);
    assert.equal(attempts.begin("fe80::a%wlan0", 0), undefined, "of another zone");
    for (const other of [
      "::ffff:192.0.2.8",
      "::ffff:c000:208",
      "192.0.2.1",
      "2001:db8:0:200::1",
      "2001:db8::1",
      "::1",
      "::c000:209",
      "c000:209",
      "a peer",
      "ab".repeat(32),
    ]) {
      assert.ok(attempts.begin(other, 0) !== undefined, other);
    }
  });

  it("of many sources are forgotten in the order in which they began", () => {
    const attempts = new Attempts();
    for (let count = 0; count < 10; count++) attempts.begin("first", 0);
    assert.equal(attempts.begin("first", 1), undefined);
    for (let source = 0; source < 20_000; source++) attempts.begin(`${source}`, 1);
    assert.equal(attempts.size, 10_000);
    assert.ok(attempts.begin("first", 1) !== undefined);
  });
});
