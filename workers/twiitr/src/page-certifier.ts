import { timingSafeEqual } from "node:crypto";
import { once } from "node:events";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";

/** Two secrets of 64 digits in JSON, with room for spaces. */
const MAX_BODY_BYTES = 512;
const DIGITS = /^[0-9a-f]{64}$/;

/** Whom to certify, and how. */
export type PageAdmission = {
  /** Where the pages come from: other origins may not read an answer. */
  origin: string;
  /** The word of the link to the pages: loopback is open to every program and user of the machine, and to every web site. */
  invitation: string;
  /** Puts a certificate of a leaf into the zone. */
  certify: (key: string) => Promise<void>;
};

/** Certifies the keys of pages as leaves, at an address of this machine: `POST { "key", "invitation" }`. */
export class PageCertifier {
  readonly invitation: string;
  readonly #admission: PageAdmission;
  readonly #server: Server;

  private constructor(admission: PageAdmission) {
    this.invitation = admission.invitation;
    this.#admission = admission;
    this.#server = createServer((request, response) => {
      this.#serve(request, response).catch(() => response.destroy());
    });
  }

  /** Starts one. */
  static async start(admission: PageAdmission): Promise<PageCertifier> {
    const certifier = new PageCertifier(admission);
    certifier.#server.listen(0, "127.0.0.1");
    await once(certifier.#server, "listening");
    return certifier;
  }

  /** Where it answers. */
  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}/`;
  }

  /** Ends it. */
  close(): void {
    this.#server.closeAllConnections();
    this.#server.close();
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    response.setHeader("access-control-allow-origin", this.#admission.origin);
    const end = (status: number, text: string): void => {
      // What is left of a request that is too large is not read.
      response.writeHead(status, { "content-type": "text/plain", connection: "close" }).end(text);
    };
    const told = request.method === "POST" ? await bodyOf(request) : undefined;
    if (told === undefined) return end(400, "expected POST with { key, invitation } as JSON");
    if (!this.#isInvited(told.invitation))
      return end(403, "this network is closed: open the link that npm start prints, with its invitation");
    try {
      await this.#admission.certify(told.key);
    } catch {
      return end(503, "the authority signs no certificate: it may have signed as many as it signs in a day");
    }
    end(200, "certified");
  }

  #isInvited(invitation: string): boolean {
    return timingSafeEqual(Buffer.from(invitation), Buffer.from(this.#admission.invitation));
  }
}

/** What a page tells: 64 digits each; `undefined` if it tells something else. */
async function bodyOf(request: IncomingMessage): Promise<{ key: string; invitation: string } | undefined> {
  let text = "";
  for await (const piece of request.setEncoding("latin1")) {
    text += piece;
    if (text.length > MAX_BODY_BYTES) return undefined;
  }
  try {
    const { key, invitation = "0".repeat(64) } = JSON.parse(text) as Record<string, unknown>;
    const isText = typeof key === "string" && typeof invitation === "string";
    return isText && DIGITS.test(key) && DIGITS.test(invitation) ? { key, invitation } : undefined;
  } catch {
    return undefined;
  }
}
