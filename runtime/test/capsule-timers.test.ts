import assert from "node:assert/strict";
import { describe, type TestContext, test } from "node:test";
import { Capsule } from "../src/capsule/client.ts";
import { CAPSULE_FILE_TYPE, replicaHandler } from "../src/capsule/http.ts";
import { nameOf } from "../src/capsule/name.ts";
import type { CapsuleMesh, CapsuleOptions } from "../src/capsule/options.ts";
import { replicate } from "../src/capsule/replicate.ts";
import { freshRequest } from "../src/capsule/request.ts";
import { serveCapsules } from "../src/capsule/serve.ts";
import type { Provider } from "../src/codec/reply.ts";
import type { Mesh } from "../src/driver/mesh.ts";
import type { ObservedNode } from "../src/driver/observe.ts";
import type { Service } from "../src/driver/service.ts";
import type { Timers } from "../src/driver/timers.ts";
import { memory } from "../src/stores/memory.ts";
import { serviceCollector } from "../src/telemetry/collector.ts";
import { Exporter } from "../src/telemetry/exporter.ts";
import type { Span } from "../src/telemetry/span.ts";
import { untraced } from "../src/telemetry/traced.ts";
import { Activity } from "../src/transports/protocol.ts";
import { ObjectTimers } from "../src/workerd/object-timers.ts";
import { bytes, capsules, module, Network, type Place } from "./capsule-support.ts";
import { countTimeouts, until } from "./support.ts";

const OWNER = "11".repeat(32);
const COUNT = 100;
const metadata = capsules.signMetadata({ seed: OWNER });

/** Timers of a Durable Object that is at work until the test ends. */
function busyObject(t: TestContext): Timers {
  const activity: Activity = new Activity(() => timers.rest());
  const timers = new ObjectTimers(activity);
  t.after(activity.begin());
  return timers;
}

/** Replicas that hold a capsule in one object, and a mesh that finds them there. */
async function started(t: TestContext, count: number): Promise<[Network, CapsuleMesh]> {
  const timers = busyObject(t);
  const network = new Network();
  t.after(() => network.close());
  for (let added = 0; added < count; added++) {
    const { replica } = await network.add(memory(), {}, timers);
    await replica.hold(metadata);
  }
  const { places } = network;
  const mesh: CapsuleMesh = {
    timers,
    find: async () => places.map(({ url }) => ({ peer: url }) as Provider),
    fetch: async (_, init) => network.fetch(String(init?.peer), { method: "POST", body: init?.body ?? null }),
  };
  return [network, mesh];
}

/** A client of the capsule's owner. */
async function open(t: TestContext, mesh: CapsuleMesh, more: Partial<CapsuleOptions> = {}): Promise<Capsule> {
  const options = { metadata, mesh: untraced(mesh), seed: OWNER, storage: memory(), ...more };
  const owner = await Capsule.open(options, module);
  t.after(() => owner.close());
  return owner;
}

describe("in a Durable Object no timeout is cleared", () => {
  test("by requests to a replica over HTTP and over the mesh", async (t) => {
    const [network] = await started(t, 1);
    const [{ replica }] = network.places as [Place];
    const [name = ""] = replica.capsules;
    const services: Service[] = [];
    const announce: Mesh["announce"] = async (announced) => {
      services.push(...announced);
      return { published: Promise.resolve() };
    };
    await serveCapsules({ announce } as Mesh, replica);
    const [service] = services as [Service];
    const counts = countTimeouts(t);
    for (let request = 0; request < COUNT; request++) {
      const post = new Request("https://replica/", { method: "POST", body: freshRequest(nameOf(name)) });
      const answer = request % 2 === 0 ? replicaHandler(replica)(post) : service.handler(post, {} as never);
      assert.equal((await answer).status, 200);
    }
    assert.equal(counts.cleared, 0);
  });

  test("by a client that appends to three replicas", async (t) => {
    const [network, mesh] = await started(t, 3);
    const owner = await open(t, mesh);
    const counts = countTimeouts(t);
    for (let record = 0; record < COUNT; record++) await owner.append([bytes(`record ${record}`)]);
    assert.ok(network.places.every(({ requests }) => requests >= COUNT / 2));
    assert.equal(counts.cleared, 0);
  });

  test("by a client and a replica that ask others at their URLs", async (t) => {
    const [network, mesh] = await started(t, 2);
    const [first, second] = network.places as [Place, Place];
    const { fetch } = network;
    const owner = await open(t, mesh, { servers: [first], fetch });
    const replicating = replicate(first.replica, { urls: [second.url], fetch });
    await replicating.joined;
    const counts = countTimeouts(t);
    for (let record = 0; record < COUNT; record++) await owner.append([bytes(`record ${record}`)]);
    await until("the records are pushed", () => second.requests > 1);
    assert.equal(counts.cleared, 0);
  });

  test("by telemetry that is sent", async (t) => {
    const timers = busyObject(t);
    const fetch: ObservedNode["fetch"] = async () => new Response();
    const collector = serviceCollector({ name: "observability" }, { fetch, timers } as ObservedNode);
    let sent = 0;
    const exporter = new Exporter({
      interval_ms: 60_000,
      timers,
      send: async (spans) => {
        const delivery = await collector("/v1/traces", "{}");
        sent += spans.length;
        return delivery;
      },
      lost: (count) => assert.fail(`${count} spans are lost`),
      waitUntil: () => undefined,
    });
    const counts = countTimeouts(t);
    for (let full = 512; full <= 5 * 512; full += 512) {
      for (let span = 0; span < 512; span++) exporter.add({} as Span);
      await until("the spans are sent", () => sent === full);
    }
    assert.equal(counts.cleared, 0);
    await exporter.close(0);
  });

  test("by a file that is read and stored in pieces", async (t) => {
    const [network, mesh] = await started(t, 1);
    const owner = await open(t, mesh);
    for (let record = 0; record < 20; record++) await owner.append([new Uint8Array(1_000_000)]);
    const [{ replica }] = network.places as [Place];
    const counts = countTimeouts(t);
    const file = await replicaHandler(replica)(new Request(`https://replica/${owner.name}`));
    let pieces = 0;
    const counted = file.body?.pipeThrough(
      new TransformStream({
        transform: (piece, controller) => {
          pieces++;
          controller.enqueue(piece);
        },
      }),
    );
    const headers = { "content-type": CAPSULE_FILE_TYPE };
    const init = { method: "POST", headers, body: counted, duplex: "half" } as RequestInit;
    assert.equal((await replicaHandler(replica)(new Request("https://replica/", init))).status, 200);
    assert.ok(pieces >= 10, `${pieces} pieces`);
    assert.equal(counts.cleared, 0);
  });
});
