import { once } from "node:events";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { decode, encode, type Packet } from "@dnsquery/dns-packet";

const MESSAGE_TYPE = "application/dns-message";
const TTL_S = 30;
/** A query of one question has a name of at most 255 bytes. */
const MAX_QUERY_BYTES = 512;
/** More questions than any test asks; a server that runs for days keeps no more. */
const MAX_ASKED = 10_000;

/** The line of a zone file with the value of a TXT record: `name. 300 IN TXT "..." "..."`. */
const ZONE_LINE = /^(\S+)\.\s+(\d+)\s+IN\s+TXT\s+((?:"[^"]*"\s*)+)$/;

/** Answers one request in a way of its own. */
export type Misbehaviour = (response: ServerResponse, query: Packet) => void;

/** A resolver over HTTPS (RFC 8484) with a zone, on this machine without TLS. */
export class ZoneServer {
  /** What the resolver does in place of answering from the zone. */
  misbehaviour: Misbehaviour | undefined;
  /** Names that were asked for. */
  readonly asked: string[] = [];
  readonly #records: Map<string, string[][]> = new Map();
  readonly #server: Server;

  private constructor() {
    this.#server = createServer((request, response) => {
      this.#serve(request, response).catch(() => response.destroy());
    });
  }

  /** Starts one. */
  static async start(): Promise<ZoneServer> {
    const zone = new ZoneServer();
    zone.#server.listen(0, "127.0.0.1");
    await once(zone.#server, "listening");
    return zone;
  }

  /** Where it answers. */
  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}/dns-query`;
  }

  /** Gives a name these values in place of those that it has, each as the strings of a TXT record. */
  set(name: string, values: readonly (readonly string[])[]): void {
    this.#records.set(
      name.toLowerCase(),
      values.map((strings) => [...strings]),
    );
  }

  /** Takes a line of a zone file, in place of what its name has. */
  load(line: string): void {
    const [, name = "", , data = ""] = ZONE_LINE.exec(line.trim()) ?? [];
    const strings = [...data.matchAll(/"([^"]*)"/g)].map(([, string = ""]) => string);
    if (name === "" || strings.length === 0) throw new Error(`no line of a zone: ${line}`);
    this.set(name, [strings]);
  }

  /** Ends it. */
  close(): void {
    this.#server.closeAllConnections();
    this.#server.close();
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    response.setHeader("access-control-allow-origin", "*").setHeader("access-control-allow-headers", "*");
    if (request.method === "OPTIONS") {
      response.end();
      return;
    }
    const query = await queryIn(request).catch(() => undefined);
    if (query === undefined) {
      // What is left of it is not read.
      response.writeHead(400, { connection: "close" }).end();
      return;
    }
    if (this.asked.length < MAX_ASKED) this.asked.push(query.questions?.[0]?.name ?? "");
    if (this.misbehaviour !== undefined) this.misbehaviour(response, query);
    else response.setHeader("content-type", MESSAGE_TYPE).end(this.answerTo(query));
  }

  /** The message that answers a query from the zone. */
  answerTo(query: Packet): Uint8Array {
    const [question] = query.questions ?? [];
    const { name = "" } = question ?? {};
    const values = this.#records.get(name.toLowerCase());
    const head: Packet = { type: "response", id: query.id, questions: query.questions };
    if (values === undefined) return encode({ ...head, flags: flagsOf(NXDOMAIN) });
    const answers = values.map((data) => ({ type: "TXT" as const, name, ttl: TTL_S, data }));
    return encode({ ...head, flags: flagsOf(0), answers });
  }
}

/** The query that a request carries; rejects if it is none. */
async function queryIn(request: IncomingMessage): Promise<Packet> {
  const pieces: Buffer[] = [];
  let length = 0;
  for await (const piece of request) {
    length += piece.length;
    if (length > MAX_QUERY_BYTES) throw new Error("the query is too large");
    pieces.push(piece);
  }
  return decode(Buffer.concat(pieces));
}

/** Sends a message of DNS. */
export function sendMessage(response: ServerResponse, message: Packet): void {
  response.setHeader("content-type", MESSAGE_TYPE).end(encode(message));
}

/** The response code of a server that fails. */
export const SERVFAIL = 2;
const NXDOMAIN = 3;

/** The flags of a response: recursion is desired and available. */
export function flagsOf(code: number): number {
  return 0x0180 | code;
}
