/** What the server of the page tells it; `mesh.json` beside the page. */
export type PageConfig = {
  network: string;
  /** Addresses with the ids of members to join through. */
  bootstrap: string[];
  /** Public key of the owner of the names in `owned`. */
  owner?: string;
  /** Names that only holders of the owner's grants serve. */
  owned: string[];
  /** Whether addresses of this machine and its network may be dialled. */
  allowPrivate: boolean;
  /** Where `curl` reaches a service as `GATEWAY/NAME/path`. */
  gateway: string;
  /** Name of the capsule that the page shows, in base32. */
  capsule?: string;
};

/** What stands before the secret seed of a reader in the address of the page; browsers send it to nobody. */
const READER = "reader";

/** The secret of a reader of the capsule, if the link to this page has one. */
export function readerOf(hash: string): string | undefined {
  const seed = new URLSearchParams(hash.replace(/^#/, "")).get(READER) ?? "";
  return /^[0-9a-f]{64}$/.test(seed) ? seed : undefined;
}

/** Loads the configuration; the error says what is wrong with it. */
export async function loadConfig(): Promise<PageConfig> {
  const response = await fetch("mesh.json", { cache: "no-store" });
  if (!response.ok) throw new Error(`mesh.json: the server answered ${response.status}`);
  const config = (await response.json()) as Partial<PageConfig>;
  const { network, bootstrap, gateway } = config;
  if (typeof network !== "string" || !Array.isArray(bootstrap) || typeof gateway !== "string") {
    throw new Error("mesh.json: expected network, bootstrap and gateway");
  }
  const rest = {
    ...(config.owner === undefined ? {} : { owner: config.owner }),
    ...(config.capsule === undefined ? {} : { capsule: config.capsule }),
  };
  const allowPrivate = config.allowPrivate === true;
  return { network, bootstrap, gateway, owned: config.owned ?? [], allowPrivate, ...rest };
}
