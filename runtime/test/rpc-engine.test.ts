import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { encodeRpcClientConfig, encodeRpcServerConfig, type RpcInput } from "../src/codec/rpc.ts";
import type { ModuleInstance } from "../src/driver/instance.ts";
import { Logger } from "../src/driver/log.ts";
import type { Timers } from "../src/driver/timers.ts";
import { rpcModule } from "../src/entries/rpc-node.ts";
import { Engine, type EngineParts, instantiate, type RoleOutput } from "../src/rpc/engine.ts";
import { Line } from "../src/rpc/line.ts";
import { RpcReplica } from "../src/rpc/serving.ts";
import { KEY, NETWORK, SERVICE } from "./rpc-support.ts";

const ISSUE: RpcInput = {
  type: "IssueTicket",
  tag: 1,
  caller: new Uint8Array(32),
  endpoint: new Uint8Array(18),
};

/** An instance that traps as soon as it is stepped. */
function trapping(): ModuleInstance {
  const step = (): never => {
    throw new WebAssembly.RuntimeError("unreachable");
  };
  return { create: () => 1, step, destroy: () => undefined } as unknown as ModuleInstance;
}

/** Timers that go off when the test says so. */
function manualTimers(): { timers: Timers; fire: () => void; delays: number[] } {
  const due = new Set<() => void>();
  const delays: number[] = [];
  const after: Timers["after"] = (delay_ms, act) => {
    delays.push(delay_ms);
    due.add(act);
    return { cancel: () => void due.delete(act), unref: () => undefined };
  };
  const fire = (): void => {
    for (const act of [...due]) {
      due.delete(act);
      act();
    }
  };
  return { timers: { after }, fire, delays };
}

function serverConfig(): Uint8Array {
  return encodeRpcServerConfig({
    network: Buffer.from(NETWORK),
    service: Buffer.from(SERVICE),
    ticketSecrets: KEY,
    entropy: new Uint8Array(32),
    datagramBytes: 1200,
    streams: false,
    ticketLife_s: 60,
    idempotent: true,
    notBefore_ms: 0,
    routerSecret: new Uint8Array(),
  });
}

/** Parts of an engine that note what they are told. */
async function noting(more: Partial<EngineParts> = {}): Promise<{ parts: EngineParts; told: string[] }> {
  const told: string[] = [];
  const parts: EngineParts = {
    module: await rpcModule(),
    timers: { after: () => ({ cancel: () => undefined, unref: () => undefined }) },
    logger: new Logger(() => undefined),
    config: serverConfig,
    take: (output: RoleOutput) => void told.push(output.type),
    refused: (input, code) => void told.push(`refused ${input.type} ${code}`),
    lost: ({ name }) => void told.push(`lost ${name}`),
    ...more,
  };
  return { parts, told };
}

const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

