import { ENDPOINT_BYTES } from "../codec/rpc.ts";

/** URLs that have an endpoint at a time. */
const MAX_URLS = 4096;
/** Where the number of the way stands in an endpoint, and that of the URL. */
const WAY_AT = 9;
const NUMBER_AT = 12;

/** The endpoints that stand for URLs: of the prefix 100::/64, whose packets everybody discards (RFC 6666), they are nobody's address. */
export class UrlEndpoints {
  readonly #way: number;
  readonly #endpoints: Map<string, Uint8Array> = new Map();
  readonly #urls: Map<string, string> = new Map();
  #last = 0;

  /** Those of one way, which has a number of its own. */
  constructor(way: number) {
    this.#way = way;
  }

  /** Returns the endpoint of a URL. */
  endpointOf(url: string): Uint8Array {
    const known = this.#endpoints.get(url);
    if (known !== undefined) return known;
    const [oldest] = this.#endpoints.keys();
    if (this.#endpoints.size >= MAX_URLS && oldest !== undefined) this.#forget(oldest);
    const endpoint = new Uint8Array(ENDPOINT_BYTES);
    endpoint[0] = 1;
    endpoint[WAY_AT] = this.#way;
    new DataView(endpoint.buffer).setUint32(NUMBER_AT, ++this.#last);
    this.#endpoints.set(url, endpoint);
    this.#urls.set(endpoint.join(), url);
    return endpoint;
  }

  /** Returns the URL of an endpoint; empty if there is none. */
  urlOf(endpoint: Uint8Array): string {
    return this.#urls.get(endpoint.join()) ?? "";
  }

  #forget(url: string): void {
    const endpoint = this.#endpoints.get(url);
    this.#endpoints.delete(url);
    if (endpoint !== undefined) this.#urls.delete(endpoint.join());
  }
}
