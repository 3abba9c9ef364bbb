/** Cycles in a graph of dependencies. */

/**
 * Finds one cycle through each knot of a graph.
 *
 * @param {ReadonlyMap<string, readonly string[]>} graph
 * @returns {string[][]} the members of each cycle in order; the last one leads back to the first
 */
export function cycles(graph) {
  /** @type {Map<string, "open" | "done">} */
  const state = new Map();
  /** @type {string[]} */
  const trail = [];
  /** @type {string[][]} */
  const found = [];
  /** @param {string} node */
  const visit = (node) => {
    state.set(node, "open");
    trail.push(node);
    for (const next of graph.get(node) ?? []) {
      if (state.get(next) === "open") {
        found.push(trail.slice(trail.indexOf(next)));
      } else if (state.get(next) === undefined) {
        visit(next);
      }
    }
    trail.pop();
    state.set(node, "done");
  };
  for (const node of graph.keys()) {
    if (state.get(node) === undefined) {
      visit(node);
    }
  }
  return found;
}
