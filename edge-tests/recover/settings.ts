/** How a member of a test ring is started, in any of the runtimes. */
export type MemberSettings = {
  readonly network: string;
  /** The one name that it serves, without an owner. */
  readonly name: string;
  /** Its secret seed, 64 hex digits. */
  readonly seed: string;
  /** Port of 127.0.0.1 where it is dialled and asked. */
  readonly port: number;
  /** Label that others see in its record. */
  readonly domain: string;
  /** Nodes to join through, by HTTP, each with its peer id. */
  readonly bootstrap: readonly string[];
};
