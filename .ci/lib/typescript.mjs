/** What the sources in TypeScript and JavaScript say of themselves, read with the compiler's parser. */

import path from "node:path";

import ts from "typescript";

/** @typedef {import("./sources.mjs").Source} Source */

/** @param {Source} source */
function parse({ file, text }) {
  return ts.createSourceFile(file, text, ts.ScriptTarget.Latest, true);
}

/**
 * The lengths of all functions of a file: lines of their bodies with code, without comments and empty lines. A callback
 * of `describe` is a list of tests, not a function.
 *
 * @param {Source} source
 * @returns {[string, number][]} name with the file before it, and length
 */
export function functionLengths(source) {
  const tree = parse(source);
  const lines = linesWithCode(tree);
  /** @type {Map<string, number>} */
  const found = new Map();
  /** @param {import("typescript").Node} node */
  const visit = (node) => {
    if (ts.isFunctionLike(node) && "body" in node && node.body !== undefined && !isListOfTests(node)) {
      const body = /** @type {import("typescript").Node} */ (node.body);
      const first = tree.getLineAndCharacterOfPosition(body.getStart(tree)).line;
      const last = tree.getLineAndCharacterOfPosition(body.getEnd()).line;
      let length = 0;
      // The lines of the braces are not the function's.
      for (let line = first + 1; line < last; line += 1) {
        length += lines.has(line) ? 1 : 0;
      }
      const name = `${source.file}:${nameOf(node)}`;
      found.set(name, Math.max(found.get(name) ?? 0, length));
    }
    ts.forEachChild(node, visit);
  };
  visit(tree);
  return [...found];
}

/**
 * @param {import("typescript").SourceFile} tree
 * @returns {Set<number>} lines on which something other than a comment stands
 */
function linesWithCode(tree) {
  /** @type {Set<number>} */
  const lines = new Set();
  /** @param {import("typescript").Node} node */
  const visit = (node) => {
    const children = node.getChildren(tree);
    if (children.length === 0 && node.getEnd() > node.getStart(tree)) {
      const first = tree.getLineAndCharacterOfPosition(node.getStart(tree)).line;
      const last = tree.getLineAndCharacterOfPosition(node.getEnd()).line;
      for (let line = first; line <= last; line += 1) {
        lines.add(line);
      }
    }
    for (const child of children.filter((child) => !ts.isJSDoc(child))) {
      visit(child);
    }
  };
  visit(tree);
  return lines;
}

/** @param {import("typescript").Node} node */
function isListOfTests(node) {
  const call = node.parent;
  return (
    ts.isCallExpression(call) &&
    ts.isIdentifier(call.expression) &&
    ["describe", "suite"].includes(call.expression.text)
  );
}

/** @param {import("typescript").Node} node */
function nameOf(node) {
  for (let at = node; !ts.isSourceFile(at); at = at.parent) {
    if ("name" in at && at.name !== undefined) {
      return /** @type {import("typescript").Node} */ (at.name).getText();
    }
  }
  return "(module)";
}

/**
 * @param {Source} source
 * @returns {string[]} what a module imports or re-exports from elsewhere, as it is written; types count
 */
export function imports(source) {
  /** @type {string[]} */
  const found = [];
  /** @param {import("typescript").Node} node */
  const visit = (node) => {
    const target =
      ts.isImportDeclaration(node) || ts.isExportDeclaration(node)
        ? node.moduleSpecifier
        : ts.isCallExpression(node) && node.expression.kind === ts.SyntaxKind.ImportKeyword
          ? node.arguments[0]
          : undefined;
    if (target !== undefined && ts.isStringLiteral(target)) {
      found.push(target.text);
    }
    ts.forEachChild(node, visit);
  };
  visit(parse(source));
  return found;
}

/**
 * @param {readonly Source[]} files
 * @returns {Map<string, string[]>} for each file those of the others that it imports by a relative path
 */
export function importGraph(files) {
  const known = new Set(files.map(({ file }) => file));
  return new Map(
    files.map((source) => [
      source.file,
      imports(source)
        .filter((target) => target.startsWith("."))
        .map((target) => path.posix.join(path.posix.dirname(source.file), target))
        .filter((target) => known.has(target)),
    ]),
  );
}
