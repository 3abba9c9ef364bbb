import type { CoreStatus, Provider } from "../codec/reply.ts";

/** What `status()` tells. */
export interface MeshStatus extends CoreStatus {
  /** Random for each start of the node: another one means that its memory was lost in between. */
  readonly bootId: string;
  /** Open paths. */
  readonly paths: number;
}

/** What a node knows of those who serve a name that it has called. */
export interface ServiceHealth {
  /** The name. */
  readonly name: string;
  /** The owner's public key; `undefined` for an unowned name. */
  readonly owner: string | undefined;
  /** Its providers, each with how it has answered lately. */
  readonly providers: readonly Provider[];
}
