/** The node of which a Worker's first answer comes. */

/** Its network. */
export const NETWORK = "bench";

/** Its seed. */
export function seed(): Uint8Array {
  return new Uint8Array(32).fill(1);
}
