/** Expressions of licences, as SPDX writes them: `MIT OR (Apache-2.0 WITH LLVM-exception AND ISC)`. */

/**
 * Whether somebody who accepts only some licences may use what stands under an expression. A slash is read as `OR`, as
 * old packages mean it.
 *
 * @param {string} expression
 * @param {ReadonlySet<string>} allowed licences, with their exception where they have one
 * @returns {boolean}
 */
export function isAllowed(expression, allowed) {
  const tokens = expression.replaceAll("/", " OR ").match(/[()]|[^\s()]+/g) ?? [];
  let at = 0;

  /** @returns {boolean} */
  const either = () => {
    let value = all();
    while (tokens[at] === "OR") {
      at += 1;
      const right = all();
      value = value || right;
    }
    return value;
  };
  /** @returns {boolean} */
  const all = () => {
    let value = single();
    while (tokens[at] === "AND") {
      at += 1;
      const right = single();
      value = value && right;
    }
    return value;
  };
  /** @returns {boolean} */
  const single = () => {
    const token = tokens[at] ?? "";
    at += 1;
    if (token === "(") {
      const value = either();
      at += 1;
      return value;
    }
    if (tokens[at] === "WITH") {
      at += 2;
      return allowed.has(`${token} WITH ${tokens[at - 1]}`);
    }
    return allowed.has(token);
  };

  const value = either();
  return value && at === tokens.length;
}

/**
 * @param {string} policy the text of deny.toml
 * @returns {Set<string>} the licences it allows
 */
export function allowedLicences(policy) {
  const list = /^allow = \[([^\]]*)\]/m.exec(policy)?.[1] ?? "";
  return new Set([...list.matchAll(/"([^"]+)"/g)].map(([, licence]) => licence ?? ""));
}
