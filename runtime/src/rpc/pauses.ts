/** URLs to which nothing is sent for a while; beyond this all are forgotten. */
const MAX_PAUSES = 4096;

/** URLs to which nothing is sent for a while. */
export class Pauses {
  /** Ends of the pauses, on the monotonic clock. */
  readonly #ends: Map<string, number> = new Map();

  /** Sends nothing to a URL for so long. */
  begin(url: string, pause_ms: number): void {
    if (this.#ends.size >= MAX_PAUSES) this.#ends.clear();
    this.#ends.set(url, performance.now() + pause_ms);
  }

  /** Whether nothing is to be sent to a URL now. */
  includes(url: string): boolean {
    const end_ms = this.#ends.get(url);
    if (end_ms === undefined) return false;
    if (performance.now() < end_ms) return true;
    this.#ends.delete(url);
    return false;
  }
}
