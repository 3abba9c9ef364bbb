import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import os from "node:os";
import process from "node:process";

import { cpuTime } from "./cpu.ts";

/** The last core that this process may run on: the first ones take most of a system's interrupts. */
function lastCore(): string | undefined {
  try {
    const allowed = /^Cpus_allowed_list:\s*(\S+)/m.exec(readFileSync("/proc/self/status", "utf8"))?.[1];
    return allowed?.split(/[,-]/).at(-1);
  } catch {
    return undefined;
  }
}

/** Pins this process and whatever it starts from now on to one core; says which, or `undefined` if it cannot. */
export function pinToOneCore(): string | undefined {
  const core = lastCore();
  if (core === undefined) return undefined;
  const done = spawnSync("taskset", ["-a", "-c", "-p", core, `${process.pid}`], { stdio: "ignore" });
  return done.status === 0 ? core : undefined;
}

/** How many files and sockets a process may have open: what `ulimit -n` says. */
export function openFiles(): number {
  const { userLimits } = process.report.getReport() as {
    userLimits?: { open_files?: { soft: number | "unlimited" } };
  };
  const limit = userLimits?.open_files?.soft;
  return typeof limit === "number" ? limit : Number.POSITIVE_INFINITY;
}

/** What a reader must know of the machine to judge the figures. */
export function describeMachine(pinned: string | undefined): Record<string, string | number> {
  return {
    processor: os.cpus()[0]?.model ?? "unknown",
    cores: os.cpus().length,
    system: `${os.platform()} ${os.release()}`,
    node: process.version,
    "pinned to core": pinned ?? "none",
    clock: cpuTime(process.pid) === undefined ? "elapsed time" : "processor time",
  };
}
