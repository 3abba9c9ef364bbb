// Looks certificates up in Node or Deno, and prints what it finds as JSON: `program.ts ERRAND`.
import process from "node:process";
import { createResolver } from "selfsame/admission";

import { type Errand, runErrand } from "./errand.ts";

const errand = JSON.parse(process.argv[2] ?? "") as Errand;
console.log(JSON.stringify(await runErrand(createResolver, errand)));
