import { InputBatch, readItems } from "../codec/batch.ts";
import { MeshError } from "../codec/code.ts";
import { utf8 } from "../codec/field.ts";
import { fromHex } from "../codec/hex.ts";
import { encodeRpcServerConfig, type RpcInput, rpcInputCodec, rpcOutputCodec } from "../codec/rpc.ts";
import type { ModuleInstance } from "../driver/instance.ts";
import { checkName } from "../driver/options.ts";
import { randomBytes } from "../driver/random.ts";
import { Clock } from "./clock.ts";
import { UNKNOWN } from "./endpoint.ts";
import { instantiate } from "./engine.ts";
import { checkPreSharedKey, TicketKeys } from "./keys.ts";
import { UDP_DATAGRAM } from "./limits.ts";
import { networkBytes } from "./network.ts";
import { checkAddresses, type RpcTicket } from "./ticket.ts";
import type { RpcTicketSource } from "./ticket-source.ts";

/** Seconds for which a ticket is good; servers renew it with their answers. */
const TICKET_LIFE_S = 3600;
const ENTROPY_BYTES = 32;
const PEER_BYTES = 32;

/** A service whose key a client has. */
export interface PreSharedService {
  /** The secret of the service, 32 bytes, which its servers have as `ticketKey`. Secret. */
  readonly key: Uint8Array;
  /** Where a server or a router is, as `IP:port` or a URL. */
  readonly address: string;
}

/** How a client without a mesh calls services. */
export interface PreSharedKeyOptions {
  /** Name of the network, as the servers have it; of a closed one the full name, `NAME@KEY`. */
  readonly network: string;
  /** The services by their names. */
  readonly services: Readonly<Record<string, PreSharedService>>;
  /**
   * The id, 64 hex digits, that servers are told is calling; a random one unless given. It proves nothing: whoever has the key can call as
   * anybody.
   */
  readonly caller?: string | undefined;
}

interface Entry {
  readonly keys: TicketKeys;
  readonly address: string;
}

/**
 * Tickets that a client issues to itself with the secret of a service, without a mesh. All who have the secret are equally trusted: each
 * of them can call as anybody, answer as the service, and open all calls.
 */
export class PreSharedKey implements RpcTicketSource, Disposable {
  readonly #module: () => Promise<WebAssembly.Module>;
  readonly #network: Uint8Array;
  readonly #caller: Uint8Array;
  readonly #entries: Map<string, Entry> = new Map();
  readonly #clock: Clock = new Clock();

  constructor({ network, services, caller }: PreSharedKeyOptions, module: () => Promise<WebAssembly.Module>) {
    this.#module = module;
    this.#network = networkBytes(network);
    this.#caller = caller === undefined ? randomBytes(PEER_BYTES) : fromHex(caller, PEER_BYTES, "caller");
    for (const [name, { key, address }] of Object.entries(services)) {
      checkAddresses([address]);
      const keys = new TicketKeys(checkPreSharedKey(key, name));
      this.#entries.set(checkName(name), { keys, address });
    }
  }

  /** Issues a ticket. Each has a nonce of fresh random bytes, so that no two clients have the same. */
  async ticket(service: string): Promise<RpcTicket> {
    const instance = await instantiate(await this.#module());
    const entry = this.#entries.get(service);
    if (entry === undefined)
      throw new MeshError(
        "NoProvider",
        `there is no key of ${service}: name it in the services of preSharedKey`,
      );
    const grant = this.#issue(instance, service, entry.keys.bytes);
    return { grant, addresses: [entry.address] };
  }

  /** Erases the secrets: no more tickets are issued. Clients go on with those that they have. */
  close(): void {
    for (const { keys } of this.#entries.values()) keys.erase();
    this.#entries.clear();
  }

  [Symbol.dispose](): void {
    this.close();
  }

  /** Has a server of the module, which ends at once, issue a ticket. */
  #issue(instance: ModuleInstance, service: string, secrets: Uint8Array): Uint8Array {
    const handle = instance.create(configOf(this.#network, service, secrets));
    secrets.fill(0);
    if (handle === 0) throw new MeshError("BadConfig", "rpc.wasm refuses the configuration");
    const batch = new InputBatch<RpcInput>(rpcInputCodec);
    batch.push({ type: "IssueTicket", tag: 0, caller: this.#caller, endpoint: UNKNOWN });
    const outputs = instance.step(handle, batch.finish(this.#clock.now_us()));
    instance.destroy(handle);
    try {
      for (const item of readItems(outputs)) {
        const output = rpcOutputCodec.decode(item);
        if (output.type === "Issued") return output.grant.slice();
      }
    } finally {
      outputs.fill(0);
    }
    throw new MeshError("BadConfig", "rpc.wasm issues no ticket: install it with this package");
  }
}

function configOf(network: Uint8Array, service: string, ticketSecrets: Uint8Array): Uint8Array {
  return encodeRpcServerConfig({
    network,
    service: utf8(service),
    ticketSecrets,
    entropy: randomBytes(ENTROPY_BYTES),
    datagramBytes: UDP_DATAGRAM,
    streams: false,
    ticketLife_s: TICKET_LIFE_S,
    idempotent: false,
    notBefore_ms: 0,
    routerSecret: new Uint8Array(),
  });
}
