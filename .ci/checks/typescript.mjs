/** Checks of TypeScript and JavaScript. */

import path from "node:path";

import ts from "typescript";

import { root } from "../../guest/build/lib/files.mjs";
import { program, runProgram } from "../lib/check.mjs";
import { sources } from "../lib/sources.mjs";

/** @typedef {import("../lib/check.mjs").Check} Check */
/** @typedef {import("../lib/check.mjs").Finding} Finding */

/**
 * Every tsconfig that names files is a program of its own; one that names none is a base that others extend.
 *
 * @returns {Promise<Finding>}
 */
async function types() {
  const configs = await sources(/(^|\/)tsconfig(\.[\w-]+)?\.json$/);
  const programs = configs.filter(({ text }) => {
    const { files, include } = ts.parseConfigFileTextToJson("", text).config ?? {};
    return include !== undefined || (files !== undefined && files.length > 0);
  });
  const problems = [];
  for (const { file } of programs) {
    const compiler = path.join("node_modules", "typescript", "bin", "tsc");
    const command = [process.execPath, compiler, "--noEmit", "--pretty", "false", "-p", file];
    const finding = await runProgram(command);
    problems.push(...finding.problems);
  }
  return {
    problems: problems.map((text) => text.replaceAll(root, ".")),
    note: `${programs.length} programs`,
  };
}

/** @type {readonly Check[]} */
export const typescript = [
  program("biome", "format and lint of TypeScript, JavaScript, JSON and CSS", [
    path.join("node_modules", ".bin", "biome"),
    "ci",
    "--colors=off",
    "--error-on-warnings",
  ]),
  { name: "types", what: "types", run: types },
];
