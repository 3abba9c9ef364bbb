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
  gateway: string[];
  /** Folder of the built page. */
  page: string;
  allowPrivate: boolean;
  /** Whether to end when standard input does: whoever started this node is gone then. */
  endsWithInput: boolean;
};

/** Reads the settings from environment variables; the error names the one that is wrong. */
export function readSettings(variable: (name: string) => string | undefined): Settings {
  const text = (name: string, usual: string): string => variable(name) ?? usual;
  const port = Number(text("PORT", "8788"));
  if (!Number.isInteger(port) || port < 1 || port > 65_535) throw new TypeError("PORT: expected 1 to 65535");
  const host = text("HOST", "127.0.0.1");
  const address = words(text("ADDRESS", `ws://${host}:${port}/.mesh http://${host}:${port}/.mesh`));
  const owner = text("OWNER", "");
  if (!/^([0-9a-f]{64})?$/.test(owner)) throw new TypeError("OWNER: expected a public key of 64 hex digits");
  return {
    network: text("NETWORK", "twiitr"),
    host,
    port,
    address,
    data: text("DATA", "./data/node.sqlite"),
    bootstrap: words(variable("BOOTSTRAP")),
    owner,
    owned: words(text("OWNED", "handler check")),
    grants: grantsOf(variable("GRANTS")),
    gateway: words(variable("GATEWAY")),
    page: text("PAGE", new URL("../../browser/dist", import.meta.url).pathname),
    allowPrivate: variable("ALLOW_PRIVATE") === "1",
    endsWithInput: variable("END_WITH_INPUT") === "1",
  };
}
