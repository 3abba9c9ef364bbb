import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { contextOf, type MeshError, type NodeMesh } from "../src/entries/node.ts";
import { leaf, member, OWNER_SEED, type TestNode, until } from "./support.ts";

const UNOWNED = { unowned: true } as const;
const MIB = 1024 * 1024;

describe("two members and a leaf over WebSockets", () => {
  let first: TestNode;
  let second: TestNode;
  let third: NodeMesh;

  before(async () => {
    first = await member();
    second = await member({ bootstrap: first.bootstrap });
    third = await leaf(second.bootstrap);
  });
  after(async () => {
    await third.close();
    await second.mesh.close();
    await first.mesh.close();
  });

  test("a request reaches the handler with the caller's id, and its answer comes back", async () => {
    await first.mesh.serve(
      "echo",
      async (request, context) => {
        assert.equal(contextOf(request), context);
        const body = await request.text();
        const seen = [request.method, request.url, request.headers.get("x-a"), body, context.assurance];
        return new Response(JSON.stringify(seen), {
          status: 201,
          headers: [
            ["set-cookie", "a=1"],
            ["set-cookie", "b=2"],
            ["x-caller", context.caller],
          ],
        });
      },
      UNOWNED,
    );
    const response = await second.mesh.fetch("https://echo.mesh/p?q=1", {
      method: "POST",
      body: "hello",
      headers: { "x-a": "1" },
      ...UNOWNED,
    });
    assert.equal(response.status, 201);
    assert.deepEqual(response.headers.getSetCookie(), ["a=1", "b=2"]);
    assert.equal(response.headers.get("x-caller"), second.mesh.id);
    assert.deepEqual(await response.json(), ["POST", "https://echo.mesh/p?q=1", "1", "hello", "session"]);
  });

  test("a leaf calls and is called", async () => {
    await third.serve("leaf", () => new Response("from a leaf"), UNOWNED);
    const response = await first.mesh.fetch("https://leaf.mesh/", UNOWNED);
    assert.equal(await response.text(), "from a leaf");
    const back = await third.service("leaf", UNOWNED).fetch("/");
    assert.equal(await back.text(), "from a leaf");
  });

  test("find names the providers, withdraw takes them away", async () => {
    await first.mesh.serve("brief", () => new Response("x"), { ...UNOWNED, version: "1.2", weight: 0.7 });
    const [provider] = await second.mesh.find("brief", UNOWNED);
    assert.equal(provider?.peer, first.mesh.id);
    assert.equal(provider?.version, "1.2");
    assert.equal(provider?.weight, 0.7);
    await first.mesh.withdraw("brief");
    await assert.rejects(second.mesh.fetch("https://brief.mesh/", UNOWNED), { class: "Service" });
  });

  test("a name that nobody serves is a typed error", async () => {
    await assert.rejects(first.mesh.fetch("https://nobody.mesh/", UNOWNED), { name: "NoProvider" });
  });

  test("a name is owned unless it is asked for otherwise", async () => {
    await assert.rejects(first.mesh.fetch("https://echo.mesh/"), { name: "BadConfig", message: /unowned/ });
    await assert.rejects(
      first.mesh.serve("echo", () => new Response()),
      { name: "BadConfig", message: /grant/ },
    );
  });

  test("answers without a body, and the body of HEAD", async () => {
    const handler = (request: Request): Response =>
      request.method === "HEAD"
        ? new Response("dropped", { headers: { "x-h": "1" } })
        : new Response(null, { status: 204 });
    await first.mesh.serve("empty", handler, UNOWNED);
    const empty = await second.mesh.fetch("https://empty.mesh/", { method: "DELETE", ...UNOWNED });
    assert.equal(empty.status, 204);
    assert.equal(await empty.text(), "");
    const head = await second.mesh.fetch("https://empty.mesh/", { method: "HEAD", ...UNOWNED });
    assert.equal(head.headers.get("x-h"), "1");
    assert.equal(await head.text(), "");
  });

  test("large bodies stream both ways", async () => {
    await first.mesh.serve("mirror", (request) => new Response(request.body), UNOWNED);
    const size = 5 * MIB;
    let made = 0;
    const upload = new ReadableStream<Uint8Array<ArrayBuffer>>({
      pull: (controller) => {
        if (made >= size) return controller.close();
        const chunk = new Uint8Array(100_000).map((_, index) => (made + index) % 251);
        made += chunk.length;
        controller.enqueue(chunk);
      },
    });
    const response = await second.mesh.fetch("https://mirror.mesh/", {
      method: "POST",
      body: upload,
      ...UNOWNED,
    });
    let seen = 0;
    for await (const chunk of response.body as ReadableStream<Uint8Array>) {
      for (const byte of chunk) if (byte !== (seen++ % 251) % 251) assert.fail(`byte ${seen} is wrong`);
    }
    assert.equal(seen, made);
  });

  test("a reader that stops holds the writer back", async () => {
    let made = 0;
    const endless = (): Response =>
      new Response(
        new ReadableStream({
          pull: (controller) => {
            made += 65_536;
            controller.enqueue(new Uint8Array(65_536));
          },
        }),
      );
    await first.mesh.serve("endless", endless, UNOWNED);
    const response = await second.mesh.fetch("https://endless.mesh/", UNOWNED);
    let before = -1;
    await until("the writer stops", () => {
      const stopped = made === before;
      before = made;
      return stopped;
    });
    assert.ok(made <= 2 * MIB, `${made} bytes were made without a reader`);
    await response.body?.cancel();
  });

  test("cancelling a request aborts the handler's", async () => {
    const aborted = Promise.withResolvers<unknown>();
    const started = Promise.withResolvers<void>();
    await first.mesh.serve(
      "slow",
      (request) => {
        started.resolve();
        return new Promise((_, reject) => {
          request.signal.addEventListener("abort", () => {
            aborted.resolve(request.signal.reason);
            reject(request.signal.reason);
          });
        });
      },
      UNOWNED,
    );
    const abort = new AbortController();
    const response = second.mesh.fetch("https://slow.mesh/", { signal: abort.signal, ...UNOWNED });
    await started.promise;
    abort.abort(new Error("changed my mind"));
    await assert.rejects(response, { message: "changed my mind" });
    assert.equal(((await aborted.promise) as MeshError).class, "Service");
  });

  test("a cancelled answer ends the handler's stream", async () => {
    const cancelled = Promise.withResolvers<void>();
    await first.mesh.serve(
      "feed",
      () =>
        new Response(
          new ReadableStream({
            start: (controller) => controller.enqueue(new Uint8Array(10)),
            cancel: () => cancelled.resolve(),
          }),
        ),
      UNOWNED,
    );
    const response = await second.mesh.fetch("https://feed.mesh/", UNOWNED);
    await response.body?.cancel();
    await cancelled.promise;
  });

  test("many requests at once keep their answers apart", async () => {
    await first.mesh.serve(
      "add",
      async (request) => new Response(`${Number(await request.text()) + 1}`),
      UNOWNED,
    );
    const answers = await Promise.all(
      Array.from({ length: 100 }, async (_, index) => {
        const answer = await second.mesh.fetch("https://add.mesh/", {
          method: "POST",
          body: `${index}`,
          ...UNOWNED,
        });
        return Number(await answer.text());
      }),
    );
    assert.deepEqual(
      answers,
      Array.from({ length: 100 }, (_, index) => index + 1),
    );
  });

  test("a request to one peer reaches that peer", async () => {
    for (const { mesh } of [first, second]) {
      await mesh.serve("who", () => new Response(mesh.id), UNOWNED);
    }
    for (const { mesh } of [first, second]) {
      const response = await third.fetch("https://who.mesh/", { peer: mesh.id, ...UNOWNED });
      assert.equal(await response.text(), mesh.id);
    }
  });

  test("the ring is seen from both sides", async () => {
    await until("both members know each other", async () => {
      const [left, right] = [await first.mesh.status(), await second.mesh.status()];
      return left.successors[0]?.id === second.mesh.id && right.successors[0]?.id === first.mesh.id;
    });
    const status = await third.status();
    assert.equal(status.role, "leaf");
    assert.match(status.bootId, /^[0-9a-f]{16}$/);
  });
});

