/** What the providers answer, on every runtime. Ids of POSTs are counted elsewhere, so that duplicates show across providers. */
import type { Gauges } from "./settings.ts";

/** Bytes of a large answer. */
export const LARGE_BYTES: number = 1024 * 1024;
/** Field of a POST that names it. */
export const ID_FIELD = "soak-id";
/** Between two events of a stream. */
const EVENT_MS = 200;
/** How long a slow answer takes. */
const SLOW_MS = 2_000;

const large: Uint8Array<ArrayBuffer> = new Uint8Array(LARGE_BYTES).fill(120);

/** Streams and sockets that this process has open. */
export const gauges: Gauges = { events: 0, sockets: 0 };

/** Answers a request; `count` resolves when the id of a POST is counted. */
export async function answer(request: Request, count: (id: string) => Promise<void>): Promise<Response> {
  switch (new URL(request.url).pathname) {
    case "/small":
      return new Response("small");
    case "/large":
      return new Response(large);
    case "/post":
      await count(request.headers.get(ID_FIELD) ?? "");
      return new Response(await request.text());
    case "/stream":
      return new Response(`${await lengthOf(request)}`);
    case "/events":
      return new Response(events(), { headers: { "content-type": "text/event-stream" } });
    case "/slow":
      await new Promise((resolve) => setTimeout(resolve, SLOW_MS));
      return new Response("slow");
    default:
      return new Response("there is no such path", { status: 404 });
  }
}

async function lengthOf(request: Request): Promise<number> {
  let length = 0;
  if (request.body === null) return length;
  for await (const chunk of request.body) length += chunk.length;
  return length;
}

/** Events without an end, until the reader leaves. */
function events(): ReadableStream<Uint8Array<ArrayBuffer>> {
  let count = 0;
  gauges.events++;
  return new ReadableStream<Uint8Array<ArrayBuffer>>(
    {
      async pull(controller) {
        if (count > 0) await new Promise((resolve) => setTimeout(resolve, EVENT_MS));
        controller.enqueue(Uint8Array.from(new TextEncoder().encode(`data: ${count++}\n\n`)));
      },
      cancel() {
        gauges.events--;
      },
    },
    { highWaterMark: 0 },
  );
}

/** A socket of any platform, as far as it is answered on. */
export interface AnsweringSocket {
  send(data: string): void;
  addEventListener(type: "message", listener: (event: { readonly data: unknown }) => void): void;
  addEventListener(type: "close", listener: () => void): void;
}

/** Sends back each text that arrives. */
export function echo(socket: AnsweringSocket): void {
  gauges.sockets++;
  socket.addEventListener("message", ({ data }) => socket.send(String(data)));
  socket.addEventListener("close", () => {
    gauges.sockets--;
  });
}

/** Counts the id of a POST at the ledger; one that could not be counted must not be answered. */
export async function countAt(ledger: string, id: string): Promise<void> {
  const response = await fetch(`${ledger}/${id}`, { method: "POST" });
  await response.arrayBuffer();
  if (!response.ok) throw new Error(`the ledger answers ${response.status}`);
}
