// Replays the script in a request's body in workerd.
import module from "./module.wasm";

import { replay } from "./replay.ts";

export default {
  async fetch(request: Request): Promise<Response> {
    return new Response(await replay(module, new Uint8Array(await request.arrayBuffer())));
  },
};
