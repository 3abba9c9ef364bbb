#!/usr/bin/env node
/**
 * Runs the client that was written from the specification: against the test vectors, and against a live ring of a
 * wasmtime node and two Node nodes with a leaf behind them. `npm run test:spec`. The last line counts.
 */

import { spawn, spawnSync } from "node:child_process";
import { randomBytes } from "node:crypto";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import path from "node:path";
import process from "node:process";
import { createInterface } from "node:readline";

import { buildAll } from "../../.ci/build.mjs";
import { cache, sha256 } from "../../guest/build/lib/files.mjs";
import { during, note, Problem, run } from "../../guest/build/lib/report.mjs";

const folder = import.meta.dirname;
const NETWORK = "spec";
/** The oldest Python for which the pinned packages exist. */
const PYTHON = [3, 10];
/** How long a node may take until it is in the ring. */
const START_MS = 30_000;
/** How long a node may take to leave the ring. */
const STOP_MS = 10_000;
/** So short that a test sees tickets renewed, and so long that one lasts for a test. */
const RPC_TICKET_LIFE_S = 6;

/** @typedef {{ child: import("node:child_process").ChildProcess, lines: AsyncIterator<string>, name: string }} Node */

/** @returns {string} a Python that is new enough */
function findPython() {
  const names = process.platform === "win32" ? ["python", "py"] : ["python3", "python"];
  for (const name of names) {
    const { stdout } = spawnSync(name, ["-c", "import sys; print(*sys.version_info[:2])"], {
      encoding: "utf8",
    });
    const [major = 0, minor = 0] = (stdout ?? "").trim().split(" ").map(Number);
    if (major === PYTHON[0] && minor >= (PYTHON[1] ?? 0)) return name;
  }
  throw new Problem(
    `install Python ${PYTHON.join(".")} or newer with its venv module (Debian: apt install python3-venv)`,
  );
}

/** @param {string} command @param {readonly string[]} args */
function must(command, args) {
  const { status, stdout, stderr, error } = spawnSync(command, args, { encoding: "utf8" });
  if (status !== 0) {
    throw new Problem(`${command} ${args.join(" ")} failed:\n${error?.message ?? `${stdout}${stderr}`}`);
  }
}

/** @returns {Promise<string>} the Python of an environment that has the pinned packages, made once for each list */
async function environment() {
  const requirements = path.join(folder, "requirements.txt");
  const home = path.join(cache, `spec-${sha256(readFileSync(requirements)).slice(0, 16)}`);
  const bin = path.join(home, process.platform === "win32" ? "Scripts/python.exe" : "bin/python");
  const done = path.join(home, "complete");
  if (!existsSync(done)) {
    await during("the Python packages of the client", () => {
      rmSync(home, { recursive: true, force: true });
      must(findPython(), ["-m", "venv", home]);
      must(bin, [
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
        "--require-hashes",
        "-r",
        requirements,
      ]);
      must(bin, ["-c", `open(${JSON.stringify(done)}, "w").close()`]);
    });
  }
  return bin;
}

/** @returns {Promise<number>} a port that was free a moment ago */
function freePort() {
  return new Promise((resolve, reject) => {
    const server = createServer();
    server.on("error", reject);
    server.listen(0, "127.0.0.1", () => {
      const address = server.address();
      const port = typeof address === "object" && address !== null ? address.port : 0;
      server.close(() => resolve(port));
    });
  });
}

/** @returns {Promise<string>} the program `selfsame`, `SELFSAME_BIN` or what the build makes */
async function hostProgram() {
  const given = process.env.SELFSAME_BIN;
  if (given === undefined) await buildAll();
  const target = process.env.CARGO_TARGET_DIR ?? path.join(folder, "../../target");
  const file =
    given ?? path.join(target, "release", process.platform === "win32" ? "selfsame.exe" : "selfsame");
  if (!existsSync(file)) throw new Problem(`there is no program ${file}`);
  return file;
}

/** @type {Node[]} */
const nodes = [];

/** @param {string} name @param {string} command @param {readonly string[]} args @returns {Node} */
function start(name, command, args) {
  const child = spawn(command, args, { stdio: ["pipe", "pipe", "inherit"], cwd: folder });
  child.on("error", (error) => note(`${name}: ${error.message}`));
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  const node = { child, lines, name };
  nodes.push(node);
  return node;
}

/**
 * @param {Node} node
 * @param {(value: any) => boolean} wanted
 * @returns {Promise<any>} the first line of JSON that is wanted
 */
async function lineOf({ lines, name }, wanted) {
  const timeout = new Promise((_, reject) =>
    setTimeout(reject, START_MS, new Problem(`${name} did not start within ${START_MS / 1000} s`)).unref(),
  );
  const search = async () => {
    for (;;) {
      const { done, value } = await lines.next();
      if (done === true) throw new Problem(`${name} ended before it was ready`);
      const parsed = JSON.parse(value);
      if (wanted(parsed)) return parsed;
    }
  };
  return Promise.race([search(), timeout]);
}

/** @param {string} data where the wasmtime node keeps its state */
async function startRing(data) {
  const port = await freePort();
  const listen = `ws://127.0.0.1:${port}/.mesh`;
  const args = ["--json", "node", "--network", NETWORK, "--listen", listen, "--data", data];
  const host = start("the wasmtime node", await hostProgram(), [
    ...args,
    "--allow-private",
    "--end-with-input",
  ]);
  const { id } = await lineOf(host, (line) => line.event === "started");
  const bootstrap = `${listen}#${id}`;
  const ownerSeed = randomBytes(32).toString("hex");
  const service = await startService(await freePort(), [bootstrap], ownerSeed, ["check", "free-echo"]);
  const third = await startService(await freePort(), [bootstrap], ownerSeed, []);
  const leaf = await startService(0, [bootstrap], ownerSeed, ["leaf"]);
  await startRpc(bootstrap, data);
  return { network: NETWORK, host: bootstrap, service, third, leaf: leaf.id };
}

