import { createRequire } from "node:module";
import process from "node:process";
import type * as ws from "ws";

/** What `ws` looks for in the environment: whether it should do without faster modules, which nobody needs to have. */
const ENVIRONMENT = { WS_NO_BUFFER_UTIL: "1", WS_NO_UTF_8_VALIDATE: "1" };

/** The sockets of the package `ws`. */
export const WebSocket: typeof ws.WebSocket = load();

/** Loads `ws`, which reads variables as it loads: Deno would want the permission `env` for that, which no node needs. */
function load(): typeof ws.WebSocket {
  const given = process.env;
  process.env = ENVIRONMENT;
  try {
    return createRequire(import.meta.url)("ws") as typeof ws.WebSocket;
  } finally {
    process.env = given;
  }
}
