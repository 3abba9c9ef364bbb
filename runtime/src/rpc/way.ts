import type { RpcAddress } from "./address.ts";

/** What a way of datagrams brings and tells its client. */
export interface WayHost {
  /** Takes a datagram that came from an endpoint. */
  received(source: Uint8Array, bytes: Uint8Array): void;
  /** Learns that nothing may be sent to an address. */
  forbidden(address: string, error: unknown): void;
}

/** Carries a client's datagrams. */
export interface Way {
  /** Largest datagram. */
  readonly datagramBytes: number;
  /** Returns the endpoint that stands for an address. */
  endpointOf(address: RpcAddress): Uint8Array;
  /** Returns the text of the address that an endpoint stands for. */
  textOf(endpoint: Uint8Array): string;
  /** Sends a datagram; one that does not leave is lost. */
  send(target: Uint8Array, datagram: Uint8Array): void;
  /** Says whether calls are under way, and until when at most on the monotonic clock. */
  busy(until_ms: number | undefined): void;
  /** Sends nothing more. */
  close(): void;
}
