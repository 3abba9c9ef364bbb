import { mkdir, writeFile } from "node:fs/promises";
import path from "node:path";
import process from "node:process";
import { parseArgs } from "node:util";

import { channel } from "./experiments/channel.ts";
import { chordC1 } from "./experiments/chord-c1.ts";
import { chordC2 } from "./experiments/chord-c2.ts";
import { chordC3 } from "./experiments/chord-c3.ts";
import { core } from "./experiments/core.ts";
import { dcsD1 } from "./experiments/dcs-d1.ts";
import { dcsD2 } from "./experiments/dcs-d2.ts";
import { dcsD3 } from "./experiments/dcs-d3.ts";
import { dcsD4 } from "./experiments/dcs-d4.ts";
import { dcsNode } from "./experiments/dcs-node.ts";
import { handshake } from "./experiments/handshake.ts";
import { r2p2First } from "./experiments/r2p2-first.ts";
import { r2p2R1 } from "./experiments/r2p2-r1.ts";
import { r2p2R2 } from "./experiments/r2p2-r2.ts";
import { r2p2R3 } from "./experiments/r2p2-r3.ts";
import { r2p2Rate } from "./experiments/r2p2-rate.ts";
import { r2p2Tail } from "./experiments/r2p2-tail.ts";
import { themisT2 } from "./experiments/themis-t2.ts";
import { themisT3 } from "./experiments/themis-t3.ts";
import { themisT4 } from "./experiments/themis-t4.ts";
import { themisT5 } from "./experiments/themis-t5.ts";
import type { Experiment } from "./harness/experiment.ts";
import { describeMachine, pinToOneCore } from "./harness/machine.ts";
import { FULL, QUICK } from "./harness/measure.ts";
import { Problem } from "./harness/problem.ts";
import { endProgress, progress } from "./harness/progress.ts";
import { missed, type Result, toJson, toTable } from "./harness/report.ts";

/** Exit codes: a bar was missed, the experiment could not run, the command line is wrong. */
const MISSED = 1;
const BAD_USAGE = 2;

const EXPERIMENTS: readonly Experiment[] = [
  core,
  handshake,
  channel,
  themisT2,
  themisT3,
  themisT4,
  themisT5,
  dcsD1,
  dcsD2,
  dcsD3,
  dcsD4,
  dcsNode,
  r2p2R1,
  r2p2R2,
  r2p2R3,
  r2p2First,
  r2p2Rate,
  r2p2Tail,
  chordC1,
  chordC2,
  chordC3,
];

const USAGE = `usage: npm run bench -- NAME [--quick] [--json] [--save FOLDER]

  --quick        a few short rounds: shows that all works, the figures are rough
  --json         one JSON object on standard output in place of the table
  --save FOLDER  writes NAME.json there too, and NAME.svg if the experiment draws a plot

names:
${EXPERIMENTS.map(({ name, summary }) => `  ${name.padEnd(10)} ${summary}`).join("\n")}`;

interface Options {
  readonly experiment: Experiment;
  readonly quick: boolean;
  readonly json: boolean;
  readonly save: string | undefined;
}

function parseOptions(args: string[]): Options | "help" {
  const { values, positionals } = parseArgs({
    args,
    allowPositionals: true,
    options: {
      quick: { type: "boolean", default: false },
      json: { type: "boolean", default: false },
      save: { type: "string" },
      help: { type: "boolean", short: "h", default: false },
    },
  });
  if (values.help) return "help";
  const names = EXPERIMENTS.map(({ name }) => name).join(", ");
  if (positionals.length !== 1) throw new Problem(`expected one name of: ${names}`);
  const experiment = EXPERIMENTS.find(({ name }) => name === positionals[0]);
  if (experiment === undefined) throw new Problem(`no experiment ${positionals[0]}; the names are: ${names}`);
  return { experiment, quick: values.quick, json: values.json, save: values.save };
}

async function run({ experiment, quick, save }: Options): Promise<Result> {
  const measure = await experiment.prepare();
  const machine = describeMachine(experiment.onAllCores === true ? undefined : pinToOneCore());
  const clock = experiment.onAllCores === true ? { clock: "elapsed time" } : {};
  let drawing: string | undefined;
  const plot = (svg: string) => {
    drawing = svg;
  };
  const rows = await measure({ effort: quick ? QUICK : FULL, quick, progress, plot });
  const effort = quick ? "quick" : "full";
  const result = { experiment: experiment.name, machine: { ...machine, ...clock, effort }, rows };
  if (save !== undefined) {
    await mkdir(save, { recursive: true });
    await writeFile(path.join(save, `${experiment.name}.json`), `${toJson(result)}\n`);
    if (drawing !== undefined) await writeFile(path.join(save, `${experiment.name}.svg`), drawing);
  }
  return result;
}

async function main(): Promise<number> {
  let options: Options | "help";
  try {
    options = parseOptions(process.argv.slice(2));
  } catch (error) {
    process.stderr.write(`${error instanceof Error ? error.message.split("\n")[0] : error}\n`);
    return BAD_USAGE;
  }
  if (options === "help") {
    process.stdout.write(`${USAGE}\n`);
    return 0;
  }
  try {
    const result = await run(options);
    endProgress();
    process.stdout.write(`${options.json ? toJson(result) : toTable(result)}\n`);
    const misses = missed(result.rows);
    for (const miss of misses) process.stderr.write(`missed: ${miss}\n`);
    return misses.length > 0 ? MISSED : 0;
  } catch (error) {
    if (!(error instanceof Problem)) throw error;
    endProgress();
    process.stderr.write(`${error.message}\n`);
    return BAD_USAGE;
  }
}

process.exitCode = await main();
