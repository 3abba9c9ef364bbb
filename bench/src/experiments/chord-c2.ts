import { buildChord } from "../harness/build.ts";
import { ADMISSIONS, type Admission, Rings, type Scale, scaleOf } from "../harness/chord.ts";
import type { Experiment, Run } from "../harness/experiment.ts";
import { lines } from "../harness/plot.ts";
import { figure, type Row, ratioAtLeast } from "../harness/row.ts";
import { exactly, meanAndDeviation } from "../harness/statistics.ts";

/** What a ring that admits by certificates may cost; the paper's cost 12.5 %. */
const LESS = 0.9;
/** Games before the first that counts, so that members have met. */
const WARM_GAMES = 3;
/** Turns of each number of potatoes in each ring. */
const TURNS = 2;
/** Times that a pass is sent through the ring: the potato, what acknowledges it and that, and the answer to the last. */
const MESSAGES = 4;

/** One game. */
interface Game {
  readonly passes_per_second: number;
  readonly cpu_ns: number;
  readonly lost: number;
  readonly each: readonly number[];
}

type Games = Map<Admission, Map<number, Game[]>>;

async function play(rings: Rings, scale: Scale, run: Run): Promise<Games> {
  const games: Games = new Map(ADMISSIONS.map((admission) => [admission, new Map()]));
  const most = Math.max(...scale.potatoes);
  for (let warm = 0; warm < WARM_GAMES; warm += 1) {
    run.progress(`game ${warm + 1} of ${WARM_GAMES} that do not count`);
    for (const admission of ADMISSIONS) await rings.ask(admission, `potatoes/${2 * scale.potatoMs}`, most);
  }
  for (let turn = 0; turn < TURNS; turn += 1) {
    for (const count of scale.potatoes) {
      run.progress(`turn ${turn + 1} of ${TURNS}: ${count} potatoes`);
      await rings.inTurn(turn, async (admission) => {
        const game = JSON.parse(await rings.ask(admission, `potatoes/${scale.potatoMs}`, count)) as Game;
        const played = games.get(admission);
        played?.set(count, [...(played.get(count) ?? []), game]);
      });
    }
  }
  return games;
}

function rowsOf(games: Games, scale: Scale, hops: ReadonlyMap<Admission, number>): Row[] {
  const of = (admission: Admission, count: number) => games.get(admission)?.get(count) ?? [];
  const capacity = (admission: Admission, count: number) =>
    of(admission, count).map((game) => game.passes_per_second);
  const best = (admission: Admission) =>
    Math.max(...scale.potatoes.map((count) => meanAndDeviation(capacity(admission, count)).median));
  const pair = (what: string, unit: string, value: (admission: Admission) => number): Row => ({
    ...figure(what, unit, exactly(value("closed"))),
    peer: exactly(value("open")),
    peerName: "open",
    ratio: value("closed") / value("open"),
  });
  const most = Math.max(...scale.potatoes);
  const cpu = (admission: Admission) =>
    meanAndDeviation(of(admission, most).map((game) => game.cpu_ns / 1e3)).median;
  const lost = (admission: Admission) =>
    [...(games.get(admission)?.values() ?? [])].flat().reduce((sum, game) => sum + game.lost, 0);
  return [
    figure("members", "members", exactly(scale.members)),
    figure("length of a game (the paper's 60 s: CHORD_FULL=1)", "s", exactly(scale.potatoMs / 1000)),
    { ...pair("capacity", "passes/s", best), bar: ratioAtLeast(LESS) },
    ...scale.potatoes.map((count): Row => {
      const each = (admission: Admission) =>
        meanAndDeviation(of(admission, count).flatMap((game) => game.each));
      const [ours, peer] = [each("closed"), each("open")];
      const name = `passes of one potato, ${count} at a time`;
      return { ...figure(name, "passes/s", ours), peer, peerName: "open", ratio: ours.median / peer.median };
    }),
    pair("hops of a message", "hops", (admission) => hops.get(admission) ?? Number.NaN),
    pair("processor time of a pass", "us", cpu),
    pair(
      "processor time of a hop",
      "us",
      (admission) => cpu(admission) / (MESSAGES * (hops.get(admission) ?? 1)),
    ),
    pair("potatoes that were lost", "potatoes", lost),
  ];
}

function draw(games: Games): string {
  const series = (of: (game: Game) => number) =>
    [...games].map(([name, played]) => ({
      name,
      points: [...played].map(([count, all]) => [count, meanAndDeviation(all.map(of)).median] as const),
    }));
  return lines("potatoes at a time", [
    { title: "passes a second of all", series: series((game) => game.passes_per_second) },
    { title: "passes a second of one", series: series((game) => game.passes_per_second / game.each.length) },
  ]);
}

/** Hot potatoes (secure Chord, table 2 and figure 4). */
export const chordC2: Experiment = {
  name: "chord-c2",
  summary:
    "messages passed on to whoever is responsible for random ids, 10 to 160 at a time, closed ring beside open one",
  onAllCores: true,
  async prepare() {
    const binary = await buildChord();
    return async (run) => {
      const scale = scaleOf(run.quick);
      await using rings = await Rings.start(binary, scale.members, run.progress);
      const games = await play(rings, scale, run);
      const hops = new Map<Admission, number>();
      for (const admission of ADMISSIONS)
        hops.set(admission, Number(await rings.ask(admission, "hops/", 2000)));
      run.plot(draw(games));
      return rowsOf(games, scale, hops);
    };
  },
};
