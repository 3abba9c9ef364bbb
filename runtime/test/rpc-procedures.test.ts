import assert from "node:assert/strict";
import { describe, it, type TestContext } from "node:test";
import { z } from "zod";
import {
  implement,
  ProcedureError,
  procedure,
  procedures,
  type RpcClient,
  type RpcHandler,
  RpcRefusal,
  type Schema,
  type TypedClient,
  typed,
} from "../src/entries/rpc-node.ts";
import { CALLER, SERVICE, serveHttp, startClient, startServer, TestMesh } from "./rpc-support.ts";

const contract = procedures({
  /** Its schemas change the values on both sides. */
  check: procedure({
    input: z.object({ url: z.string().min(1), tries: z.string().transform(Number) }),
    output: z.object({ seen: z.string().transform((text) => new Date(text)), tries: z.number() }),
    idempotent: true,
  }),
  count: procedure({ output: z.number() }),
  fail: procedure({ input: z.enum(["refuse", "break", "bigint"]) }),
  wait: procedure({ idempotent: true }),
});

interface Calls {
  count: number;
  isIdempotent: boolean[];
  readonly aborted: Promise<unknown>;
}

const WAYS = ["udp", "http"] as const;

async function start(
  t: TestContext,
  way: (typeof WAYS)[number],
  handler: RpcHandler,
): Promise<{ client: RpcClient; records: ReturnType<typeof startServer>["records"] }> {
  const { server, records } = startServer(t, handler, { idempotent: true, stateless: true });
  const address =
    way === "udp"
      ? (await server.listenUdp({ host: "127.0.0.1", port: 0 })).address
      : await serveHttp(t, (request, origin) => server.fetch(request, origin));
  return { client: startClient(t, new TestMesh(server, address)), records };
}

function handlerOf(): { handler: RpcHandler; calls: Calls } {
  const aborted = Promise.withResolvers<unknown>();
  const calls: Calls = { count: 0, isIdempotent: [], aborted: aborted.promise };
  const handler = implement(contract, {
    check: ({ url, tries }, { caller, isIdempotent }) => {
      assert.equal(caller, CALLER);
      calls.isIdempotent.push(isIdempotent);
      return { seen: url, tries };
    },
    count: async (_, { isIdempotent }) => {
      calls.isIdempotent.push(isIdempotent);
      return ++calls.count;
    },
    fail: (what) => {
      calls.count++;
      if (what === "refuse") throw new RpcRefusal("NotGranted", "only the owner does that");
      if (what === "bigint") return 1n as unknown as undefined;
      throw new Error("a secret of the service");
    },
    wait: (_, { signal }) =>
      new Promise((_, reject) =>
        signal.addEventListener("abort", () => {
          aborted.resolve(signal.reason);
          reject(signal.reason);
        }),
      ),
  });
  return { handler, calls };
}

async function startContract(
  t: TestContext,
  way: (typeof WAYS)[number] = "udp",
): Promise<{ api: TypedClient<typeof contract>; client: RpcClient; calls: Calls; log: () => string }> {
  const { handler, calls } = handlerOf();
  const { client, records } = await start(t, way, handler);
  const log = (): string => records.map(({ text }) => text).join("\n");
  return { api: typed(client, SERVICE, contract), client, calls, log };
}

