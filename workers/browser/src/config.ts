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
  /** How this page is admitted to a closed network. */
  admission?: PageAdmission;
};

/** Where a closed network keeps its certificates, and who certifies the keys of its pages. */
export type PageAdmission = {
  /** Domain of the network. */
  domain: string;
  /** URL of a resolver over HTTPS. */
  dnsOverHttps: string;
  /** URL that takes the key of a page and the invitation of the link to it. */
  certify: string;
};

/** What stands before the secret seed of a reader in the address of the page; browsers send it to nobody. */
const READER = "reader";
/** What stands there before the word that lets a page into a closed network. */
const INVITATION = "invitation";

/** The secret of a reader of the capsule, if the link to this page has one. */
export function readerOf(hash: string): string | undefined {
  return secretIn(hash, READER);
}

/** The word that lets the page into a closed network, if the link to it has one. */
export function invitationOf(hash: string): string | undefined {
  return secretIn(hash, INVITATION);
}

function secretIn(hash: string, name: string): string | undefined {
  const secret = new URLSearchParams(hash.replace(/^#/, "")).get(name) ?? "";
  return /^[0-9a-f]{64}$/.test(secret) ? secret : undefined;
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
    ...(config.admission === undefined ? {} : { admission: config.admission }),
  };
  const allowPrivate = config.allowPrivate === true;
  return { network, bootstrap, gateway, owned: config.owned ?? [], allowPrivate, ...rest };
}
