import { fromHex } from "selfsame/codec";
import { type AuditSettings, auditOf } from "selfsame-apps/audit";
import { grantsOf, words } from "selfsame-apps/edge";

/** How the node runs. */
export type Settings = {
  network: string;
  host: string;
  port: number;
  /** Addresses at which others dial this node. */
  address: string[];
  /** File of the store, which also keeps the identity. */
  data: string;
  bootstrap: string[];
  /** Public key of the owner of `owned`, or empty. */
  owner: string;
  owned: string[];
  /** The owner's grants for this node, by name. */
  grants: Record<string, string>;
  /** Versions that this node serves, by name, with the share of the requests that each is to get. */
  versions: Record<string, Version>;
  gateway: string[];
  /** The secret that the replicas of `check` share, which is then called by RPC, too. */
  ticketKey: Uint8Array | undefined;
  /** The audit log that this node holds and writes, if it is told of one. */
  audit: AuditSettings | undefined;
  /** Folder of the built page. */
  page: string;
  allowPrivate: boolean;
  /** Where the certificates of a closed network are: its domain, and a resolver over HTTPS in place of the system's name servers. */
  dns: { domain: string; dnsOverHttps?: string } | undefined;
  /** URL of whoever certifies the pages of a closed network. */
  certify: string | undefined;
  /** Whether to end when standard input does: whoever started this node is gone then. */
  endsWithInput: boolean;
};

/** A version and its weight; see `PublishOptions`. */
export type Version = { version: string; weight: number };

/** Reads the settings from environment variables, and secrets from the files that these name; the error names the one that is wrong. */
export function readSettings(
  variable: (name: string) => string | undefined,
  readText: (file: string) => string,
): Settings {
  const text = (name: string, usual: string): string => variable(name) ?? usual;
  const port = Number(text("PORT", "8788"));
  if (!Number.isInteger(port) || port < 1 || port > 65_535) throw new TypeError("PORT: expected 1 to 65535");
  const host = text("HOST", "127.0.0.1");
  const address = words(text("ADDRESS", `ws://${host}:${port}/.mesh http://${host}:${port}/.mesh`));
  const owner = text("OWNER", "");
  // Whoever lists the processes of a machine sees their environments.
  const seedFile = variable("AUDIT_SEED_FILE");
  const ticketKeyFile = variable("TICKET_KEY_FILE");
  if (!/^([0-9a-f]{64})?$/.test(owner)) throw new TypeError("OWNER: expected a public key of 64 hex digits");
  return {
    network: text("NETWORK", "twiitr"),
    host,
    port,
    address,
    data: text("DATA", "./data/node.sqlite"),
    bootstrap: words(variable("BOOTSTRAP")),
    owner,
    owned: words(text("OWNED", "handler check observability audit")),
    grants: grantsOf(variable("GRANTS")),
    versions: versionsOf(variable("VERSIONS")),
    gateway: words(variable("GATEWAY")),
    ticketKey: ticketKeyFile === undefined ? undefined : ticketKeyOf(readText(ticketKeyFile).trim()),
    audit: auditOf(variable("AUDIT"), seedFile === undefined ? undefined : readText(seedFile).trim()),
    page: text("PAGE", new URL("../../browser/dist", import.meta.url).pathname),
    allowPrivate: variable("ALLOW_PRIVATE") === "1",
    dns: dnsOf(variable("DNS"), variable("DNS_OVER_HTTPS")),
    certify: variable("CERTIFY"),
    endsWithInput: variable("END_WITH_INPUT") === "1",
  };
}

function dnsOf(domain: string | undefined, dnsOverHttps: string | undefined): Settings["dns"] {
  if (domain === undefined && dnsOverHttps !== undefined)
    throw new TypeError("DNS_OVER_HTTPS: expected DNS beside it, the domain of a closed network");
  if (domain === undefined) return undefined;
  return dnsOverHttps === undefined ? { domain } : { domain, dnsOverHttps };
}

function ticketKeyOf(text: string): Uint8Array {
  if (!/^[0-9a-f]{64}$/.test(text)) throw new TypeError("TICKET_KEY_FILE: expected a file of 64 hex digits");
  return fromHex(text, 32, "TICKET_KEY_FILE");
}

/** Versions by name, from a setting of `name=version` or `name=version:weight` words. */
function versionsOf(setting: string | undefined): Record<string, Version> {
  const pairs = words(setting).map((word): [string, Version] => {
    const [, name, version, weight = "1"] = /^([^=]+)=([^:]+)(?::([0-9.]+))?$/.exec(word) ?? [];
    if (name === undefined || version === undefined || !(Number(weight) <= 1)) {
      throw new TypeError(`VERSIONS: expected name=version:weight with a weight up to 1, found ${word}`);
    }
    return [name, { version, weight: Number(weight) }];
  });
  return Object.fromEntries(pairs);
}
