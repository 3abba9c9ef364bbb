import process from "node:process";

/** Lines of a failure's cause that are shown. */
const MOST_LINES = 60;

/** Counts what was tried, and tells of each. */
export class Report {
  passed = 0;
  failed = 0;
  readonly #counts: Map<string, { passed: number; failed: number }> = new Map();

  /** Tells of progress. */
  readonly note = (text: string): void => {
    process.stdout.write(`${text}\n`);
  };

  /** Tries something on a platform; what is thrown is its failure. Gives its result, or `undefined`. */
  async check<T>(platform: string, name: string, attempt: () => Promise<T> | T): Promise<T | undefined> {
    const counts = this.#counts.get(platform) ?? { passed: 0, failed: 0 };
    this.#counts.set(platform, counts);
    const startedAt = performance.now();
    const tell = (verdict: string): void => {
      const seconds = ((performance.now() - startedAt) / 1000).toFixed(1);
      this.note(`${verdict.padEnd(8)}${platform}: ${name} (${seconds} s)`);
    };
    try {
      const result = await attempt();
      this.passed += 1;
      counts.passed += 1;
      tell("ok");
      return result;
    } catch (error) {
      this.failed += 1;
      counts.failed += 1;
      tell("FAILED");
      const text = error instanceof Error ? error.message : String(error);
      this.note(text.trimEnd().split("\n").slice(-MOST_LINES).join("\n").replaceAll(/^/gm, "    "));
      return undefined;
    }
  }

  /** What was counted, in the form of every runner of this repository. */
  end(): void {
    for (const [platform, { passed, failed }] of this.#counts) {
      this.note(`${platform.padEnd(24)}${passed} passed, ${failed} failed`);
    }
    this.note(`${this.passed} passed, ${this.failed} failed`);
    process.exitCode = this.failed > 0 ? 1 : 0;
  }
}
