import { MeshError } from "../codec/code.ts";
import type { Mesh } from "../driver/mesh.ts";
import type { Allow, ServeOptions } from "../driver/service.ts";
import { replicaHandler } from "./http.ts";
import { capsuleOf, type Replica } from "./replica.ts";

/** How a node serves its replica. */
export interface ServeCapsulesOptions {
  /** Name of a service that takes requests for any capsule, which is how new ones come here; none unless given. */
  readonly service?: string | undefined;
  /** How that service is published: its grant, or that it is unowned. */
  readonly publish?: ServeOptions | undefined;
  /** Peer ids that may send requests for capsules by their names, or what decides; everybody may unless given. */
  readonly allow?: readonly string[] | Allow | undefined;
  /** Most requests for one capsule that are answered at a time. */
  readonly limit?: number | undefined;
}

/**
 * Serves a replica in the mesh: each capsule is an unowned service whose name is the capsule's in base32, as whoever reads a
 * capsule verifies all of it and so need not know who serves it. The function that is returned stops following the replica;
 * what is published stays.
 */
export async function serveCapsules(
  mesh: Mesh,
  replica: Replica,
  options: ServeCapsulesOptions = {},
): Promise<() => void> {
  const { service, publish, allow, limit } = options;
  const handler = replicaHandler(replica);
  const serving: ServeOptions = { unowned: true, allow, limit };
  const serve = (name: string): Promise<void> =>
    mesh.serve(name, replicaHandler({ request: (message) => only(replica, name, message) }), serving);
  const stop = replica.onCapsule((name) => {
    // A node that is not joined yet, or any more, publishes nothing; the capsule is stored all the same.
    serve(name).catch((error: unknown) => console.error(`selfsame: capsule ${name} is not published`, error));
  });
  try {
    if (service !== undefined) await mesh.serve(service, handler, publish);
    await Promise.all(replica.capsules.map(serve));
  } catch (error) {
    stop();
    throw error;
  }
  return stop;
}

/** Under a capsule's name only requests for it are answered: a name that was given in good faith lets nobody create others. */
async function only(replica: Replica, name: string, message: Uint8Array): Promise<Uint8Array<ArrayBuffer>> {
  if (capsuleOf(message) !== name)
    throw new MeshError("BadMessage", `this service has only the capsule ${name}`);
  return replica.request(message);
}
