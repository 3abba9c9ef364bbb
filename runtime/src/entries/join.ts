import type { Mesh, MeshParts } from "../driver/mesh.ts";
import type { JoinOptions } from "../driver/options.ts";
import type { Platform } from "../driver/platform.ts";

type MeshClass<T extends Mesh> = typeof Mesh & (new (parts: MeshParts) => T);

/** Opens a node, lets `prepare` make it reachable, and joins; a node that cannot join is closed. */
export async function joinAs<T extends Mesh>(
  kind: MeshClass<T>,
  options: JoinOptions,
  platform: Platform,
  more: readonly string[] = [],
  prepare?: (mesh: T) => Promise<void> | void,
): Promise<T> {
  const own = ["storage", "joinTimeoutMs", ...more];
  const mesh = await kind.open<T>(options, options?.storage, platform, own);
  try {
    await prepare?.(mesh);
    await mesh.join(options.joinTimeoutMs);
    return mesh;
  } catch (error) {
    await mesh.close();
    throw error;
  }
}
