import { MeshError } from "../codec/code.ts";
import type { Admission } from "../codec/config.ts";
import { reasonOf } from "../guard.ts";
import type { Membership } from "./admission.ts";
import type { Identity } from "./core.ts";
import type { Driver } from "./driver.ts";
import type { MeshEvent } from "./event.ts";
import type { Logger } from "./log.ts";
import { type CheckedOptions, roleOf } from "./options.ts";
import { readRevocations } from "./signed-text.ts";
import type { State } from "./state.ts";

/** Has the authority of a closed network admit a node; `undefined` in an open network, where that takes nobody. */
export async function admit(
  options: CheckedOptions,
  { knownKey }: Identity,
  state: State,
  logger: Logger,
): Promise<Membership | undefined> {
  const { closed, networkName: network, addresses } = options;
  if (closed === undefined) return undefined;
  return closed.method.admit({
    network,
    authority: closed.authority,
    key: knownKey.slice(0, 32),
    role: roleOf(options),
    addresses,
    state,
    log: (level, text) => logger.log(level, text),
  });
}

/** How the core is told that a node is admitted. */
export function admissionOf({ closed }: CheckedOptions, membership: Membership | undefined): Admission {
  if (closed === undefined || membership === undefined) return "open";
  const { authority } = closed;
  return {
    mode: "dns",
    authority,
    certificate: membership.certificate,
    confirms: membership.confirm !== undefined,
  };
}

/** What a running node does for its membership of a closed network, if it is in one. */
export class Admitted {
  readonly #membership: Membership | undefined;
  readonly #driver: Driver;
  readonly #logger: Logger;
  readonly #certify = (certificate: Uint8Array): Promise<void> => this.#driver.certify(certificate);

  constructor(membership: Membership | undefined, driver: Driver, logger: Logger) {
    this.#membership = membership;
    this.#driver = driver;
    this.#logger = logger;
  }

  /** Takes the list of revocations that the node begins with. */
  async begin(): Promise<void> {
    const list = this.#membership?.revocations;
    if (list === undefined) return;
    try {
      await this.revoke(list);
    } catch (error) {
      if (!(error instanceof MeshError) || error.name !== "StaleRevocations") throw error;
      this.#logger.log(
        "info",
        "a newer list of revocations is known than the one of the options",
        error.code,
      );
    }
  }

  /** Looks for the next certificate if it is time to. */
  tend(): Promise<void> | undefined {
    return this.#membership?.tend(this.#certify);
  }

  /** Goes on with another certificate. */
  async renew(certificate: string | Uint8Array): Promise<void> {
    await this.#closed().renew(certificate, this.#certify);
  }

  /** Takes a list of revocations. */
  async revoke(given: string | Uint8Array): Promise<void> {
    this.#closed();
    const list = readRevocations(given);
    await this.#driver.command((tag) => ({ type: "Revoke", tag, list }));
  }

  /** Hears why joining failed. */
  refused(error: MeshError): void {
    if (error.name === "RevokedCertificate") this.#distrust();
  }

  /** Hears what happens to the node. */
  follow(event: MeshEvent): void {
    if (event.type === "ended") this.refused(event.error);
  }

  #distrust(): void {
    this.#membership?.distrust().catch((error: unknown) => {
      this.#logger.log("warn", `the certificate that was revoked may be used again: ${reasonOf(error)}`);
    });
  }

  #closed(): Membership {
    if (this.#membership === undefined)
      throw new MeshError("BadConfig", "the network is open: it knows no certificates and no revocations");
    return this.#membership;
  }
}