describe("an engine of the RPC", () => {
  it("steps all inputs of a turn at once", async () => {
    const { parts, told } = await noting();
    const instance = await instantiate(parts.module);
    const steps: number[] = [];
    const { step } = instance;
    instance.step = (handle, batch) => {
      steps.push(batch.length);
      return step.call(instance, handle, batch);
    };
    const engine = new Engine(instance, parts);
    for (let at = 0; at < 3; at++) engine.push(ISSUE, () => told.push("stepped"));
    await turn();
    assert.equal(steps.length, 1);
    assert.deepEqual(told, ["Issued", "Issued", "Issued", "stepped", "stepped", "stepped"]);
  });

  it("tells which input was refused", async () => {
    const { parts, told } = await noting();
    const engine = new Engine(await instantiate(parts.module), parts);
    engine.push(ISSUE);
    engine.push({ type: "UseTicket", service: 1, grant: new Uint8Array(1) });
    await turn();
    assert.deepEqual(told, ["Issued", "refused UseTicket 257"]);
  });

  it("starts anew after a trap, when the pause is over", async () => {
    const { timers, fire, delays } = manualTimers();
    const { parts, told } = await noting({ timers });
    const engine = new Engine(trapping(), parts);
    engine.push(ISSUE);
    await turn();
    assert.deepEqual(told.splice(0), ["lost Disconnected"]);
    assert.deepEqual(delays, [1000]);
    assert.equal(engine.failure?.name, "Disconnected");
    engine.push(ISSUE);
    fire();
    while (engine.failure !== undefined) await turn();
    engine.push(ISSUE);
    await turn();
    assert.deepEqual(told, ["Issued"]);
  });

  it("tells each instance what it is to know first", async () => {
    const { timers, fire } = manualTimers();
    const began: EngineParts["began"] = (engine) => engine.push(ISSUE);
    const { parts, told } = await noting({ timers, began });
    const engine = new Engine(trapping(), parts);
    await turn();
    fire();
    while (engine.failure !== undefined) await turn();
    await turn();
    assert.deepEqual(told, ["lost Disconnected", "Issued"]);
  });

  it("tries again if it cannot start anew, with longer pauses", async () => {
    const { timers, fire, delays } = manualTimers();
    let isErased = false;
    const config = (): Uint8Array => {
      if (isErased) throw new Error("the key was erased");
      return serverConfig();
    };
    const { parts, told } = await noting({ timers, config });
    const engine = new Engine(trapping(), parts);
    isErased = true;
    engine.push(ISSUE);
    await turn();
    fire();
    while (delays.length < 2) await turn();
    isErased = false;
    fire();
    while (engine.failure !== undefined) await turn();
    engine.push(ISSUE);
    await turn();
    assert.deepEqual(delays.slice(0, 2), [1000, 2000]);
    assert.deepEqual(told, ["lost Disconnected", "Issued"]);
  });

  it("stays down if it was closed in the pause", async () => {
    const { timers, fire } = manualTimers();
    const { parts, told } = await noting({ timers });
    const engine = new Engine(trapping(), parts);
    engine.push(ISSUE);
    await turn();
    engine.close();
    fire();
    await turn();
    assert.equal(engine.failure?.name, "Cancelled");
    assert.deepEqual(told, ["lost Disconnected", "lost Cancelled"]);
  });

  it("wipes the configuration that it was given", async () => {
    const config = encodeRpcClientConfig(1200);
    const { parts } = await noting({ config: () => config });
    new Engine(await instantiate(parts.module), parts).close();
    assert.ok(config.every((byte) => byte === 0));
  });
});

describe("what a trap leaves", () => {
  it("fails calls, those that are not idempotent with an unknown outcome", async (t) => {
    const instance = await instantiate(await rpcModule());
    const { step } = instance;
    let isTrapping = false;
    instance.step = (handle, batch) => {
      if (isTrapping) throw new WebAssembly.RuntimeError("unreachable");
      return step.call(instance, handle, batch);
    };
    const line = new Line(await rpcModule(), instance, {
      timers: manualTimers().timers,
      logger: new Logger(() => undefined),
      way: () => ({
        datagramBytes: 1200,
        endpointOf: () => new Uint8Array(18),
        textOf: () => "",
        send: () => undefined,
        busy: () => undefined,
        close: () => undefined,
      }),
      ticket: () => new Promise(() => undefined),
      kept: [],
    });
    t.after(() => line.close());
    const address = { way: "udp", place: { ip: "192.0.2.1", port: 1 } } as const;
    const rest = {
      address,
      service: SERVICE,
      payload: new Uint8Array(),
      timeout_ms: 1000,
      signal: undefined,
    };
    const outcomes = Promise.allSettled(
      [true, false].map((isIdempotent) => line.call({ ...rest, isIdempotent })),
    );
    await turn();
    isTrapping = true;
    line.useTicket(SERVICE, new Uint8Array());
    const names = (await outcomes).map((outcome) => outcome.status === "rejected" && outcome.reason.name);
    assert.deepEqual(names, ["Disconnected", "OutcomeUnknown"]);
    await assert.rejects(line.call({ ...rest, isIdempotent: true }), { name: "Disconnected" });
  });

  it("is not a ticket that somebody waits for", async () => {
    const { parts } = await noting();
    const replica = new RpcReplica(trapping(), {
      ...parts,
      service: SERVICE,
      handler: () => new Uint8Array(),
      port: { send: () => undefined },
    });
    await assert.rejects(replica.issue(new Uint8Array(32)), { name: "Disconnected" });
    await assert.rejects(replica.issue(new Uint8Array(32)), { name: "Disconnected" });
    assert.equal(replica.push(ISSUE), false);
  });
});
