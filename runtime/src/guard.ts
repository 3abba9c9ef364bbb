/** Reports of one kind that are printed in a second: what a stranger can cause must not flood the log. */
const MAX_REPORTS = 10;
const SECOND_MS = 1000;

interface Recent {
  since_ms: number;
  count: number;
}

/** By kind, of which there are as many as places in this package. */
const reported: Map<string, Recent> = /* @__PURE__ */ new Map();

/** Prints what went wrong where nobody can be told. `what` names the place, never what a stranger sent. */
export function report(what: string, error: unknown): void {
  const now = performance.now();
  const recent = reported.get(what);
  if (recent === undefined || now - recent.since_ms >= SECOND_MS) {
    reported.set(what, { since_ms: now, count: 1 });
  } else if (++recent.count > MAX_REPORTS) return;
  console.error(`selfsame: ${what} failed`, error);
}

/** Lets work go on that nobody waits for; a failure of it is reported and does not end the process. */
export function detach(what: string, work: unknown): void {
  if (isThenable(work)) work.then(undefined, (error: unknown) => report(what, error));
}

/** A listener or callback of a platform: what it throws, or rejects with, is reported and does not end the process. */
export function guarded<A extends readonly unknown[]>(
  what: string,
  act: (...given: A) => unknown,
): (...given: A) => void {
  return (...given) => {
    try {
      detach(what, act(...given));
    } catch (error) {
      report(what, error);
    }
  };
}

function isThenable(value: unknown): value is PromiseLike<unknown> {
  return typeof value === "object" && value !== null && "then" in value && typeof value.then === "function";
}

/** What an error says, for people. */
export function reasonOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
