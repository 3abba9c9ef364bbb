// A page that looks certificates up; whoever opened it calls `errandHere`.
import { createResolver } from "selfsame/admission";

import { type Errand, runErrand, type Told } from "./errand.ts";

Object.assign(globalThis, {
  errandHere: (errand: Errand): Promise<Told> => runErrand(createResolver, errand),
});
document.title = "ready";
