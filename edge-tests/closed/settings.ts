import { dns } from "selfsame/admission";

/** What a node of a closed network is told, whichever its runtime is. */
export interface ClosedSettings {
  /** Its service, and what its log is called. */
  readonly name: string;
  /** `NAME@KEY`. */
  readonly network: string;
  readonly port: number;
  readonly bootstrap: string;
  /** Its secret seed. */
  readonly seed: string;
  /** Key of the owner of all names. */
  readonly owner: string;
  /** The owner's grant for its service. */
  readonly grant: string;
  /** Domain of the network. */
  readonly zone: string;
  /** URL of a resolver over HTTPS. */
  readonly resolver: string;
}

/** What `join` takes of it on every platform. */
export function joinOptions({ network, bootstrap, seed, owner, zone, resolver }: ClosedSettings): {
  readonly network: string;
  readonly bootstrap: string;
  readonly seed: string;
  readonly owner: string;
  readonly admission: ReturnType<typeof dns>;
  readonly allowPrivate: true;
} {
  const admission = dns({ domain: zone, dnsOverHttps: resolver });
  return { network, bootstrap, seed, owner, admission, allowPrivate: true };
}