for (const way of WAYS) {
  describe(`procedures over ${way}`, () => {
    it("validate and change the input at the server, the output at the client", async (t) => {
      const { api } = await startContract(t, way);
      const { seen, tries } = await api.check({ url: "2026-11-28T12:00:00Z", tries: "3" });
      assert.deepEqual([seen.getTime(), tries], [Date.UTC(2026, 10, 28, 12), 3]);
    });

    it("are carried out once unless their contract says that they are idempotent", async (t) => {
      const { api, calls } = await startContract(t, way);
      assert.deepEqual([await api.count(), await api.count()], [1, 2]);
      await api.check({ url: "2026-11-28", tries: "1" });
      assert.deepEqual(calls.isIdempotent, [false, false, true]);
    });

    it("tell the caller what of the input their schema does not allow", async (t) => {
      const { api, calls } = await startContract(t, way);
      const wrong = api.check({ url: "", tries: 3 } as unknown as { url: string; tries: string });
      const error = await wrong.catch((error: unknown) => error);
      assert.ok(error instanceof ProcedureError);
      assert.deepEqual([error.name, error.procedure], ["BadMessage", "check"]);
      assert.deepEqual(
        error.issues.map(({ path }) => path),
        [["url"], ["tries"]],
      );
      assert.match(error.message, /^the input is not what the contract says: url: .*; tries: /);
      assert.equal(calls.isIdempotent.length, 0, "the implementation sees nothing of it");
    });

    it("end with the deadline and the signal of their caller", async (t) => {
      const { api, calls } = await startContract(t, way);
      const late = await api.wait(undefined, { timeout_ms: 300 }).catch((error: Error) => error.name);
      // The server's answer that the deadline has passed may be faster than the client's timer.
      assert.ok(late === "TimedOut" || late === "Deadline", String(late));
      assert.ok(await calls.aborted);
      const abort = new AbortController();
      const given = api.wait(undefined, { signal: abort.signal });
      abort.abort(new Error("enough"));
      await assert.rejects(given, { message: "enough" });
    });
  });
}

describe("procedures", () => {
  it("refuse with a code and a message, and keep what broke them to themselves", async (t) => {
    const { api, calls, log } = await startContract(t);
    await assert.rejects(api.fail("refuse"), { name: "NotGranted", message: "only the owner does that" });
    await assert.rejects(api.fail("break"), (error: Error) => {
      assert.equal(error.name, "HandlerFailed");
      assert.doesNotMatch(error.message, /secret/);
      return true;
    });
    assert.match(log(), /a secret of the service/);
    await assert.rejects(api.fail("bigint"), { name: "HandlerFailed" });
    assert.equal(calls.count, 3);
  });

  it("that the service does not have are named", async (t) => {
    const { client } = await startContract(t);
    for (const name of ["other", "constructor", "__proto__", "toString"]) {
      const other = typed(client, SERVICE, Object.fromEntries([[name, procedure({})]]));
      const error = await other[name]?.().catch((error: unknown) => error);
      assert.ok(error instanceof ProcedureError, name);
      assert.deepEqual([error.name, error.procedure], ["NoService", name]);
    }
  });

  it("are idempotent only if the server's contract says so", async (t) => {
    const { client, calls } = await startContract(t);
    const other = procedures({ count: procedure({ output: z.number(), idempotent: true }) });
    await assert.rejects(typed(client, SERVICE, other).count(), {
      name: "BadMessage",
      message: "the service does not declare the procedure idempotent",
    });
    assert.equal(calls.count, 0);
  });

  it("tell a bounded part of many and long issues", async (t) => {
    const path = Array.from({ length: 1000 }, () => "\ud800".repeat(1000));
    const message = "\0".repeat(100_000);
    const schema: Schema<string> = {
      "~standard": {
        version: 1,
        vendor: "test",
        validate: () => ({ issues: Array.from({ length: 1000 }, () => ({ message, path })) }),
      },
    };
    const hostile = procedures({ check: procedure({ input: schema }) });
    const { client } = await start(t, "udp", implement(hostile, { check: () => undefined }));
    const error = await typed(client, SERVICE, hostile)
      .check("")
      .catch((error: unknown) => error);
    assert.ok(error instanceof ProcedureError);
    assert.equal(error.issues.length, 16);
    for (const { message, path } of error.issues) {
      assert.equal(message, "\0".repeat(256));
      assert.deepEqual(path, Array(16).fill("\ufffd".repeat(256)));
    }
    assert.equal(error.message.length, 256);
  });

  it("are asked for no input that cannot be sent", async (t) => {
    const large = procedures({ check: procedure({ input: z.unknown() }) });
    let calls = 0;
    const { client } = await start(t, "udp", implement(large, { check: () => void calls++ }));
    const api = typed(client, SERVICE, large);
    await assert.rejects(api.check("x".repeat(1024 * 1024)), { name: "TooLarge" });
    await assert.rejects(api.check(1n), { name: "BadMessage" });
    await assert.rejects(
      api.check(() => 1),
      { name: "BadMessage" },
    );
    assert.equal(calls, 0);
    await api.check("x".repeat(1024 * 1024 - 2));
    assert.equal(calls, 1);
  });

  it("have names that are usable, and implementations", () => {
    for (const name of ["", "1", "\u00fc", "a b", "x".repeat(64)]) {
      assert.throws(() => procedures({ [name]: procedure({}) }), { name: "BadConfig" }, name);
    }
    procedures({ ["x".repeat(63)]: procedure({}), "notes.get": procedure({}) });
    // @ts-expect-error every procedure has an implementation
    assert.throws(() => implement(contract, {}), { name: "BadConfig" });
  });
});

