/** How a member is started that is flooded. */
export interface MemberSettings {
  readonly network: string;
  /** The name that it serves. */
  readonly name: string;
  readonly ip: string;
  readonly bootstrap: string;
}

/** Where each member listens. */
export const PORTS = { ws: 7000, tcp: 7001, udp: 7002 } as const;
