/** A ring of members in all runtimes, and whether it is correct as each of them sees it. */
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { freePort } from "selfsame-twiitr/ports";
import { faultsOf } from "selfsame-twiitr/ring";

import { Clock } from "./clock.ts";
import { MemberProcess, type Programs, RUNTIMES, type Runtime } from "./member-process.ts";
import type { Random } from "./random.ts";

/** Between two looks at a ring that is not correct. */
const LOOK_MS = 250;
/** Between two looks at one that is. */
const CALM_LOOK_MS = 1_000;
/** How long a ring has to stay correct to count: what is refused shows at the next update between neighbours. */
const HOLD_MS = 5_000;
/** Below the ports that systems give to outgoing connections. */
const FIRST_PORT = 21_000;

const taken: number[] = [];
let looking: Promise<unknown> = Promise.resolve();

/** A port that nothing of this test has used yet. */
export function nextPort(): Promise<number> {
  const found = looking.then(async () => {
    const port = await freePort((taken.at(-1) ?? FIRST_PORT - 1) + 1);
    taken.push(port);
    return port;
  });
  looking = found.catch(() => undefined);
  return found;
}

/** What a ring is started with. */
export type RingParts = {
  readonly folder: string;
  readonly programs: Programs;
  readonly clockLibrary: string;
  readonly random: Random;
};

/** A ring with one member that things happen to. */
export class TestRing {
  readonly members: MemberProcess[] = [];
  readonly #parts: RingParts;
  readonly #network: string;

  constructor(parts: RingParts) {
    this.#parts = parts;
    this.#network = `recover-${parts.random.hex().slice(0, 8)}`;
    mkdirSync(parts.folder, { recursive: true });
  }

  /** Starts one member of each runtime, the subject, and for some seeds one more; resolves with the subject. */
  async start(runtime: Runtime): Promise<MemberProcess> {
    const { random } = this.#parts;
    const others: Runtime[] = [...RUNTIMES, ...(random.below(2) === 0 ? [random.pick(RUNTIMES)] : [])];
    const position = random.below(others.length + 1);
    for (const each of others.toSpliced(position, 0, runtime)) this.members.push(await this.create(each));
    const [first, ...rest] = this.members;
    if (first === undefined) throw new Error("a ring has members");
    await first.start();
    for (const member of rest) member.configure({ bootstrap: [bootstrapOf(first)] });
    await Promise.all(rest.map((member) => member.start()));
    for (const member of this.members) {
      const known = this.members.filter((other) => other !== member);
      member.configure({ bootstrap: known.map(bootstrapOf) });
    }
    return this.members[position] as MemberProcess;
  }

  /** Prepares a member with an identity of its own, or with that of another one whose settings are given. */
  async create(runtime: Runtime, like?: MemberProcess): Promise<MemberProcess> {
    const { folder, clockLibrary, programs, random } = this.#parts;
    const name = like === undefined ? `${runtime}-${this.members.length}` : `${like.settings.name}-copy`;
    const own = { network: this.#network, name, seed: random.hex(), domain: runtime, bootstrap: [] };
    return MemberProcess.create(
      runtime,
      {
        folder: join(folder, name),
        log: join(folder, `${name}.log`),
        clock: new Clock(clockLibrary, join(folder, `${name}.clock`)),
        programs,
        freePort: nextPort,
      },
      { ...own, ...like?.settings, port: await nextPort() },
    );
  }

  /** Waits until the ring is correct and stays so; resolves with the seconds until it was, rejects with what is wrong. */
  async untilCorrect(limit_ms: number): Promise<number> {
    const started = performance.now();
    let since: number | undefined;
    for (;;) {
      const began = performance.now();
      const faults = await this.#faults();
      if (faults.length > 0) since = undefined;
      else since ??= began;
      const now = performance.now();
      if (since !== undefined && now - since >= HOLD_MS) return (since - started) / 1000;
      if (since === undefined && now - started > limit_ms) throw new Error(faults.join(", "));
      await delay(since === undefined ? LOOK_MS : CALM_LOOK_MS);
    }
  }

  /** Ends all members. */
  async stop(): Promise<void> {
    await Promise.all(this.members.map((member) => member.dispose()));
  }

  async #faults(): Promise<string[]> {
    const ended = this.members.filter((member) => !member.isRunning);
    if (ended.length > 0) return Promise.all(ended.map(describeEnd));
    const asked = await Promise.allSettled(this.members.map((member) => member.status()));
    const silent = asked.flatMap((answer, at) =>
      answer.status === "rejected" ? [`${this.members[at]?.settings.name} tells no status`] : [],
    );
    if (silent.length > 0) return silent;
    const statuses = asked.flatMap((answer) => (answer.status === "fulfilled" ? [answer.value] : []));
    const names = new Map(statuses.map(({ id }, at) => [id.slice(0, 6), this.members[at]?.settings.name]));
    const faults = faultsOf(statuses).map((fault) => fault.replace(/^\w+/, (id) => names.get(id) ?? id));
    return faults.length > 0 ? faults : this.#unreached();
  }

  /** Which names are not reached, and from where. */
  async #unreached(): Promise<string[]> {
    const pairs = this.members.flatMap((from) =>
      this.members.map((to) => ({ from, name: to.settings.name })),
    );
    const called = await Promise.allSettled(pairs.map(({ from, name }) => from.call(name)));
    return pairs.flatMap(({ from, name }, at) => {
      const call = called[at];
      const reason = call?.status === "rejected" ? String(call.reason) : call?.value;
      return reason === undefined ? [] : [`${from.settings.name} does not reach ${name} (${reason})`];
    });
  }
}

async function describeEnd(member: MemberProcess): Promise<string> {
  return `${member.settings.name} has ended with ${(await member.endedWith()) ?? "no code"}`;
}

/** The address at which others join through a member. */
function bootstrapOf({ settings, id }: MemberProcess): string {
  return `http://127.0.0.1:${settings.port}/.mesh#${id}`;
}