/** A request as the specification says. */
function requestOf(...parts: (string | number | Uint8Array)[]): Uint8Array {
  const bytes = parts.map((part) =>
    typeof part === "number"
      ? Uint8Array.of(part)
      : typeof part === "string"
        ? new TextEncoder().encode(part)
        : part,
  );
  return Uint8Array.from(Buffer.concat(bytes));
}

describe("a service of procedures", () => {
  it("refuses every request that is malformed, too large, too deep or of another version", async (t) => {
    const { client, calls } = await startContract(t);
    const refused: [Uint8Array, string][] = [
      [requestOf(), "BadMessage"],
      [requestOf("spq"), "BadMessage"],
      [requestOf("spa", 1, 0, 5, "count"), "BadMessage"],
      [requestOf("spq", 2, 0, 5, "count"), "WrongVersion"],
      [requestOf("spq", 1), "BadMessage"],
      [requestOf("spq", 1, 3), "BadMessage"],
      [requestOf("spq", 1, 0), "BadMessage"],
      [requestOf("spq", 1, 0, 0), "BadMessage"],
      [requestOf("spq", 1, 0, 6, "count"), "BadMessage"],
      [requestOf("spq", 1, 0, 64, "x".repeat(64)), "BadMessage"],
      [requestOf("spq", 1, 1, new Uint8Array(19)), "BadMessage"],
      [requestOf("spq", 1, 1, new Uint8Array(21)), "BadMessage"],
      [requestOf("spq", 1, 2, new Uint8Array(15)), "BadMessage"],
      [requestOf("spq", 1, 2, new Uint8Array(17)), "BadMessage"],
    ];
    for (const [request, name] of refused) {
      const hex = Buffer.from(request).toString("hex");
      await assert.rejects(client.call(SERVICE, request), { name }, hex);
    }
    assert.equal(calls.count, 0);
    assert.equal(calls.isIdempotent.length, 0);
  });

  it("answers inputs that are no JSON with a failure", async (t) => {
    const { client, calls } = await startContract(t);
    const nested = (depth: number): string => "[".repeat(depth) + "]".repeat(depth);
    const failures: [string | Uint8Array, number, RegExp][] = [
      ["{", 0x0202, /is not JSON/],
      [Uint8Array.of(0x22, 0xff, 0x22), 0x0202, /is not JSON/],
      [requestOf(Uint8Array.of(0xef, 0xbb, 0xbf), '"refuse"'), 0x0202, /is not JSON/],
      [nested(128), 0x0202, /nested more than 127 deep/],
      [nested(127), 0x0202, /not what the contract says/],
      [`"${"[".repeat(1000)}\\"${"[".repeat(1000)}"`, 0x0202, /not what the contract says/],
      ["[".repeat(500_000), 0x0202, /nested more than 127 deep/],
      [" ".repeat(1024 * 1024 + 1), 0x0607, /at most 1048576 bytes/],
    ];
    for (const [input, code, message] of failures) {
      const { payload } = await client.call(SERVICE, requestOf("spq", 1, 0, 4, "fail", input));
      assert.deepEqual([...payload.subarray(0, 5)], [...requestOf("spa", 1, 1)]);
      const failure = JSON.parse(new TextDecoder().decode(payload.subarray(5)));
      assert.equal(failure.code, code);
      assert.match(failure.message, message);
    }
    assert.equal(calls.count, 0);
  });
});