describe("owned names", () => {
  test("are served by who holds the owner's grant, and by nobody else", async () => {
    const owner = await member({ ownerSeed: OWNER_SEED });
    assert.match(owner.mesh.ownerKey ?? "", /^[0-9a-f]{64}$/);
    const caller = await member({ bootstrap: owner.bootstrap, owner: owner.mesh.ownerKey });
    const impostor = await member({ bootstrap: owner.bootstrap, ownerSeed: "22".repeat(32) });
    try {
      await impostor.mesh.serve("vault", () => new Response("stolen"));
      await impostor.mesh.serve("vault", () => new Response("stolen"), UNOWNED);
      await assert.rejects(caller.mesh.fetch("https://vault.mesh/"), { name: "NoProvider" });
      await owner.mesh.serve("vault", () => new Response("safe"));
      const response = await caller.mesh.fetch("https://vault.mesh/");
      assert.equal(await response.text(), "safe");
    } finally {
      for (const { mesh } of [impostor, caller, owner]) await mesh.close();
    }
  });

  test("a grant that is no grant is refused", async () => {
    const { mesh } = await member();
    await assert.rejects(
      mesh.serve("vault", () => new Response(), { grant: "AAAA" }),
      (error: MeshError) => ["BadGrant", "BadRecord"].includes(error.name),
    );
    await assert.rejects(
      mesh.serve("vault", () => new Response(), { grant: "no base64!" }),
      { name: "BadConfig" },
    );
    await mesh.close();
  });
});

test("nodes whose only addresses are of HTTP reach each other by POST", async () => {
  const first = await member({ scheme: "http" });
  const second = await member({ scheme: "http", bootstrap: first.bootstrap });
  try {
    await first.mesh.serve("echo", async (request) => new Response(await request.text()), UNOWNED);
    await second.mesh.serve("back", () => new Response("back"), UNOWNED);
    const body = "x".repeat(300_000);
    const there = await second.mesh.fetch("https://echo.mesh/", { method: "POST", body, ...UNOWNED });
    assert.equal((await there.text()).length, body.length);
    const back = await first.mesh.fetch("https://back.mesh/", UNOWNED);
    assert.equal(await back.text(), "back");
  } finally {
    await second.mesh.close();
    await first.mesh.close();
  }
});
