import * as http from "node:http";
import * as https from "node:https";
import { isIPv6, type LookupFunction } from "node:net";
import { Readable } from "node:stream";
import type { Fetch } from "./exchange-dial.ts";
import { fieldsOf } from "./node-request.ts";
import { type DialOptions, Permission, placeOfUrl } from "./place.ts";

/** Idle connections wait so long for the next POST of their path, which follows at once: names, and so servers, are free. */
const IDLE_MS = 5_000;
const KEPT: http.AgentOptions = { keepAlive: true, timeout: IDLE_MS };

/** Sends requests to IP addresses that were checked, and to no other. It follows no redirect. */
export class Requester {
  // The process's others know nothing of what may be dialled.
  readonly #http: http.Agent = new http.Agent(KEPT);
  readonly #https: https.Agent = new https.Agent(KEPT);

  /** Returns what sends requests to these addresses, whatever host their URLs name. */
  fetchAt(ips: readonly string[]): Fetch {
    const lookup = lookupOf(ips);
    return (text, { method = "POST", headers, body, signal }) => {
      const url = new URL(text);
      const isTls = url.protocol === "https:";
      const options = {
        method,
        headers: headers as http.OutgoingHttpHeaders,
        lookup,
        agent: isTls ? this.#https : this.#http,
        ...(signal ? { signal } : {}),
      };
      return answerOf((isTls ? https : http).request(url, options), body as Uint8Array);
    };
  }
}

/** Returns what sends requests over HTTP to where it may. */
export function checkedFetch(options: DialOptions): Fetch {
  const permission = new Permission(["https", "http"], options);
  const requester = new Requester();
  return async (url, init) =>
    requester.fetchAt(await permission.resolve(placeOfUrl(new URL(url))))(url, init);
}

function answerOf(request: http.ClientRequest, body: Uint8Array): Promise<Response> {
  return new Promise((resolve, reject) => {
    request.once("response", (answer) => {
      // Whoever reads the body hears of it as well.
      answer.on("error", () => undefined);
      try {
        resolve(responseOf(answer));
      } catch (error) {
        // A status that is none.
        request.destroy();
        reject(error);
      }
    });
    request.on("error", reject);
    request.once("close", () => reject(new Error("the connection was closed before the answer")));
    request.end(body);
  });
}

function responseOf(answer: http.IncomingMessage): Response {
  const { statusCode: status = 0 } = answer;
  const headers = fieldsOf(answer);
  if (status !== 204) return new Response(Readable.toWeb(answer) as ReadableStream, { status, headers });
  answer.resume();
  return new Response(null, { status, headers });
}

/** Gives the IP addresses that were found and checked, in place of what the name may lead to by now. */
export function lookupOf(ips: readonly string[]): LookupFunction {
  const found = ips.map((address) => ({ address, family: isIPv6(address) ? 6 : 4 }));
  return (_, options, give) => {
    if (options.all === true) give(null, found);
    else give(null, found[0]?.address ?? "", found[0]?.family);
  };
}
