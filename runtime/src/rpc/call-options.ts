import type { RpcAnswer } from "./line.ts";

/** How a call is made. */
export interface RpcCallOptions {
  /** How long to wait for the answer, in milliseconds; 30 seconds unless given. */
  readonly timeout_ms?: number | undefined;
  /** Whether carrying the call out twice does no harm: it then needs no round trip before. */
  readonly idempotent?: boolean | undefined;
  /** Gives the call up, and tells its server. */
  readonly signal?: AbortSignal | undefined;
  /**
   * Whether the call travels in a session of the mesh, whose keys are agreed by Diffie-Hellman, although the service issues tickets: who
   * captures a replica later cannot open it.
   */
  readonly forwardSecret?: boolean | undefined;
  /** The replica to call, as `IP:port` or a URL, in place of the one that issued the ticket: any replica opens it. */
  readonly server?: string | undefined;
  /**
   * Whether the answer is to name the replica that gave it, for calls that must go there, too: a client without a ticket then asks for one
   * first. In a session an answer names the service alone.
   */
  readonly namesReplica?: boolean | undefined;
}

/** A client of the RPC, as far as what is built on calls needs it. */
export interface RpcCaller {
  /** Calls a service by name. */
  call(service: string, payload: Uint8Array, options?: RpcCallOptions): Promise<RpcAnswer>;
}
