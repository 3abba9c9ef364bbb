/** What a replica of the test answers, and how it calls others, in whatever runtime it is. */
import { createRpcClient, createRpcServer, type RpcServer } from "selfsame/rpc";

export const NETWORK = "isolates";
export const SERVICE = "echo";
/** The caller that tickets are issued to. */
export const CALLER: string = "ab".repeat(32);

/** What a call is answered with. */
export interface Told {
  /** Which replica. */
  readonly name: string;
  /** Requests over HTTP that it has had: POSTs, and those for a WebSocket. */
  readonly posts: number;
  /** Calls that it has carried out. */
  readonly calls: number;
  /** The request. */
  readonly text: string;
}

/** A call that a replica is asked to make. */
export interface Errand {
  /** The replica to call. */
  readonly server: string;
  /** A ticket, in base64. */
  readonly ticket: string;
  /** The request. */
  readonly text: string;
}

/** The bytes that hexadecimal digits stand for. */
export function bytesOf(digits: string): Uint8Array<ArrayBuffer> {
  return Uint8Array.from(digits.match(/../g) ?? [], (two) => Number.parseInt(two, 16));
}

/** A replica that counts. */
export class Replica {
  readonly server: RpcServer;
  #posts = 0;
  #calls = 0;

  constructor(name: string, key: string, stateless: boolean) {
    const ticketKey = bytesOf(key);
    const handler = async ({ payload }: { payload: Uint8Array }): Promise<Uint8Array> => {
      this.#calls++;
      const text = new TextDecoder().decode(payload);
      // An answer that is not there at once: other requests are in between.
      if (text === "slow") await new Promise((resolve) => setTimeout(resolve, 20));
      if (text === "never") await new Promise(() => undefined);
      const told: Told = { name, posts: this.#posts, calls: this.#calls, text };
      return new TextEncoder().encode(JSON.stringify(told));
    };
    const options = { network: NETWORK, service: SERVICE, ticketKey, routerKey: ticketKey, handler };
    this.server = createRpcServer({ ...options, idempotent: stateless, stateless });
  }

  /** Answers calls at `/rpc`, and makes one at `/errand`. */
  async fetch(request: Request): Promise<Response> {
    if (new URL(request.url).pathname === "/errand")
      return Response.json(await run((await request.json()) as Errand));
    this.#posts++;
    return this.server.fetch(request);
  }
}

/** Makes a call that was asked for. */
export async function run({ server, ticket, text }: Errand): Promise<Told> {
  const bytes = Uint8Array.from(atob(ticket), (character) => character.charCodeAt(0));
  const mesh = { allowPrivate: true, fetch: async () => new Response(bytes) };
  const client = createRpcClient({ mesh });
  try {
    const { payload } = await client.call(SERVICE, new TextEncoder().encode(text), {
      idempotent: true,
      server,
    });
    return JSON.parse(new TextDecoder().decode(payload)) as Told;
  } finally {
    client.close();
  }
}
