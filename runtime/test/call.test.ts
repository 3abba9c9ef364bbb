import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { type Handler, MeshError, type NodeMesh } from "../src/entries/node.ts";
import { leaf, member, type TestNode, until } from "./support.ts";

const UNOWNED = { unowned: true } as const;

/** A caller and two nodes that may serve, one of which is to fail; keys say to which of them a request goes. */
describe("a request that one of two providers cannot answer", () => {
  let good: TestNode;
  let bad: TestNode;
  let caller: NodeMesh;
  const quiet = { log: () => undefined };

  before(async () => {
    good = await member(quiet);
    bad = await member({ bootstrap: good.bootstrap, ...quiet });
    caller = await leaf(good.bootstrap);
  });
  after(async () => {
    for (const mesh of [caller, bad.mesh, good.mesh]) await mesh.close();
  });

  /** Serves a name at both nodes and returns a key whose requests go to the one that fails. */
  async function serveBoth(name: string, failing: Handler): Promise<string> {
    let isProbing = true;
    await good.mesh.serve(name, async (request) => new Response(`good ${await request.text()}`), UNOWNED);
    await bad.mesh.serve(
      name,
      (request, context) => (isProbing ? new Response("bad") : failing(request, context)),
      UNOWNED,
    );
    await until("both are found", async () => (await caller.find(name, UNOWNED)).length === 2);
    for (let key = 0; ; key++) {
      const response = await caller.fetch(`https://${name}.mesh/`, { ...UNOWNED, key: `${key}` });
      if ((await response.text()) !== "bad") continue;
      isProbing = false;
      return `${key}`;
    }
  }

  for (const status of [502, 503, 504]) {
    test(`is sent to the other after a ${status}, where that is safe`, async () => {
      const asked: string[] = [];
      const name = `status-${status}`;
      const key = await serveBoth(name, (request) => {
        asked.push(request.method);
        return new Response("busy", { status });
      });
      const ask = async (init: object): Promise<string> => {
        const response = await caller.fetch(`https://${name}.mesh/`, { ...UNOWNED, key, ...init });
        return `${response.status} ${await response.text()}`;
      };
      assert.equal(await ask({}), "200 good ");
      assert.equal(await ask({ method: "PUT", body: "twice" }), "200 good twice");
      assert.equal(await ask({ method: "POST", body: "once" }), `${status} busy`);
      assert.equal(await ask({ retries: 0 }), `${status} busy`);
      assert.deepEqual(asked, ["GET", "PUT", "POST", "GET"]);
    });
  }

  test("is not sent to the other after another status", async () => {
    const key = await serveBoth("status-500", () => new Response("broken", { status: 500 }));
    const response = await caller.fetch("https://status-500.mesh/", { ...UNOWNED, key });
    assert.equal(response.status, 500);
    await response.body?.cancel();
  });

  test("is not sent again with a body too long to be kept", async () => {
    const key = await serveBoth("long", async (request) => {
      await request.arrayBuffer();
      return new Response("busy", { status: 503 });
    });
    const ask = async (size: number): Promise<number> => {
      const body = new Uint8Array(size);
      const response = await caller.fetch("https://long.mesh/", { ...UNOWNED, key, method: "PUT", body });
      await response.body?.cancel();
      return response.status;
    };
    assert.equal(await ask(64 * 1024), 200);
    assert.equal(await ask(64 * 1024 + 1), 503);
  });

  test("keeps what of its body was sent before the answer came, and goes on with the rest", async () => {
    const answered = Promise.withResolvers<void>();
    const key = await serveBoth("split", async (request) => {
      const reader = (request.body as ReadableStream<Uint8Array>).getReader();
      await reader.read();
      answered.resolve();
      return new Response("busy", { status: 503 });
    });
    const body = new ReadableStream({
      start: async (controller) => {
        controller.enqueue(new TextEncoder().encode("first "));
        await answered.promise;
        controller.enqueue(new TextEncoder().encode("second"));
        controller.close();
      },
    });
    const response = await caller.fetch("https://split.mesh/", { ...UNOWNED, key, method: "PUT", body });
    assert.equal(await response.text(), "good first second");
  });

  test("is sent to the other when its stream is reset before the answer, where that is safe", async () => {
    await good.mesh.serve("gone", async () => new Response("good "), UNOWNED);
    await bad.mesh.publish("gone", UNOWNED);
    await until("both are found", async () => (await caller.find("gone", UNOWNED)).length === 2);
    const post = async (key: string): Promise<boolean> => {
      const response = await caller
        .fetch("https://gone.mesh/", { ...UNOWNED, key, method: "POST" })
        .catch(() => undefined);
      return (await response?.text()) === undefined;
    };
    let number = 0;
    while (!(await post(`${number}`))) number++;
    const ask = (method: string): Promise<Response> =>
      caller.fetch("https://gone.mesh/", { ...UNOWNED, key: `${number}`, method });
    assert.equal(await (await ask("GET")).text(), "good ");
    await assert.rejects(ask("POST"), (error: MeshError) => {
      assert.equal(error.name, "StreamRefused");
      assert.deepEqual(error.tried, [{ peer: bad.mesh.id, reason: "StreamRefused" }]);
      assert.match(error.message, new RegExp(`tried ${bad.mesh.id.slice(0, 8)} \\(StreamRefused\\)$`));
      return true;
    });
  });

  test("of equal keys goes to one provider, of many keys to both", async () => {
    const key = await serveBoth("sticky", () => new Response("bad"));
    const ask = async (key: string): Promise<string> =>
      (await caller.fetch("https://sticky.mesh/", { ...UNOWNED, key })).text();
    const same = await Promise.all(Array.from({ length: 20 }, () => ask(key)));
    assert.deepEqual(new Set(same), new Set(["bad"]));
    const others = await Promise.all(Array.from({ length: 40 }, (_, index) => ask(`key ${index}`)));
    assert.deepEqual(new Set(others), new Set(["bad", "good "]));
  });

  test("gets the last answer when no other does better, and a bounded number of attempts", async () => {
    let attempts = 0;
    const busy = (): Response => {
      attempts++;
      return new Response("busy", { status: 503 });
    };
    for (const { mesh } of [good, bad]) await mesh.serve("busy", busy, UNOWNED);
    await until("both are found", async () => (await caller.find("busy", UNOWNED)).length === 2);
    const requests = 100;
    const statuses = await Promise.all(
      Array.from({ length: requests }, async () => {
        const response = await caller.fetch("https://busy.mesh/", UNOWNED);
        assert.equal(await response.text(), "busy");
        return response.status;
      }),
    );
    assert.deepEqual(new Set(statuses), new Set([503]));
    assert.ok(attempts > requests, "nothing was tried again");
    assert.ok(attempts < 1.6 * requests, `${attempts} attempts for ${requests} requests`);
  });
});

