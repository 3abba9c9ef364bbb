import { join, resolve } from "node:path";

/** The repository. */
export const ROOT: string = resolve(import.meta.dirname, "../../..");
/** Where the main job keeps identities, stores and logs; not part of the repository. */
export const DATA: string = join(ROOT, "workers/twiitr/.data");
