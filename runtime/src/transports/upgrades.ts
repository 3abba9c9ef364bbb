import { type IncomingMessage, type Server, STATUS_CODES } from "node:http";
import type { Duplex } from "node:stream";
import { MeshError } from "../codec/code.ts";
import { guarded } from "../guard.ts";
import { asksForWebSocket } from "../websocket/handshake.ts";
import { pathOf } from "./node-request.ts";

/** Accepts or refuses an upgrade. `head` is what has arrived after the request's head. */
export type AcceptUpgrade = (request: IncomingMessage, socket: Duplex, head: Buffer) => unknown;

/** A server as Node from 22.21 on has it. */
type UpgradingServer = Server & { shouldUpgradeCallback?: (request: IncomingMessage) => boolean };

const byServer: WeakMap<Server, Upgrades> = /* @__PURE__ */ new WeakMap();

/** Accepts upgrades to WebSocket at a path of a server; others are left to other listeners. Returns what ends it. */
export function acceptUpgrades(server: Server, path: string, accept: AcceptUpgrade): () => void {
  const known = byServer.get(server);
  const upgrades = known ?? new Upgrades(server);
  if (known === undefined) byServer.set(server, upgrades);
  upgrades.add(path, accept);
  return () => {
    if (upgrades.remove(path, accept)) byServer.delete(server);
  };
}

/** Refuses an upgrade with a status. */
export function refuseUpgrade(socket: Duplex, status: number, fields: string = "", text: string = ""): void {
  socket.on("error", () => socket.destroy());
  const head = `HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\nconnection: close\r\n`;
  socket.end(`${head}${fields}content-length: ${Buffer.byteLength(text)}\r\n\r\n${text}`);
}

/** What accepts the upgrades of one server, by path. */
class Upgrades {
  readonly #server: UpgradingServer;
  readonly #paths: Map<string, AcceptUpgrade> = new Map();
  readonly #others: UpgradingServer["shouldUpgradeCallback"];
  readonly #shouldUpgrade: (request: IncomingMessage) => boolean;
  readonly #listener: (request: IncomingMessage, socket: Duplex, head: Buffer) => void;

  constructor(server: UpgradingServer) {
    this.#server = server;
    // Node leaves out what stands behind a thousand headers, where a proxy appends its own. The size of a head stays bounded.
    server.maxHeadersCount = 0;
    this.#listener = guarded("an upgrade", (...given: Parameters<AcceptUpgrade>) => this.#upgrade(...given));
    server.on("upgrade", this.#listener);
    // Without this every request that offers another protocol would be an upgrade, as those of HTTP/2 over cleartext (RFC 7540, 3.2)
    // with which some clients begin: whoever does not speak it answers as if it were not offered (RFC 9110, 7.8). Node before 22.21
    // knows nothing of it.
    this.#others = server.shouldUpgradeCallback;
    this.#shouldUpgrade = (request) => this.#isUpgrade(request);
    server.shouldUpgradeCallback = this.#shouldUpgrade;
  }

  add(path: string, accept: AcceptUpgrade): void {
    if (this.#paths.has(path)) {
      throw new MeshError("BadConfig", `something else accepts WebSockets at ${path} of this server`);
    }
    this.#paths.set(path, accept);
  }

  /** Accepts no more at a path; whether it was the last. */
  remove(path: string, accept: AcceptUpgrade): boolean {
    if (this.#paths.get(path) === accept) this.#paths.delete(path);
    if (this.#paths.size > 0) return false;
    const server = this.#server;
    server.off("upgrade", this.#listener);
    if (this.#others !== undefined && server.shouldUpgradeCallback === this.#shouldUpgrade)
      server.shouldUpgradeCallback = this.#others;
    return true;
  }

  #isUpgrade(request: IncomingMessage): boolean {
    const { method = "", headers } = request;
    if (this.#paths.has(pathOf(request) ?? "")) return asksForWebSocket(method, headers.upgrade ?? null);
    return this.#server.listenerCount("upgrade") > 1 && (this.#others?.call(this.#server, request) ?? true);
  }

  async #upgrade(request: IncomingMessage, socket: Duplex, head: Buffer): Promise<void> {
    const path = pathOf(request);
    const accept = this.#paths.get(path ?? "");
    try {
      if (accept !== undefined) await accept(request, socket, head);
      // Without another listener nobody would ever answer.
      else if (this.#server.listenerCount("upgrade") === 1)
        refuseUpgrade(socket, path === undefined ? 400 : 404);
    } catch (error) {
      socket.destroy();
      throw error;
    }
  }
}
