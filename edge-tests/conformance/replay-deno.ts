// Replays a script in Deno: `replay-deno.ts CORE SCRIPT TRANSCRIPT`; prints the sha256 of the core that ran.
import { replay } from "./replay.ts";
import { sha256 } from "./text.ts";

const [core = "", script = "", transcript = ""] = Deno.args;
const bytes = await Deno.readFile(core);
const answers = await replay(await WebAssembly.compile(bytes), await Deno.readFile(script));
await Deno.writeFile(transcript, answers);
console.log(await sha256(bytes));
