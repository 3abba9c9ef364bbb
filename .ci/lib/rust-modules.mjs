/** Which modules of a crate use which others. */

import { occurrences } from "./sources.mjs";

/** @typedef {import("./sources.mjs").Source} Source */
/** @typedef {{ from: string, to: string, file: string, line: number }} Use */

/**
 * @param {string} lib the text of lib.rs or main.rs
 * @returns {{ modules: string[], exported: Map<string, string> }} the modules in their order, and from which of them a
 *   name comes that lib.rs exports
 */
export function readLib(lib) {
  const modules = occurrences(lib, /^(?:pub(?:\([^)]*\))? )?mod (\w+);/gm).map(({ found }) => found[1] ?? "");
  /** @type {Map<string, string>} */
  const exported = new Map();
  for (const { found } of occurrences(lib, /^pub use (?:self::|crate::)?(\w+)::(\{[^}]*\}|\w+);/gm)) {
    for (const name of (found[2] ?? "").match(/\w+/g) ?? []) {
      exported.set(name, found[1] ?? "");
    }
  }
  return { modules, exported };
}

/**
 * @param {Source} source
 * @param {string} folder of the crate's sources, with a slash at the end
 * @param {ReturnType<typeof readLib>} lib
 * @returns {Use[]} what one file uses of the crate's other top-level modules
 */
export function usesOf({ file, text }, folder, { modules, exported }) {
  const [from = ""] = file.slice(folder.length).replace(/\.rs$/, "").split("/");
  return occurrences(text, /\bcrate::(\w+|\{)/g).flatMap(({ line, found }) => {
    const names = found[1] === "{" ? firstNames(text.slice(found.index + found[0].length)) : [found[1] ?? ""];
    return names
      .map((name) => exported.get(name) ?? name)
      .filter((to) => to !== from && modules.includes(to))
      .map((to) => ({ from, to, file, line }));
  });
}

/**
 * @param {string} text what follows the brace of `crate::{`
 * @returns {string[]} the first name of each path in the braces
 */
function firstNames(text) {
  const names = [];
  let depth = 1;
  let isStart = true;
  for (const [token] of text.matchAll(/\w+|[{},]/g)) {
    if (token === "{") {
      depth += 1;
    } else if (token === "}") {
      depth -= 1;
      if (depth === 0) {
        return names;
      }
    } else if (token === ",") {
      isStart = depth === 1;
      continue;
    } else if (isStart && depth === 1) {
      names.push(token);
    }
    isStart = false;
  }
  return names;
}
