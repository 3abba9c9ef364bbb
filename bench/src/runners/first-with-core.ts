// A Worker whose first answer comes from a node of the core.

import { start } from "../boundary/tasks.ts";
import core from "./core.wasm";

export default {
  fetch(): Response {
    const node = start(core);
    return new Response(`${node.outputsEnd - node.outputs}`);
  },
};
