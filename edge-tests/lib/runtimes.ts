import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { Miniflare } from "miniflare";
import { bundleWorker } from "selfsame-twiitr/build";
import { Child } from "selfsame-twiitr/child";
import { localWorker } from "selfsame-twiitr/local-worker";

import { DENO, ROOT } from "./run.ts";

/** How a program of a member is started. */
export interface MemberSettings {
  readonly network: string;
  /** The service that it provides. */
  readonly name: string;
  readonly port: number;
  readonly bootstrap: string;
}

/** Starts a program that is a member in a process of its own, in Deno if that is its name, and waits until it says where it is. */
export async function startMember(program: string, settings: MemberSettings, folder: string): Promise<Child> {
  const { name } = settings;
  const isDeno = name === "deno";
  const args = [join(ROOT, program), JSON.stringify(settings)];
  const member = Child.start({
    name,
    command: isDeno ? DENO : process.execPath,
    args: isDeno ? ["run", "--quiet", "--no-prompt", "--cached-only", "--allow-all", ...args] : args,
    cwd: ROOT,
    env: process.env as Record<string, string>,
    log: join(folder, `${name}.log`),
    isReady: ({ url }) => url !== undefined,
  });
  await member.ready;
  return member;
}

/** Starts a Worker whose class `Node` is a member, and gives where it is and what it says at `/status`. */
export async function startWorker(
  program: string,
  { network, port, bootstrap }: Omit<MemberSettings, "name">,
  folder: string,
): Promise<{ miniflare: Miniflare; url: string; status: { id: string } }> {
  const bundle = join(folder, "worker");
  await bundleWorker(join(ROOT, program), bundle);
  const wasm = readdirSync(bundle).filter((name) => name.endsWith(".wasm"));
  const url = `http://127.0.0.1:${port}`;
  const miniflare = new Miniflare(
    localWorker({
      modules: {
        "worker.js": readFileSync(join(bundle, "worker.js"), "utf8"),
        ...Object.fromEntries(wasm.map((name) => [name, new Uint8Array(readFileSync(join(bundle, name)))])),
      },
      port,
      bindings: { NETWORK: network, URL: url, BOOTSTRAP: bootstrap.replace("ws:", "http:") },
      durableObjects: { NODE: "Node" },
    }),
  );
  await miniflare.ready;
  const answer = await fetch(`${url}/status`);
  return { miniflare, url, status: (await answer.json()) as { id: string } };
}
