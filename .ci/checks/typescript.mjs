/** Checks of TypeScript and JavaScript. */

import path from "node:path";

import ts from "typescript";

import { buildModules } from "../../guest/build/core.mjs";
import { must } from "../../guest/build/lib/command.mjs";
import { root } from "../../guest/build/lib/files.mjs";
import { program, runProgram } from "../lib/check.mjs";
import { sources } from "../lib/sources.mjs";
import { promises } from "./promises.mjs";

/** @typedef {import("../lib/check.mjs").Check} Check */
/** @typedef {import("../lib/check.mjs").Finding} Finding */

const COMPILER = path.join("node_modules", "typescript", "bin", "tsc");

/**
 * Every tsconfig that names files is a program of its own; one that names none is a base that others extend. They use
 * the package as others do, by the types it ships, so it is built first.
 *
 * @returns {Promise<Finding>}
 */
async function types() {
  const configs = await sources(/(^|\/)tsconfig(\.[\w-]+)?\.json$/);
  const programs = configs.filter(({ text }) => {
    const { files, include } = ts.parseConfigFileTextToJson("", text).config ?? {};
    return include !== undefined || (files !== undefined && files.length > 0);
  });
  /** @param {string} file */
  const compile = (file) =>
    runProgram([process.execPath, COMPILER, "--noEmit", "--pretty", "false", "-p", file]);
  await buildModules();
  await must("npm", ["run", "--silent", "build", "--workspace", "selfsame"], { cwd: root });
  const problems = [];
  // Two at once: one alone leaves most of the machine idle, all of them take too much memory.
  for (let at = 0; at < programs.length; at += 2) {
    const findings = await Promise.all(programs.slice(at, at + 2).map(({ file }) => compile(file)));
    problems.push(...findings.flatMap((finding) => finding.problems));
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
  { name: "promises", what: "no promise is dropped", run: promises },
  { name: "types", what: "types", run: types },
];
