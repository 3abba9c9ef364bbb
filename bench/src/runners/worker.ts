// The core in workerd: `GET /?task=NAME&count=N` answers when the task is done.

import { boundaryTask, type Task } from "../boundary/tasks.ts";
import core from "./core.wasm";

const tasks = new Map<string, Task>();

export default {
  async fetch(request: Request): Promise<Response> {
    const { searchParams } = new URL(request.url);
    const name = searchParams.get("task") ?? "";
    const task = tasks.get(name) ?? boundaryTask(name, core);
    if (task === undefined) return new Response(`no task ${name}`, { status: 404 });
    tasks.set(name, task);
    await task(Number(searchParams.get("count")));
    return new Response("ok");
  },
};
