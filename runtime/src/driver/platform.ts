import type { Dialler } from "./paths.ts";
import type { CallContext } from "./serve.ts";
import type { Timers, WakeTimer } from "./timers.ts";

/** What a platform gives a node. */
export interface Platform {
  /** The compiled core. */
  readonly module: () => WebAssembly.Module | Promise<WebAssembly.Module>;
  /** Opens paths. */
  readonly dialler: Dialler;
  /** How long a node may sleep unless configured otherwise. */
  readonly idle_ms: number;
  /** Wakes the driver. */
  readonly timer: (wake: () => void) => WakeTimer;
  /** Timers of what is not the core's. */
  readonly timers: Timers;
  /** What handlers are told of the platform. */
  readonly context: Pick<CallContext, "env" | "waitUntil">;
}
