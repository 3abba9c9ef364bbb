/** A limit with exceptions that can only shrink. */

/**
 * Says what breaks a limit. An exception holds the length that something has today: it may not grow, and when it
 * shrinks the exception must follow, so that it never grows back.
 *
 * @param {ReadonlyMap<string, number>} lengths
 * @param {number} limit
 * @param {Readonly<Record<string, number>>} exceptions from `.ci/limits.json`
 * @returns {string[]}
 */
export function lengthProblems(lengths, limit, exceptions) {
  const problems = [];
  for (const [name, length] of lengths) {
    const allowed = exceptions[name];
    if (allowed === undefined) {
      if (length > limit) {
        problems.push(`${name} has ${length} lines, more than ${limit}: split it by idea`);
      }
    } else if (length <= limit) {
      problems.push(`${name} has ${length} lines: take its exception out of .ci/limits.json`);
    } else if (length > allowed) {
      problems.push(
        `${name} has grown from ${allowed} to ${length} lines and is over ${limit} already: split it by idea`,
      );
    } else if (length < allowed) {
      problems.push(`${name} has ${length} lines: lower its exception in .ci/limits.json from ${allowed}`);
    }
  }
  for (const name of Object.keys(exceptions).filter((name) => !lengths.has(name))) {
    problems.push(`${name} is no more: take its exception out of .ci/limits.json`);
  }
  return problems;
}
