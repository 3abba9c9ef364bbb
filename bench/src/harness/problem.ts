/** What the person who runs the benchmark can act upon: its message is the whole explanation. */
export class Problem extends Error {
  override readonly name = "Problem";
}
