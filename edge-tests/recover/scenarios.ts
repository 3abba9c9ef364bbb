/** What happens to the subject of a ring: each scenario resolves at its last change. */
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";

import type { MemberProcess } from "./member-process.ts";
import type { Random } from "./random.ts";
import type { MemberSettings } from "./settings.ts";
import { nextPort, type TestRing } from "./test-ring.ts";

/** Longest time until the ring is correct between two changes. */
const SETTLE_MS = 30_000;
/** How long a copy runs beside the original. */
const BESIDE_MS = 10_000;
/** How long a clock stays an hour ahead. */
const HOUR_AHEAD_MS = 15_000;
/** How long a clock stays two days ahead. */
const DAYS_AHEAD_MS = 30_000;
const HOUR_MS = 60 * 60 * 1000;
const TWO_DAYS_MS = 48 * HOUR_MS;

/** Where a scenario plays. */
export type Stage = {
  readonly ring: TestRing;
  readonly subject: MemberProcess;
  readonly random: Random;
  /** Folder for copies. */
  readonly folder: string;
  /** Tells what happens. */
  readonly say: (what: string) => void;
};

/** Plays on a stage; resolves at the last change, with the copy that runs beside the original if one does. */
export type Scenario = (stage: Stage) => Promise<MemberProcess | undefined>;

/** All scenarios by name. */
export const SCENARIOS: Readonly<Record<string, Scenario>> = {
  "copied-restored": copiedAndRestored,
  "cloned-stopped": clonedAndStopped,
  "cloned-running": clonedAndRunning,
  "moved-restored": movedAndRestored,
  "hour-ahead": hourAhead,
  "days-ahead": daysAhead,
  "ports-changed": portsChanged,
};

/** Ends a member as a crash or as an operator does. */
async function end(member: MemberProcess, { random, say }: Stage): Promise<void> {
  const isCrash = random.below(2) === 0;
  say(`${isCrash ? "killing" : "stopping"} ${member.settings.name}`);
  await (isCrash ? member.kill() : member.stop());
}

/** Ends a member and starts it with other settings; resolves when the ring is correct again. */
async function restartWith(changes: Partial<MemberSettings>, stage: Stage): Promise<void> {
  const { ring, subject, say } = stage;
  await end(subject, stage);
  subject.configure(changes);
  say(`starting ${subject.settings.name} with ${Object.keys(changes).join(" and ")} changed`);
  await subject.start();
  await settled(ring);
}

async function settled(ring: TestRing): Promise<void> {
  await ring.untilCorrect(SETTLE_MS).catch((error: unknown) => {
    throw new Error(`before the last change: ${error instanceof Error ? error.message : error}`);
  });
}

/** The folder is copied while the node runs; later, when its record has changed, the copy is restored. */
async function copiedAndRestored(stage: Stage): Promise<undefined> {
  const { subject, folder, say } = stage;
  const copy = join(folder, "copy");
  const { domain } = subject.settings;
  say(`copying the folder of ${subject.settings.name} while it runs`);
  subject.copyFolder(copy);
  await restartWith({ domain: "elsewhere" }, stage);
  await end(subject, stage);
  say(`restoring the copy of ${subject.settings.name}`);
  subject.restoreFolder(copy);
  subject.configure({ domain });
  await subject.start();
}

/** Copies the running subject and starts the copy at another port. */
async function startCopy({ ring, subject, say }: Stage): Promise<MemberProcess> {
  say(`starting a copy of ${subject.settings.name} beside it`);
  const copy = await ring.create(subject.runtime, subject);
  subject.copyFolder(copy.folder);
  await copy.start();
  return copy;
}

async function clonedAndStopped(stage: Stage): Promise<undefined> {
  const copy = await startCopy(stage);
  await delay(BESIDE_MS);
  await end(copy, stage);
  await copy.dispose();
}

function clonedAndRunning(stage: Stage): Promise<MemberProcess> {
  return startCopy(stage);
}

/** The node moves with its folder; later the folder that stayed behind is started again at the earlier port. */
async function movedAndRestored(stage: Stage): Promise<undefined> {
  const { subject, ring, folder, say } = stage;
  const behind = join(folder, "behind");
  const { port } = subject.settings;
  await end(subject, stage);
  subject.copyFolder(behind);
  subject.configure({ port: await nextPort() });
  say(`starting ${subject.settings.name} at another port`);
  await subject.start();
  await settled(ring);
  await end(subject, stage);
  say(`starting the folder that stayed behind, at the earlier port`);
  subject.restoreFolder(behind);
  subject.configure({ port });
  await subject.start();
}

/** The clocks that go wrong together: the subject's alone, or those of all members, as on one machine. */
function wrongClocks({ ring, subject, random, say }: Stage): MemberProcess[] {
  const isMachine = random.below(2) === 0;
  say(`${isMachine ? "every clock" : `the clock of ${subject.settings.name}`} goes wrong`);
  return isMachine ? ring.members : [subject];
}

function setClocks(members: readonly MemberProcess[], ahead_ms: number): void {
  for (const { clock } of members) clock.set(ahead_ms);
}

/** A clock goes an hour ahead, before a start or while the node runs, and is corrected while it runs or by a start. */
async function hourAhead(stage: Stage): Promise<undefined> {
  const { subject, random, say } = stage;
  const members = wrongClocks(stage);
  const [startsWrong, startsRight] = [random.below(2) === 0, random.below(2) === 0];
  if (startsWrong) await end(subject, stage);
  setClocks(members, HOUR_MS);
  say(`an hour ahead${startsWrong ? " before a start" : ""}`);
  if (startsWrong) await subject.start();
  await delay(HOUR_AHEAD_MS);
  if (startsRight && subject.isRunning) await end(subject, stage);
  setClocks(members, 0);
  say("corrected");
  // A program that could not join has ended; what looks after it starts it again.
  if (!subject.isRunning) await subject.start();
}

/** A clock goes two days ahead for half a minute while the node runs. */
async function daysAhead(stage: Stage): Promise<undefined> {
  const members = wrongClocks(stage);
  setClocks(members, TWO_DAYS_MS);
  stage.say("two days ahead");
  await delay(DAYS_AHEAD_MS);
  setClocks(members, 0);
  stage.say("corrected");
}

async function portsChanged(stage: Stage): Promise<undefined> {
  const { subject, say } = stage;
  const { port } = subject.settings;
  await restartWith({ port: await nextPort() }, stage);
  await end(subject, stage);
  say(`starting ${subject.settings.name} at its earlier port`);
  subject.configure({ port });
  await subject.start();
}
