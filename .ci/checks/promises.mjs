/** Looks for promises that nobody waits for: one that rejects ends a process of Node. */

import path from "node:path";

import ts from "typescript";

import { root } from "../../guest/build/lib/files.mjs";

/** @typedef {import("../lib/check.mjs").Finding} Finding */

/** What runs in processes of others. */
const PROGRAMS = [
  "runtime/tsconfig.json",
  "runtime/tsconfig.workerd.json",
  "workers/tsconfig.json",
  "workers/cloudflare/tsconfig.json",
  "workers/deno/tsconfig.json",
  "workers/browser/tsconfig.json",
];
/** Tests wait for their promises through the runner. */
const NOT_OURS = /node_modules|^\.\.|\.test\.ts$/;
const ADVICE = "await it, handle its failure, or give it to detach() or guarded() of runtime/src/guard.ts";

/** @returns {Promise<Finding>} */
export async function promises() {
  /** @type {Map<string, string>} */
  const problems = new Map();
  const seen = new Set();
  for (const file of PROGRAMS) {
    for (const { place, problem, source } of problemsOf(path.join(root, file))) {
      seen.add(source);
      if (problem !== undefined) problems.set(place, `${place}: ${problem}: ${ADVICE}`);
    }
  }
  return { problems: [...problems.values()], note: `${seen.size} files` };
}

/**
 * @param {string} config
 * @returns {Generator<{ place: string, problem: string | undefined, source: string }>}
 */
function* problemsOf(config) {
  const { config: json } = ts.readConfigFile(config, ts.sys.readFile);
  const { fileNames, options } = ts.parseJsonConfigFileContent(json, ts.sys, path.dirname(config));
  const program = ts.createProgram(fileNames, { ...options, noEmit: true });
  const checker = program.getTypeChecker();
  for (const source of program.getSourceFiles()) {
    const file = path.relative(root, source.fileName);
    if (source.isDeclarationFile || NOT_OURS.test(file)) continue;
    yield { place: file, problem: undefined, source: file };
    for (const { node, problem } of findings(source, checker)) {
      const { line } = source.getLineAndCharacterOfPosition(node.getStart(source));
      yield { place: `${file}:${line + 1}`, problem, source: file };
    }
  }
}

/**
 * @param {ts.SourceFile} source
 * @param {ts.TypeChecker} checker
 * @returns {{ node: ts.Node, problem: string }[]}
 */
export function findings(source, checker) {
  /** @type {{ node: ts.Node, problem: string }[]} */
  const found = [];
  /** @param {ts.Node} node */
  const visit = (node) => {
    const problem = problemOf(node, checker);
    if (problem !== undefined) found.push({ node, problem });
    ts.forEachChild(node, visit);
  };
  visit(source);
  return found;
}

/**
 * @param {ts.Node} node
 * @param {ts.TypeChecker} checker
 * @returns {string | undefined}
 */
function problemOf(node, checker) {
  if (ts.isVoidExpression(node)) return "`void` hides a promise";
  if (ts.isExpressionStatement(node)) {
    const isFloating = isThenable(checker.getTypeAtLocation(node.expression), checker);
    return isFloating && !isHandled(node.expression) ? "nobody waits for this promise" : undefined;
  }
  if (!ts.isArrowFunction(node) && !ts.isFunctionExpression(node)) return undefined;
  const signature = checker.getSignatureFromDeclaration(node);
  const expected = checker.getContextualType(node);
  if (signature === undefined || expected === undefined) return undefined;
  if (!isThenable(checker.getReturnTypeOfSignature(signature), checker)) return undefined;
  if (!ts.isBlock(node.body) && isHandled(node.body)) return undefined;
  const returns = [expected]
    .flatMap((type) => (type.isUnion() ? type.types : [type]))
    .flatMap(returnTypes(checker));
  const isDropped = returns.length > 0 && returns.every((type) => (type.flags & ts.TypeFlags.Void) !== 0);
  return isDropped ? "whoever calls this function drops its promise" : undefined;
}

/**
 * @param {ts.TypeChecker} checker
 * @returns {(type: ts.Type) => ts.Type[]}
 */
function returnTypes(checker) {
  return (type) => type.getCallSignatures().map((signature) => checker.getReturnTypeOfSignature(signature));
}

/**
 * @param {ts.Type} type
 * @param {ts.TypeChecker} checker
 * @returns {boolean}
 */
function isThenable(type, checker) {
  if (type.isUnion()) return type.types.some((one) => isThenable(one, checker));
  const then = (type.flags & ts.TypeFlags.Object) === 0 ? undefined : type.getProperty("then");
  return then !== undefined;
}

/**
 * Whether a statement keeps its promise, or handles the failure.
 *
 * @param {ts.Expression} expression
 * @returns {boolean}
 */
function isHandled(expression) {
  if (ts.isBinaryExpression(expression)) {
    const kind = expression.operatorToken.kind;
    const isAssignment = kind >= ts.SyntaxKind.FirstAssignment && kind <= ts.SyntaxKind.LastAssignment;
    return isAssignment || isHandled(expression.right);
  }
  if (!ts.isCallExpression(expression) || !ts.isPropertyAccessExpression(expression.expression)) return false;
  const { name, expression: inner } = expression.expression;
  if (name.text === "catch") return true;
  if (name.text === "then") return expression.arguments.length === 2;
  return name.text === "finally" && isHandled(inner);
}
