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
};

/** Loads the configuration; the error says what is wrong with it. */
export async function loadConfig(): Promise<PageConfig> {
  const response = await fetch("mesh.json", { cache: "no-store" });
  if (!response.ok) throw new Error(`mesh.json: the server answered ${response.status}`);
  const config = (await response.json()) as Partial<PageConfig>;
  const { network, bootstrap, gateway } = config;
  if (typeof network !== "string" || !Array.isArray(bootstrap) || typeof gateway !== "string") {
    throw new Error("mesh.json: expected network, bootstrap and gateway");
  }
  const rest = config.owner === undefined ? {} : { owner: config.owner };
  const allowPrivate = config.allowPrivate === true;
  return { network, bootstrap, gateway, owned: config.owned ?? [], allowPrivate, ...rest };
}
