// Replays a script in Deno: `replay-deno.ts WASM SCRIPT TRANSCRIPT`; prints the sha256 of the module that ran.
import { replay } from "./replay.ts";
import { sha256 } from "./text.ts";

const [wasm = "", script = "", transcript = ""] = Deno.args;
const bytes = await Deno.readFile(wasm);
const answers = await replay(await WebAssembly.compile(bytes), await Deno.readFile(script));
await Deno.writeFile(transcript, answers);
console.log(await sha256(bytes));
