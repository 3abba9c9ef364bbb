/** The npm workspaces and their scripts. */

import { readJson, sourceFiles } from "./sources.mjs";

/** @typedef {{ name: string, scripts: Record<string, string>, uses: string[] }} Workspace */

/** @returns {Promise<Workspace[]>} all of them, each after those it depends on */
export async function workspaces() {
  const folders = readJson("package.json").workspaces.map(
    (/** @type {string} */ glob) => new RegExp(`^${glob.replaceAll("*", "[^/]+")}/package\\.json$`),
  );
  const manifests = (await sourceFiles())
    .filter((file) => folders.some((/** @type {RegExp} */ folder) => folder.test(file)))
    .map(readJson);
  const names = new Set(manifests.map(({ name }) => name));
  const all = manifests.map(({ name, scripts = {}, dependencies = {}, devDependencies = {} }) => ({
    name,
    scripts,
    uses: Object.keys({ ...dependencies, ...devDependencies }).filter((used) => names.has(used)),
  }));
  return inOrder(all);
}

/**
 * @param {readonly Workspace[]} all
 * @returns {Workspace[]}
 */
function inOrder(all) {
  /** @type {Workspace[]} */
  const done = [];
  /** @param {Workspace} workspace */
  const visit = (workspace) => {
    if (!done.includes(workspace)) {
      for (const used of all.filter(({ name }) => workspace.uses.includes(name))) {
        visit(used);
      }
      done.push(workspace);
    }
  };
  for (const workspace of all) {
    visit(workspace);
  }
  return done;
}
