/** Prints checks as they are made, and the counts that end every runner of this repository. */
export class Report {
  #passed = 0;
  #failed = 0;

  /** Prints a line. */
  say(text: string): void {
    process.stdout.write(`${text}\n`);
  }

  /** Counts a check and prints it; a failed one with what is wrong. */
  check(what: string, problems: readonly string[]): void {
    this.count(problems.length === 0);
    this.say(`${problems.length === 0 ? "ok  " : "FAIL"} ${what}`);
    for (const problem of problems.slice(0, 10)) this.say(`     ${problem}`);
    if (problems.length > 10) this.say(`     and ${problems.length - 10} more`);
  }

  /** Counts a check without printing it. */
  count(hasPassed: boolean): void {
    if (hasPassed) this.#passed += 1;
    else this.#failed += 1;
  }

  /** Prints the counts and sets the exit code. */
  finish(): void {
    this.say(`${this.#passed} passed, ${this.#failed} failed`);
    process.exitCode = this.#failed === 0 ? 0 : 1;
  }
}
