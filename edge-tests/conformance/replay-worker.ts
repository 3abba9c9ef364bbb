// Replays the script in a request's body in workerd.
import core from "./core.wasm";

import { replay } from "./replay.ts";

export default {
  async fetch(request: Request): Promise<Response> {
    return new Response(await replay(core, new Uint8Array(await request.arrayBuffer())));
  },
};
