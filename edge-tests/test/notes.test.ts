/**
 * The notes of `workers/apps` run on Workers, Deno and Node at once. Each of the three is killed, and what is asked at the
 * others is answered, read and written; started again, it has what it missed.
 */
import assert from "node:assert/strict";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import { memory } from "selfsame";
import { CapsuleModule, capsuleModule, openMap } from "selfsame/capsule";
import { fromHex } from "selfsame/codec";
import type { PlaceSettings } from "selfsame-apps/notes/place";
import { bundleWorker } from "selfsame-twiitr/build";
import { Child } from "selfsame-twiitr/child";
import { freePort } from "selfsame-twiitr/ports";

import { within } from "../lib/cluster.ts";
import { DENO, ROOT } from "../lib/run.ts";

const PLATFORMS = ["workerd", "deno", "node"] as const;
type Platform = (typeof PLATFORMS)[number];

/** How long a place may take until it has what it missed. */
const CAUGHT_UP_MS = 20_000;
const OWNER = "01".repeat(32);
const SERVER = join(ROOT, "workers/apps/notes/server.ts");
const DENO_ARGS = ["run", "--quiet", "--no-prompt", "--cached-only", "--allow-all"];

interface Place {
  readonly platform: Platform;
  readonly url: string;
  readonly port: number;
  readonly seeds: { readonly replica: string; readonly writer: string };
  readonly key: string;
  child: Child | undefined;
}

let folder: string;
let metadata: Uint8Array;
const places: Place[] = [];

before(async () => {
  folder = await mkdtemp(join(tmpdir(), "selfsame-notes-"));
  const capsules = await CapsuleModule.instantiate(await capsuleModule());
  const keyOf = (seed: string): string =>
    Buffer.from(capsules.deriveKey(fromHex(seed, 32, "seed"))).toString("hex");
  for (const [at, platform] of PLATFORMS.entries()) {
    const port = await freePort(8950 + 10 * at);
    const seeds = { replica: `${at}2`.repeat(32), writer: `${at}3`.repeat(32) };
    const url = `http://127.0.0.1:${port}`;
    places.push({ platform, url, port, seeds, key: keyOf(seeds.replica), child: undefined });
  }
  const writers = places.map(({ seeds }) => keyOf(seeds.writer));
  metadata = capsules.signMetadata({ seed: OWNER, description: "notes", writers });
  await bundleWorker(join(ROOT, "workers/apps/notes/worker.ts"), join(folder, "worker"));
  await Promise.all(places.map(start));
  const servers = serversOf(places);
  const owner = await openMap({ metadata, seed: OWNER, storage: memory(), servers });
  await owner.create();
  await owner.close();
});

after(async () => {
  await Promise.all(places.map(({ child }) => child?.stop()));
  if (folder) await rm(folder, { recursive: true, force: true });
});

function serversOf(places: readonly Place[]) {
  return places.map(({ key, url }) => ({ key, url: `${url}/capsule` }));
}

/** Starts a place with what it stored before. */
async function start(place: Place): Promise<void> {
  const { platform, port, seeds } = place;
  const others = places.filter((other) => other !== place);
  const settings: PlaceSettings = {
    platform,
    metadata: Buffer.from(metadata).toString("base64"),
    seeds,
    servers: serversOf([place, ...others]),
  };
  const data = join(folder, platform);
  const last = [`${port}`, data, JSON.stringify(settings)];
  const worker = [join(ROOT, "edge-tests/notes/workerd.ts"), join(folder, "worker"), data];
  const args = {
    workerd: [...worker, `${port}`, JSON.stringify(settings)],
    deno: [...DENO_ARGS, SERVER, ...last],
    node: [SERVER, ...last],
  }[platform];
  place.child = Child.start({
    name: `notes-${platform}`,
    command: platform === "deno" ? DENO : process.execPath,
    args,
    cwd: ROOT,
    env: process.env as Record<string, string>,
    log: join(folder, `${platform}.log`),
    isReady: ({ url }) => url === place.url,
  });
  await place.child.ready;
}

async function put(place: Place, name: string, note: string): Promise<void> {
  const { status } = await fetch(`${place.url}/notes/${name}`, { method: "PUT", body: note });
  assert.equal(status, 204, `${place.platform} stores ${name}`);
}

async function get(place: Place, name: string): Promise<string | number> {
  const response = await fetch(`${place.url}/notes/${name}`);
  const text = await response.text();
  assert.equal(response.headers.get("served-by"), place.platform);
  return response.ok ? text : response.status;
}

it("what one place stores the others read, list and tell the history of", async () => {
  for (const place of places) await put(place, place.platform, `from ${place.platform}`);
  for (const place of places) {
    for (const { platform } of places) assert.equal(await get(place, platform), `from ${platform}`);
    await put(place, "shared", place.platform);
    assert.equal(await get(place, "nothing"), 404);
  }
  const [first, second] = places as [Place, Place];
  const list = (await (await fetch(`${first.url}/notes?prefix=s`)).json()) as {
    name: string;
    text: string;
  }[];
  assert.deepEqual(
    list.map(({ name, text }) => [name, text]),
    [["shared", "node"]],
  );
  const was = (await (await fetch(`${second.url}/notes/shared/history`)).json()) as { text: string }[];
  assert.deepEqual(
    was.map(({ text }) => text),
    ["node", "deno", "workerd"],
  );
  await fetch(`${second.url}/notes/shared`, { method: "DELETE" });
  assert.equal(await get(first, "shared"), 404);
  const { status } = await fetch(`${first.url}/notes/long`, { method: "PUT", body: "x".repeat(70_000) });
  assert.equal(status, 413);
});

for (const lost of PLATFORMS) {
  describe(`${lost} is killed`, () => {
    const others = (): Place[] => places.filter(({ platform }) => platform !== lost);

    it("and reads and writes go on at the others", async () => {
      const place = places.find(({ platform }) => platform === lost);
      await place?.child?.kill();
      for (const [round, writer] of [...others(), ...others()].entries()) {
        await put(writer, `without-${lost}`, `${writer.platform} ${round}`);
        for (const reader of others()) {
          assert.equal(await get(reader, `without-${lost}`), `${writer.platform} ${round}`);
          assert.equal(await get(reader, lost), `from ${lost}`);
        }
      }
    });

    it("and started again, and has what it missed and writes as before", async () => {
      const place = places.find(({ platform }) => platform === lost) ?? assert.fail();
      await start(place);
      await within(CAUGHT_UP_MS, async () => {
        assert.equal(
          await get(place, `without-${lost}`),
          "node 3".replace("node", others()[1]?.platform ?? ""),
        );
      });
      await put(place, lost, `from ${lost}`);
      for (const other of others()) assert.equal(await get(other, lost), `from ${lost}`);
    });
  });
}
