import { MeshError } from "../codec/code.ts";
import { collect } from "../driver/collect.ts";
import { within } from "../driver/deadline.ts";
import type { Logger } from "../driver/log.ts";
import type { Timers } from "../driver/timers.ts";
import { detach, reasonOf } from "../guard.ts";
import type { Fetch } from "../transports/exchange-dial.ts";
import type { RpcAddress } from "./address.ts";
import { type RequestHead, requestHeadOf } from "./datagram.ts";
import { HTTP_DATAGRAM, MAX_BODY } from "./limits.ts";
import { Pauses } from "./pauses.ts";
import { UrlEndpoints } from "./url-endpoints.ts";
import type { Way, WayHost } from "./way.ts";

/** What bodies are to HTTP. */
export const DATAGRAM_TYPE = "application/octet-stream";

/** The number of this way in endpoints that stand for URLs. */
const WAY = 0;
/** POSTs at a time: each holds its datagram. */
const MAX_POSTS = 4096;
/** Time for a POST that no call waits for, such as one that cancels. */
const LAST_POST_MS = 5_000;
/** Longest pause that a server may ask for. */
const MAX_PAUSE_MS = 60_000;
const DEFAULT_PAUSE_MS = 1_000;

interface Post {
  readonly call: string;
  readonly isControl: boolean;
  readonly abort: AbortController;
}

/** The parts of a way over HTTP. */
export interface HttpWayParts {
  readonly host: WayHost;
  readonly fetch: Fetch;
  readonly timers: Timers;
  readonly logger: Logger;
}

/** Carries the datagrams of a client as bodies of POSTs, and of their responses. */
export class HttpWay implements Way {
  readonly datagramBytes: number = HTTP_DATAGRAM;
  readonly #parts: HttpWayParts;
  readonly #endpoints: UrlEndpoints = new UrlEndpoints(WAY);
  /** POSTs under way, by the tags of their datagrams. */
  readonly #posts: Map<string, Post> = new Map();
  /** URLs whose servers have asked for a pause. */
  readonly #pauses: Pauses = new Pauses();
  #until_ms: number | undefined;
  #isClosed = false;

  constructor(parts: HttpWayParts) {
    this.#parts = parts;
  }

  endpointOf(address: RpcAddress): Uint8Array {
    return this.#endpoints.endpointOf(address.way === "http" ? address.url : "");
  }

  textOf(endpoint: Uint8Array): string {
    return this.#endpoints.urlOf(endpoint);
  }

  send(target: Uint8Array, datagram: Uint8Array): void {
    const url = this.textOf(target);
    const head = requestHeadOf(datagram);
    if (url === "" || head === undefined || this.#isClosed || this.#pauses.includes(url)) return;
    // The server holds the response until it has the answer: what comes again asks for nothing more.
    if (this.#posts.has(head.tag) || this.#posts.size >= MAX_POSTS) return;
    if (head.isControl) this.#withdraw(head);
    detach("a POST", this.#post(target.slice(), url, head, datagram.slice()));
  }

  busy(until_ms: number | undefined): void {
    this.#until_ms = until_ms;
    if (until_ms !== undefined) return;
    // Whoever made them has given up or has the answer.
    for (const { abort, isControl } of this.#posts.values()) if (!isControl) abort.abort();
  }

  close(): void {
    this.busy(undefined);
    this.#isClosed = true;
  }

  /** A control packet about a request that is under way cancels it; a probe has no other request. */
  #withdraw({ call }: RequestHead): void {
    for (const post of this.#posts.values()) if (post.call === call && !post.isControl) post.abort.abort();
  }

  async #post(
    target: Uint8Array,
    url: string,
    { call, tag, isControl }: RequestHead,
    body: Uint8Array,
  ): Promise<void> {
    const abort = new AbortController();
    this.#posts.set(tag, { call, isControl, abort });
    const timeout_ms = isControl
      ? LAST_POST_MS
      : Math.max((this.#until_ms ?? 0) - performance.now(), LAST_POST_MS);
    const late = (): MeshError => new MeshError("TimedOut");
    try {
      const { timers, host } = this.#parts;
      const answer = await within({ timeout_ms, late, signal: abort.signal, timers }, (signal) =>
        this.#exchange(url, body, signal),
      );
      if (answer !== undefined) host.received(target, answer);
    } catch (error) {
      this.#failed(url, error);
    } finally {
      this.#posts.delete(tag);
    }
  }

  async #exchange(url: string, body: Uint8Array, signal: AbortSignal): Promise<Uint8Array | undefined> {
    const headers = { "content-type": DATAGRAM_TYPE };
    const init = {
      method: "POST",
      headers,
      body: body as Uint8Array<ArrayBuffer>,
      signal,
      redirect: "manual",
    } as const;
    const response = await this.#parts.fetch(url, init);
    if (response.status === 200) {
      const tooLong = (): MeshError =>
        new MeshError("TooLarge", `a response of ${url} has more than ${MAX_BODY} bytes`);
      return collect(response.body, { most: MAX_BODY, tooLong, signal });
    }
    await response.body?.cancel();
    if (response.status === 429 || response.status === 503)
      this.#pause(url, response.headers.get("retry-after"));
    else if (response.status !== 204) {
      this.#parts.logger.log(
        "warn",
        `${url} answers a call with status ${response.status}: does it serve RPC?`,
      );
    }
    return undefined;
  }

  #pause(url: string, retryAfter: string | null): void {
    const asked_ms = /^\d{1,4}$/.test(retryAfter ?? "") ? Number(retryAfter) * 1000 : DEFAULT_PAUSE_MS;
    this.#pauses.begin(url, Math.min(asked_ms, MAX_PAUSE_MS));
  }

  /** A POST that fails is a datagram that is lost, unless it may not be sent at all. */
  #failed(url: string, error: unknown): void {
    if (error instanceof MeshError && error.name === "ForbiddenAddress")
      this.#parts.host.forbidden(url, error);
    else this.#parts.logger.log("debug", `a POST to ${url} failed: ${reasonOf(error)}`);
  }
}
