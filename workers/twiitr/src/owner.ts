import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";

import type { Deployment } from "./cluster.ts";
import { PLATFORMS, type Plan, SERVICES } from "./plan.ts";

const execute = promisify(execFile);

/** Grants are made anew with each start. */
const EXPIRES = "30d";

/** Makes the owner of the names, if there is none yet, and its grants for those who serve them. */
export async function makeDeployment(
  selfsame: string,
  plan: Plan,
  folder: string,
): Promise<Omit<Deployment, "audit">> {
  const key = join(folder, "owner.key");
  const of = ["--network", plan.network, "--key", key];
  const call = async (args: string[]): Promise<Record<string, string>> => {
    const { stdout } = await execute(selfsame, ["--json", ...args, ...of]);
    return JSON.parse(stdout) as Record<string, string>;
  };
  const { owner = "" } = await call(["owner", existsSync(key) ? "show" : "new"]);
  const grants: Deployment["grants"] = { workerd: {}, deno: {}, wasmtime: {} };
  const wanted = PLATFORMS.flatMap((platform) => {
    const names = Object.keys(SERVICES).filter((name) => SERVICES[name]?.includes(platform));
    return names.map((name) => ({ platform, name, to: plan.ids[platform] ?? "" }));
  });
  await Promise.all(
    wanted.map(async ({ platform, name, to }) => {
      const { grant = "" } = await call(["grant", "--name", name, "--to", to, "--expires", EXPIRES]);
      grants[platform][name] = grant;
    }),
  );
  return { owner, grants };
}