test("a request whose provider ends in the midst of a short answer is sent to another", async (t) => {
  const quiet = { log: () => undefined };
  const good = await member(quiet);
  const bad = await member({ bootstrap: good.bootstrap, ...quiet });
  const caller = await leaf(good.bootstrap);
  t.after(async () => {
    for (const mesh of [caller, bad.mesh, good.mesh]) await mesh.close();
  });
  let ending: Promise<void> | undefined;
  const half = (): Response => {
    setTimeout(() => {
      ending = bad.mesh.close();
    });
    return new Response(
      new Blob(["half"]).stream().pipeThrough(new TransformStream({ flush: () => pending() })),
    );
  };
  await good.mesh.serve("whole", () => new Response("whole"), UNOWNED);
  await bad.mesh.serve("whole", half, UNOWNED);
  await until("both are found", async () => (await caller.find("whole", UNOWNED)).length === 2);
  for (let key = 0; ending === undefined; key++) {
    const response = await caller.fetch("https://whole.mesh/", { ...UNOWNED, key: `${key}` });
    assert.equal(await response.text(), "whole");
  }
  await ending;
});

/** Never settles. */
function pending(): Promise<never> {
  return new Promise(() => undefined);
}

describe("a request that nobody answers", () => {
  let node: TestNode;
  let caller: NodeMesh;

  before(async () => {
    node = await member();
    caller = await leaf(node.bootstrap);
  });
  after(async () => {
    await caller.close();
    await node.mesh.close();
  });

  const rejected = (request: Promise<Response>): Promise<MeshError> =>
    request.then(
      () => assert.fail("there is an answer"),
      (error) => error,
    );

  test("ends at its deadline, and so does the handler's", async () => {
    const aborted = Promise.withResolvers<void>();
    const hang = (request: Request): Promise<Response> => {
      request.signal.addEventListener("abort", () => aborted.resolve());
      return new Promise(() => undefined);
    };
    await node.mesh.serve("hang", hang, UNOWNED);
    const error = await rejected(caller.fetch("https://hang.mesh/", { ...UNOWNED, timeout_ms: 200 }));
    assert.equal(error.name, "Deadline");
    assert.deepEqual(error.tried, [{ peer: node.mesh.id, reason: "Deadline" }]);
    assert.equal(error.getResponse().status, 504);
    await aborted.promise;
    await node.mesh.serve("hang", () => new Response("alive"), UNOWNED);
    assert.equal(await (await caller.fetch("https://hang.mesh/", UNOWNED)).text(), "alive");
  });

  test("has as long as it likes once its answer has begun", async () => {
    const late = Promise.withResolvers<void>();
    const slow = (): Response =>
      new Response(
        new ReadableStream({
          start: async (controller) => {
            controller.enqueue(new TextEncoder().encode("early "));
            await late.promise;
            controller.enqueue(new TextEncoder().encode("late"));
            controller.close();
          },
        }),
      );
    await node.mesh.serve("slow", slow, UNOWNED);
    await node.mesh.serve("never", () => new Promise(() => undefined), UNOWNED);
    const response = await caller.fetch("https://slow.mesh/", { ...UNOWNED, timeout_ms: 1000 });
    const other = await rejected(caller.fetch("https://never.mesh/", { ...UNOWNED, timeout_ms: 1000 }));
    assert.equal(other.name, "Deadline");
    late.resolve();
    assert.equal(await response.text(), "early late");
  });

  test("for want of a replica is a 503 with its reason", async () => {
    const error = await rejected(caller.fetch("https://nobody.mesh/", UNOWNED));
    assert.equal(error.name, "NoProvider");
    const response = error.getResponse();
    assert.equal(response.status, 503);
    assert.equal(response.headers.get("content-type"), "application/problem+json");
    assert.equal(response.headers.get("retry-after"), "1");
    assert.deepEqual(await response.json(), {
      title: "Service Unavailable",
      status: 503,
      detail: "nobody serves this name",
      error: "NoProvider",
    });
  });

  test("for want of this node's own store is a 500 that is not to be repeated", () => {
    const response = new MeshError("StoreCorrupt").getResponse();
    assert.deepEqual([response.status, response.headers.get("retry-after")], [500, null]);
  });

  test("because its replicas are gone is a 503 that names them", async () => {
    const dead = await member({ bootstrap: node.bootstrap });
    await dead.mesh.serve("dead", () => new Response("x"), UNOWNED);
    await until("it is found", async () => (await caller.find("dead", UNOWNED)).length === 1);
    await dead.mesh.close();
    const error = await rejected(caller.fetch("https://dead.mesh/", UNOWNED));
    assert.equal(error.class, "Unreachable");
    const response = error.getResponse();
    assert.equal(response.status, 503);
    const problem = (await response.json()) as { tried: unknown; error: string };
    assert.deepEqual(problem.tried, error.tried);
    assert.deepEqual(error.tried, [{ peer: dead.mesh.id, reason: problem.error }]);
  });

  test("of one peer is tried at no other", async () => {
    await node.mesh.serve("one", () => new Response("wrong"), UNOWNED);
    const response = rejected(caller.fetch("https://one.mesh/", { ...UNOWNED, peer: caller.id }));
    assert.deepEqual((await response).tried, [{ peer: caller.id, reason: "NoService" }]);
  });

  test("has options that are checked", async () => {
    const wrong: [object, RegExp][] = [
      [{ policy: "fastest" }, /policy is "power-of-two" or "random"/],
      [{ timeout_ms: 0 }, /timeout_ms is a whole number from 1/],
      [{ timeout_ms: "5s" }, /timeout_ms/],
      [{ retries: 3 }, /retries is a whole number from 0 to 2/],
      [{ key: "k".repeat(257) }, /key has at most 256 bytes/],
      [{ peer: "me" }, /peer must be 64 hexadecimal digits; got 2/],
    ];
    for (const [options, message] of wrong) {
      await assert.rejects(caller.fetch("https://one.mesh/", { ...UNOWNED, ...options }), {
        name: "BadConfig",
        message,
      });
    }
    const random = await caller.fetch("https://one.mesh/", { ...UNOWNED, policy: "random" });
    assert.equal(await random.text(), "wrong");
  });
});

