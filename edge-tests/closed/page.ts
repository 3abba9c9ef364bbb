// A leaf of a closed network in a page; whoever opened it calls `callTo` and `revoke`.
import { join, memory } from "selfsame";

import { answering, type Called, callFrom } from "./answer.ts";
import { type ClosedSettings, joinOptions } from "./settings.ts";

const settings = JSON.parse(new URLSearchParams(location.search).get("settings") ?? "") as ClosedSettings;
const { name, grant } = settings;
const mesh = await join({ ...joinOptions(settings), storage: memory() });
await mesh.serve(name, answering(name), { grant });

Object.assign(globalThis, {
  callTo: (service: string): Promise<Called> => callFrom(mesh, service),
  revoke: (list: string): Promise<void> => mesh.revoke(list),
});
document.title = "ready";
