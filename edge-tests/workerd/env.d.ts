import type { Env as Bindings } from "./worker.ts";

declare global {
  namespace Cloudflare {
    interface Env extends Bindings {}
  }
}