describe("a request that is cancelled", () => {
  let node: TestNode;
  let caller: NodeMesh;
  const reason = new Error("changed my mind");

  before(async () => {
    node = await member();
    caller = await leaf(node.bootstrap);
  });
  after(async () => {
    await caller.close();
    await node.mesh.close();
  });

  test("before it is sent never leaves", async () => {
    let asked = 0;
    await node.mesh.serve("counted", () => new Response(`${++asked}`), UNOWNED);
    const signal = AbortSignal.abort(reason);
    await assert.rejects(caller.fetch("https://counted.mesh/", { ...UNOWNED, signal }), reason);
    assert.equal(await (await caller.fetch("https://counted.mesh/", UNOWNED)).text(), "1");
  });

  test("while its provider is looked for ends at once", async () => {
    const abort = new AbortController();
    const response = caller.fetch("https://nobody.mesh/", { ...UNOWNED, signal: abort.signal });
    abort.abort(reason);
    await assert.rejects(response, reason);
  });

  test("while its body is sent cancels the body's source", async () => {
    const cancelled = Promise.withResolvers<unknown>();
    const asked = Promise.withResolvers<void>();
    await node.mesh.serve(
      "sink",
      async (request) => {
        asked.resolve();
        return new Response(await request.text());
      },
      UNOWNED,
    );
    const abort = new AbortController();
    const body = new ReadableStream({
      start: (controller) => controller.enqueue(new Uint8Array(10)),
      cancel: (why) => cancelled.resolve(why),
    });
    const init = { ...UNOWNED, method: "POST", body, signal: abort.signal };
    const response = caller.fetch("https://sink.mesh/", init);
    await asked.promise;
    abort.abort(reason);
    await assert.rejects(response, reason);
    await cancelled.promise;
  });

  test("while its answer streams fails the reader with the reason, and cancels the handler's stream", async () => {
    const cancelled = Promise.withResolvers<void>();
    const feed = (): Response =>
      new Response(
        new ReadableStream({
          start: (controller) => controller.enqueue(new Uint8Array(10)),
          cancel: () => cancelled.resolve(),
        }),
      );
    await node.mesh.serve("feed", feed, UNOWNED);
    const abort = new AbortController();
    const response = await caller.fetch("https://feed.mesh/", { ...UNOWNED, signal: abort.signal });
    const reader = (response.body as ReadableStream<Uint8Array>).getReader();
    assert.equal((await reader.read()).value?.length, 10);
    const next = reader.read();
    abort.abort(reason);
    await assert.rejects(next, reason);
    await cancelled.promise;
  });

  test("because its own body failed fails with the body's error, and is tried nowhere else", async () => {
    await node.mesh.serve("sink", async (request) => new Response(await request.text()), UNOWNED);
    for (const failure of [new Error("the disk is gone"), new MeshError("Disconnected")]) {
      const body = new ReadableStream({
        pull: (controller) => controller.error(failure),
      });
      await assert.rejects(
        caller.fetch("https://sink.mesh/", { ...UNOWNED, method: "PUT", body }),
        (error: unknown) => error === failure,
      );
    }
  });
});