/**
 * Starts the replicas of the encrypted RPC: in Node, and of the Rust host.
 *
 * @param {string} bootstrap
 * @param {string} data where the Rust host's replica keeps its state
 */
async function startRpc(bootstrap, data) {
  const port = await freePort();
  const node = start("the RPC in Node", process.execPath, [path.join(folder, "rpc-service.mjs")]);
  const task = { network: NETWORK, bootstrap: [bootstrap], port, ticketLife_s: RPC_TICKET_LIFE_S };
  node.child.stdin?.write(`${JSON.stringify(task)}\n`);
  await lineOf(node, () => true);
  const to = ["--to", `http://127.0.0.1:${port}/carry-out`, "--udp", "127.0.0.1:0", "--idempotent"];
  const files = ["--data", path.join(data, "rpc"), "--ticket-key", path.join(data, "rpc.key")];
  const mesh = ["--network", NETWORK, "--join", bootstrap, "--allow-private", "--unowned"];
  const rest = ["--log", "error", "--ticket-life", `${RPC_TICKET_LIFE_S}s`, "--end-with-input"];
  const args = ["--json", "rpc", "serve", "rpc-rust", ...to, ...files, ...mesh, ...rest];
  const replica = start("the RPC of the Rust host", await hostProgram(), args);
  await lineOf(replica, (line) => line.event === "serving-rpc");
}

/** @param {number} port @param {string[]} bootstrap @param {string} ownerSeed @param {string[]} names */
async function startService(port, bootstrap, ownerSeed, names) {
  const node = start("a Node node", process.execPath, [path.join(folder, "service.mjs")]);
  node.child.stdin?.write(`${JSON.stringify({ network: NETWORK, port, bootstrap, ownerSeed, names })}\n`);
  const { id, owner } = await lineOf(node, () => true);
  const at = (/** @type {string} */ scheme) => `${scheme}://127.0.0.1:${port}/.mesh#${id}`;
  return { id, owner, ws: at("ws"), http: at("http") };
}

/** Ends the nodes in order; each leaves the ring when its input ends. */
async function stopRing() {
  for (const { child, name } of nodes.splice(0).reverse()) {
    if (child.exitCode !== null || child.signalCode !== null) continue;
    const ended = new Promise((resolve) => child.once("exit", () => resolve(true)));
    child.stdin?.end();
    const late = new Promise((resolve) => setTimeout(resolve, STOP_MS, false).unref());
    if (!(await Promise.race([ended, late]))) {
      note(`${name} did not end by itself`);
      child.kill("SIGKILL");
    }
  }
}

/**
 * @param {string} python
 * @param {object} ring what the live tests are told
 * @returns {Promise<{ passed: number, failed: number }>}
 */
function test(python, ring) {
  const args = ["-m", "unittest", "-v", "test_vectors", "test_capsules", "test_live", "test_rpc"];
  const env = { ...process.env, SPEC_RING: JSON.stringify(ring), PYTHONDONTWRITEBYTECODE: "1" };
  const child = spawn(python, args, { cwd: folder, env, stdio: ["ignore", "inherit", "pipe"] });
  let output = "";
  child.stderr.setEncoding("utf8").on("data", (text) => {
    output += text;
    process.stdout.write(text);
  });
  return new Promise((resolve, reject) => {
    child.on("error", reject);
    child.on("close", (code) => {
      const ran = Number(/^Ran (\d+) tests? in/m.exec(output)?.[1] ?? 0);
      const bad = [...output.matchAll(/(?:failures|errors|skipped)=(\d+)/g)].reduce(
        (sum, [, n]) => sum + Number(n),
        0,
      );
      const failed = code === 0 && ran > 0 ? bad : Math.max(bad, 1);
      resolve({ passed: Math.max(ran - failed, 0), failed });
    });
  });
}

/** @returns {{ passed: number, failed: number }} whether the lines at the top of the README do what they say */
function tryReadme() {
  const readme = readFileSync(path.join(folder, "../../README.md"), "utf8");
  const example = /```js\n(.*?)```/s.exec(readme)?.[1] ?? "";
  const file = path.join(folder, "readme.generated.mjs");
  writeFileSync(file, example);
  try {
    const { stdout, stderr } = spawnSync(process.execPath, [file], {
      cwd: folder,
      encoding: "utf8",
      timeout: START_MS,
    });
    const isRight = /^200 hello [0-9a-f]{64}\n$/.test(stdout);
    process.stdout.write(
      `${isRight ? "ok" : "FAILED"} the example of the README\n${isRight ? "" : stdout + stderr}`,
    );
    return isRight ? { passed: 1, failed: 0 } : { passed: 0, failed: 1 };
  } finally {
    rmSync(file);
  }
}

await run(async () => {
  const python = await environment();
  const data = mkdtempSync(path.join(tmpdir(), "selfsame-spec-"));
  try {
    const ring = await startRing(data);
    const readme = tryReadme();
    const tests = await test(python, ring);
    const [passed, failed] = [tests.passed + readme.passed, tests.failed + readme.failed];
    process.stdout.write(`${passed} passed, ${failed} failed\n`);
    process.exitCode = failed > 0 ? 1 : 0;
  } finally {
    await stopRing();
    rmSync(data, { recursive: true, force: true });
  }
});
