/** Adds up what several processes of the fuzzer tell. */

/** @typedef {import("./shard.mjs").Report} Report */
/** @typedef {import("./shard.mjs").Failure} Failure */
/** @typedef {import("./shard.mjs").Lane} Lane */

/**
 * @typedef {object} Total
 * @property {Map<string, Lane>} lanes by target
 * @property {Failure[]} failures
 * @property {boolean} guided
 * @property {number} points
 * @property {number} reached
 * @property {number} largest the most bytes that one execution held
 * @property {number} memory the most that a process ever had, 0 where the system does not say
 */

const MIB = 1024 * 1024;

/**
 * @param {readonly Report[]} reports
 * @returns {Total}
 */
export function merge(reports) {
  const ends = reports.flatMap(({ end }) => (end === undefined ? [] : [end]));
  return {
    lanes: mergeLanes(reports.flatMap(({ lanes }) => lanes)),
    failures: reports.flatMap(({ failures }) => failures),
    guided: ends.some(({ guided }) => guided),
    points: Math.max(0, ...ends.map(({ total }) => total)),
    reached: bitsInAny(ends.map(({ reached }) => Buffer.from(reached, "hex"))),
    largest: Math.max(0, ...ends.map(({ largest }) => largest)),
    memory: Math.max(0, ...ends.map(({ memory }) => memory ?? 0)),
  };
}

/**
 * @param {readonly Lane[]} lanes
 * @returns {Map<string, Lane>}
 */
function mergeLanes(lanes) {
  /** @type {Map<string, Lane>} */
  const merged = new Map();
  for (const lane of lanes) {
    const { executions = 0, seconds = 0, inputs = 0, warm = 0, now = 0 } = merged.get(lane.target) ?? {};
    merged.set(lane.target, {
      ...lane,
      executions: executions + lane.executions,
      seconds: seconds + lane.seconds,
      inputs: inputs + lane.inputs,
      warm: Math.max(warm, lane.warm),
      now: Math.max(now, lane.now),
    });
  }
  return merged;
}

/**
 * @param {readonly Uint8Array[]} sets
 * @returns {number} how many bits are set in at least one
 */
function bitsInAny(sets) {
  let bits = 0;
  for (let at = 0; at < Math.max(0, ...sets.map(({ length }) => length)); at += 1) {
    for (let byte = sets.reduce((union, set) => union | (set[at] ?? 0), 0); byte > 0; byte >>= 1) {
      bits += byte & 1;
    }
  }
  return bits;
}

/**
 * @param {Total} total
 * @param {number} seconds
 * @param {readonly (string | undefined)[]} files from which each failure can be run again
 * @returns {string} what a person reads
 */
export function describe(total, seconds, files = []) {
  const { lanes, failures, guided, points, reached, largest, memory } = total;
  const executions = [...lanes.values()].reduce((sum, lane) => sum + lane.executions, 0);
  const lines = [...lanes.values()].map(({ target, executions, seconds, inputs, lasting, warm, now }) => {
    const heap = lasting ? `, heap ${sign(warm)} after warm-up and ${sign(now)} at the end` : "";
    const took = `${String(executions).padStart(9)} executions in ${seconds.toFixed(1)} s`;
    return `  ${target.padEnd(18)} ${took}, ${inputs} inputs kept${heap}`;
  });
  const rate = Math.round(executions / Math.max(seconds, 0.001));
  const coverage = guided
    ? `${reached} of ${points} points (${((100 * reached) / Math.max(points, 1)).toFixed(1)} %)`
    : "not measured (built without counters)";
  lines.push(
    `executions   ${executions} in ${seconds.toFixed(0)} s, ${rate} a second`,
    `coverage     ${coverage}`,
    `memory       ${memory === 0 ? "not told by this system" : `${(memory / MIB).toFixed(1)} MiB at most in a process`}, ` +
      `${(largest / MIB).toFixed(2)} MiB at most in one execution`,
    `failures     ${failures.length}`,
  );
  for (const [index, { target, message }] of failures.entries()) {
    const file = files[index];
    lines.push(
      `  ${target}: ${message}${file === undefined ? "" : `\n    npm run fuzz -- --replay ${file}`}`,
    );
  }
  return lines.join("\n");
}

/** @param {number} bytes */
function sign(bytes) {
  return `${bytes < 0 ? "-" : "+"}${(Math.abs(bytes) / 1024).toFixed(0)} KiB`;
}

/**
 * @param {Total} total
 * @returns {string} the line that ends every runner of this repository: each target is a test
 */
export function count({ lanes, failures }) {
  const failed = new Set(failures.map(({ target }) => target));
  const passed = [...lanes.keys()].filter((target) => !failed.has(target));
  return `${passed.length} passed, ${failed.size} failed`;
}
