/** No drawing has room for more. */
const MAX_MEMBERS = 64;

/** The id after this one on the circle. */
export function nextId(id: string): string {
  const next = (BigInt(`0x${id}`) + 1n) % (1n << 256n);
  return next.toString(16).padStart(64, "0");
}

/**
 * Goes once around the ring by asking who is responsible for the id after each member's own: each answer is the
 * successor of the last.
 */
export async function walk<T extends { id: string }>(
  findNode: (id: string) => Promise<T>,
  start: string,
): Promise<T[]> {
  const members = new Map<string, T>();
  let member = await findNode(start);
  while (!members.has(member.id) && members.size < MAX_MEMBERS) {
    members.set(member.id, member);
    member = await findNode(nextId(member.id));
  }
  return [...members.values()];
}
