/**
 * Replicas in Node and in wasmtime whose disk is full say so, lose nothing that they have acknowledged, and go on once there is room.
 * The disk is a file system in memory that only the replica mounts, so this wants Linux with user namespaces.
 */
import assert from "node:assert/strict";
import { type ChildProcess, execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, open, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import type { Readable } from "node:stream";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { memory } from "selfsame";
import { CapsuleModule, capsuleModule, openCapsule } from "selfsame/capsule";

import { selfsame } from "../lib/sidecar.ts";

const OWNER = "11".repeat(32);
/** Mounts a disk at a folder, and becomes the program that follows. */
const ON_SMALL_DISK = 'mount -t tmpfs -o size=4m none "$0" && exec "$@"';
const RECORD_BYTES = 30_000;
/** More records than the disk holds. */
const RECORDS = 200;
/** How long a writer waits for a replica that does not store. */
const DEADLINE_MS = 3_000;

interface Host {
  readonly name: string;
  /** Starts it over what is in a folder; its first line says where it answers, and its key. */
  readonly command: (folder: string) => string[];
  /** What it says when the disk is full. */
  readonly complaint: RegExp;
}

const node: Host = {
  name: "Node",
  command: (folder) => [
    process.execPath,
    fileURLToPath(new URL("../crash/replica.ts", import.meta.url)),
    join(folder, "capsules.db"),
  ],
  complaint: /capsules\.db: database or disk is full/,
};

const wasmtime: Host = {
  name: "wasmtime",
  command: (folder) => [
    ...[selfsame(), "--json", "capsule", "serve"],
    ...["--listen", "127.0.0.1:0", "--data", join(folder, "data")],
  ],
  complaint: /cannot be used: No space left on device/,
};

interface Running {
  readonly child: ChildProcess;
  readonly url: string;
  readonly key: string;
  /** What it has said so far. */
  said(): string;
}

async function start(host: Host, disk: string): Promise<Running> {
  const namespace = ["--user", "--map-root-user", "--mount", "sh", "-c", ON_SMALL_DISK, disk];
  const child = spawn("unshare", [...namespace, ...host.command(disk)], {
    stdio: ["ignore", "pipe", "pipe"],
  });
  let said = "";
  child.stderr?.on("data", (piece: Buffer) => {
    said += piece.toString();
  });
  const lines = createInterface({ input: child.stdout as Readable });
  const ended = once(child, "exit").then(() => Promise.reject(new Error(said)));
  const [line] = (await Promise.race([once(lines, "line"), ended])) as [string];
  ended.catch(() => undefined);
  const { url, key } = JSON.parse(line) as { url: string; key: string };
  return { child, url, key, said: () => said };
}

/** Takes all the room that is left on a disk, as another program does. */
async function fill(file: string): Promise<void> {
  const filler = await open(file, "w");
  const piece = Buffer.alloc(4096);
  try {
    for (;;) await filler.write(piece);
  } catch (error) {
    assert.equal((error as NodeJS.ErrnoException).code, "ENOSPC");
  } finally {
    await filler.close();
  }
}

for (const host of [node, wasmtime]) {
  test(`${host.name} says that the disk is full, and goes on once there is room`, async () => {
    const folder = await mkdtemp(join(tmpdir(), "selfsame-full-"));
    const replica = await start(host, folder);
    // The disk, as the replica sees it.
    const filler = join(`/proc/${replica.child.pid}/root`, folder, "filler");
    const module = await CapsuleModule.instantiate(await capsuleModule());
    const metadata = module.signMetadata({ seed: OWNER });
    const writer = await openCapsule({
      ...{ metadata, seed: OWNER, servers: [replica], storage: memory() },
      timing: { deadline_ms: DEADLINE_MS },
    });
    const acknowledged: { name: string; number: number }[] = [];
    const write = async (number: number): Promise<void> => {
      const [name = ""] = await writer.append([Buffer.alloc(RECORD_BYTES, number)]);
      acknowledged.push({ name, number });
    };
    try {
      await writer.create();
      await write(0);
      await fill(filler);
      let number = 1;
      await assert.rejects(async () => {
        for (; number < RECORDS; number++) await write(number);
      });
      assert.match(replica.said(), host.complaint);
      await assertTold(replica, writer.name, folder);
      const reader = await openCapsule({ name: writer.name, servers: [replica], storage: memory() });
      const { heads } = await reader.heads();
      await reader.close();
      assert.deepEqual(
        heads.map(({ name }) => name),
        [acknowledged.at(-1)?.name],
        "what it could not store is not there",
      );
      assert.equal(replica.child.exitCode, null, "it still runs");
      await rm(filler);
      await write(RECORDS);
      for (const { name, number } of acknowledged) {
        assert.ok(Buffer.alloc(RECORD_BYTES, number).equals((await writer.read(name)).content));
      }
    } finally {
      await writer.close();
      replica.child.kill("SIGKILL");
      await rm(folder, { recursive: true });
    }
  });
}

/** Somebody who writes by the command line learns which server does not store, and why. */
async function assertTold({ url, key }: Running, capsule: string, folder: string): Promise<void> {
  const secret = join(folder, "owner.key");
  await writeFile(secret, `${OWNER}\n`, { mode: 0o600 });
  const body = join(folder, "body");
  await writeFile(body, Buffer.alloc(RECORD_BYTES, 7));
  const command = [
    "capsule",
    "append",
    capsule,
    body,
    "--server",
    `${url}#${key}`,
    "--key",
    secret,
    "--data",
    join(folder, "client"),
  ];
  const told = promisify(execFile)(selfsame(), [...command, "--timeout", `${DEADLINE_MS}ms`]);
  await assert.rejects(told, (error: { code: number; stderr: string }) => {
    assert.equal(error.code, 3);
    assert.ok(error.stderr.includes(`${url}: the store failed`), error.stderr);
    return true;
  });
}