test("a body can be produced while the answer to it streams", async () => {
  const node = await member();
  const caller = await leaf(node.bootstrap);
  const upper = (): TransformStream<Uint8Array, Uint8Array<ArrayBuffer>> =>
    new TransformStream({
      transform: (chunk, controller) =>
        controller.enqueue(new TextEncoder().encode(new TextDecoder().decode(chunk).toUpperCase())),
    });
  try {
    const handler = (request: Request): Response => new Response(request.body?.pipeThrough(upper()) ?? null);
    await node.mesh.serve("shout", handler, UNOWNED);
    const { readable, writable } = new TransformStream<Uint8Array, Uint8Array<ArrayBuffer>>();
    const writer = writable.getWriter();
    const init = { ...UNOWNED, method: "POST", body: readable };
    const response = await caller.fetch("https://shout.mesh/", init);
    const reader = (response.body as ReadableStream<Uint8Array>).getReader();
    for (const word of ["each", "word", "is", "answered", "before", "the", "next"]) {
      await writer.write(new TextEncoder().encode(word));
      const { value } = await reader.read();
      assert.equal(new TextDecoder().decode(value), word.toUpperCase());
    }
    await writer.close();
    assert.equal((await reader.read()).done, true);
  } finally {
    await caller.close();
    await node.mesh.close();
  }
});
