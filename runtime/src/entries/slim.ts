import { Mesh } from "../driver/mesh.ts";
import type { JoinOptions } from "../driver/options.ts";
import type { Dialler } from "../driver/paths.ts";
import type { Platform } from "../driver/platform.ts";
import { timeoutTimer } from "../driver/timer.ts";
import { platformTimers } from "../driver/timers.ts";
import { ExchangeDialler } from "../transports/exchange-dial.ts";
import { SchemeDialler, WebSocketDialler } from "../transports/websocket.ts";
import { IDLE_MS, processContext } from "./common.ts";
import { joinAs } from "./join.ts";

export { indexedDb } from "../stores/indexed-db.ts";
export * from "./common.ts";

/** What `join` of `selfsame/slim` takes. */
export interface SlimJoinOptions extends JoinOptions {
  /** The compiled `selfsame/core.wasm`, or `selfsame/core-closed.wasm` for a closed network. */
  readonly module: WebAssembly.Module;
}

/** A node that accepts nothing, and dials by WebSocket and HTTPS as the platform does, or with `diallers`; `module` compiles the core. */
export function leafPlatform(
  module: Platform["module"],
  diallers: readonly Dialler[] = [new WebSocketDialler(), new ExchangeDialler()],
): Platform {
  return {
    module,
    dialler: new SchemeDialler(diallers),
    idle_ms: IDLE_MS,
    timer: timeoutTimer,
    timers: platformTimers,
    context: processContext,
  };
}

/** Starts a node from a module that the caller has compiled, and joins the ring. */
export function join(options: SlimJoinOptions): Promise<Mesh> {
  const { admission } = options ?? {};
  const core = (): Promise<WebAssembly.Module> => Promise.resolve(options.module);
  return joinAs(
    Mesh,
    admission === undefined ? options : { ...options, admission: { ...admission, core } },
    leafPlatform(() => options.module),
    ["module"],
  );
}
