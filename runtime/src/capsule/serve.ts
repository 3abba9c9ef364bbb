import { MeshError } from "../codec/code.ts";
import type { Mesh } from "../driver/mesh.ts";
import type { Allow, ServeOptions, Service } from "../driver/service.ts";
import { replicaHandler } from "./http.ts";
import { capsuleOf } from "./name.ts";
import type { Replica } from "./replica.ts";
import type { RequestPlace } from "./room.ts";

/** How a node serves its replica. */
export interface ServeCapsulesOptions {
  /** Signed metadata of capsules that are stored here from the beginning. */
  readonly hold?: readonly Uint8Array[] | undefined;
  /** Name of a service that takes requests for any capsule, which is how new ones come here; none unless given. */
  readonly service?: string | undefined;
  /** How that service is published: its grant, or that it is unowned. */
  readonly publish?: ServeOptions | undefined;
  /** Peer ids that may send requests for capsules by their names, or what decides; everybody may unless given. */
  readonly allow?: readonly string[] | Allow | undefined;
  /** Most requests for one capsule that are answered at a time. */
  readonly limit?: number | undefined;
}

/** Capsules that are served. */
export interface CapsulesServed {
  /** Resolves when the names of those that were there are published. */
  readonly published: Promise<void>;
  /** Serves and publishes no capsules that come from now on; what is published stays. */
  readonly stop: () => void;
}

/**
 * Serves a replica in the mesh: each capsule is an unowned service whose name is the capsule's in base32, as whoever reads a
 * capsule verifies all of it and so need not know who serves it. Resolves when the node takes requests for those that are there.
 */
export async function serveCapsules(
  mesh: Mesh,
  replica: Replica,
  options: ServeCapsulesOptions = {},
): Promise<CapsulesServed> {
  const { hold = [], service, publish = {}, allow, limit } = options;
  for (const metadata of hold) await replica.hold(metadata);
  const serviceOf = (name: string): Service => ({
    name,
    handler: replicaHandler({
      capsule: name,
      room: replica.room,
      timers: replica.timers,
      request: (message, source, place) => only(replica, name, message, source, place),
      exportFile: () => replica.exportFile(name),
    }),
    options: { unowned: true, allow, limit },
  });
  const stop = replica.onCapsule((name) => {
    // A node that is not joined yet, or any more, publishes nothing; the capsule is stored all the same.
    mesh
      .announce([serviceOf(name)])
      .then(({ published }) => published)
      .catch((error: unknown) => console.error(`selfsame: capsule ${name} is not published`, error));
  });
  try {
    const any =
      service === undefined ? [] : [{ name: service, handler: replicaHandler(replica), options: publish }];
    const { published } = await mesh.announce([...any, ...replica.capsules.map(serviceOf)]);
    return { published, stop };
  } catch (error) {
    stop();
    throw error;
  }
}

/** Under a capsule's name only requests for it are answered: a name that was given in good faith lets nobody create others. */
async function only(
  replica: Replica,
  name: string,
  message: Uint8Array,
  source: string | undefined,
  place: RequestPlace | undefined,
): Promise<Uint8Array<ArrayBuffer>> {
  if (capsuleOf(message) !== name)
    throw new MeshError("BadMessage", `this service has only the capsule ${name}`);
  return replica.request(message, source, place);
}
