import type { MeshStream } from "./streams.ts";

/** A request that is at hand as a whole. */
export interface WholeRequest {
  /** The name of the service. */
  readonly name: string;
  /** The method. */
  readonly method: string;
  /** The URL. */
  readonly url: string;
  /** The encoded head. */
  readonly head: Uint8Array;
  /** The body, of at most 64 KiB. */
  readonly body: Uint8Array;
  /** How long the answer may take to begin. */
  readonly timeout_ms: number;
  /** Gives the request up. */
  readonly signal: AbortSignal | undefined;
}

/** A way for requests beside the sessions of the mesh. */
export interface Shortcut {
  /**
   * Sends a request, and resolves with the stream of its answer, which fails if the request may have been carried out without one;
   * with `undefined` if it was not sent, or certainly not carried out.
   */
  send(request: WholeRequest): Promise<MeshStream | undefined>;
  /** Learns that a service has answered in a session. */
  answered(name: string): void;
}