describe("a client of procedures", () => {
  it("takes no answer that is malformed or not what the contract says", async (t) => {
    let answer: Uint8Array = new Uint8Array();
    const { client } = await start(t, "udp", () => answer);
    const api = typed(client, SERVICE, procedures({ count: procedure({ output: z.number() }) }));
    const failure = (text: string): Uint8Array => requestOf("spa", 1, 1, text);
    const answers: [Uint8Array, string][] = [
      [requestOf(), "BadMessage"],
      [requestOf("spq", 1, 0, 5, "count"), "BadMessage"],
      [requestOf("spa", 1, 9), "BadMessage"],
      [requestOf("spa", 2, 0, "1"), "WrongVersion"],
      [requestOf("spa", 1, 0, "one"), "BadMessage"],
      [requestOf("spa", 1, 0, '"one"'), "BadMessage"],
      [requestOf("spa", 1, 0, "[".repeat(1000)), "BadMessage"],
      [requestOf("spa", 1, 3, new Uint8Array(20), "[1]"), "BadMessage"],
      [requestOf("spa", 1, 3, new Uint8Array(19)), "BadMessage"],
      [failure("{}"), "BadMessage"],
      [failure("null"), "BadMessage"],
      [failure('{"code":70000}'), "BadMessage"],
      [failure(`{"code":1,"message":"${"x".repeat(600_000)}"}`), "TooLarge"],
      [failure('{"code":2051,"message":7,"issues":{}}'), "NotGranted"],
      [failure('{"code":2051,"issues":[1,{},{"message":"m","path":[{}]}]}'), "NotGranted"],
      [failure('{"code":65000}'), "Unknown"],
    ];
    for (const [bytes, name] of answers) {
      answer = bytes;
      await assert.rejects(api.count(), { name }, Buffer.from(bytes.subarray(0, 64)).toString());
    }
    answer = requestOf("spa", 1, 0, "1");
    assert.equal(await api.count(), 1);
  });

  it("tells what of an output the contract does not allow", async (t) => {
    const { client } = await start(t, "udp", () => requestOf("spa", 1, 0, '{"list":[1,"two"]}'));
    const output = z.object({ list: z.array(z.number()) });
    const api = typed(client, SERVICE, procedures({ list: procedure({ output }) }));
    await assert.rejects(api.list(), (error: unknown) => {
      assert.ok(error instanceof ProcedureError);
      assert.deepEqual(error.issues[0]?.path, ["list", 1]);
      return true;
    });
  });

  it("has the types of the contract", () => {
    const use = async (api: TypedClient<typeof contract>): Promise<Date> => {
      // @ts-expect-error an input has the type that its schema takes
      await api.check({ url: "", tries: 3 });
      // @ts-expect-error there must be an input
      await api.check();
      // @ts-expect-error the contract says which calls are idempotent
      await api.count(undefined, { idempotent: true });
      // @ts-expect-error there is no such procedure
      await api.other();
      return (await api.check({ url: "", tries: "3" })).seen;
    };
    assert.equal(typeof use, "function");
    // @ts-expect-error an output has the type that its schema takes
    implement(procedures({ count: procedure({ output: z.number() }) }), { count: () => "one" });
  });
});
