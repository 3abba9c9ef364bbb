import { WebSocket } from "ws";

/** Memory that V8 uses for a Worker, in bytes. */
export interface HeapUsage {
  /** Of objects, those that are garbage but not collected yet among them. */
  readonly usedSize: number;
  /** Of buffers outside the heap. */
  readonly backingStorageSize: number;
}

/** An inspector of a Worker. */
export interface Inspector {
  /** How much memory it uses now. */
  heap(): Promise<HeapUsage>;
  /** Collects what is garbage now. */
  collect(): Promise<void>;
  /** Looks no more. */
  close(): void;
}

/** Connects to the inspector of the only Worker of a local workerd. */
export async function inspect(port: number): Promise<Inspector> {
  const socket = new WebSocket(`ws://127.0.0.1:${port}/core:user:selfsame`);
  await new Promise((resolve, reject) => {
    socket.once("open", resolve);
    socket.once("error", reject);
  });
  const asked = new Map<number, PromiseWithResolvers<unknown>>();
  socket.on("message", (data) => {
    const { id, result } = JSON.parse(String(data)) as { id?: number; result: unknown };
    if (id === undefined) return;
    asked.get(id)?.resolve(result);
    asked.delete(id);
  });
  socket.once("close", (code) => {
    for (const { reject } of asked.values()) reject(new Error(`the inspector has closed with ${code}`));
  });
  let last = 0;
  const ask = (method: string): Promise<unknown> => {
    const answer = Promise.withResolvers<unknown>();
    asked.set(++last, answer);
    socket.send(JSON.stringify({ id: last, method }));
    return answer.promise;
  };
  return {
    heap: async () => (await ask("Runtime.getHeapUsage")) as HeapUsage,
    collect: async () => void (await ask("HeapProfiler.collectGarbage")),
    close: () => socket.close(),
  };
}
