import { join, memory } from "selfsame";

import type { MemberSettings } from "./runtimes.ts";

/** Joins as a member that peers reach over WebSocket and HTTP at a port of this machine. */
export function joinAt({ network, port, bootstrap }: Omit<MemberSettings, "name">): ReturnType<typeof join> {
  return join({
    network,
    bootstrap,
    address: [`ws://127.0.0.1:${port}/.mesh`, `http://127.0.0.1:${port}/.mesh`],
    storage: memory(),
    allowPrivate: true,
  });
}
