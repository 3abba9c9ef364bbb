// A page that makes calls; whoever opened it calls `errandHere`.
import { run } from "./echo.ts";

Object.assign(globalThis, { errandHere: run });
document.title = "ready";
