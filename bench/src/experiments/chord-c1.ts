import { buildChord } from "../harness/build.ts";
import { ADMISSIONS, type Admission, Rings, type Scale, scaleOf } from "../harness/chord.ts";
import type { Experiment, Run } from "../harness/experiment.ts";
import { lines } from "../harness/plot.ts";
import { type Bar, figure, type Row, ratioAtLeast, ratioAtMost } from "../harness/row.ts";
import { deviation, exactly, mean, summarise } from "../harness/statistics.ts";

/** What a ring that admits by certificates may cost; the paper's cost 20.2 and 19.4 %. */
const SLOWER = 1.1;
const LESS = 0.88;
/** Ranks at which sorted curves are drawn. */
const RANKS = [1, 2, 5, 10, 20, 50, 100, 150, 200, 250];

/** What was measured of one member from the first one. */
interface Peer {
  /** Times that a ping is sent from member to member until its answer is back. */
  readonly hops: number;
  /** The means of the minimums of each series. */
  readonly rtt_us: number;
  readonly packets_per_second: number;
}

/** The paper's figure of one member: the best run of each series, and the mean of these. */
class Series {
  readonly #best: number[] = [];

  note(series: number, value: number): void {
    this.#best[series] = Math.min(value, this.#best[series] ?? Number.POSITIVE_INFINITY);
  }

  get mean(): number {
    return mean(this.#best);
  }
}

async function measure(rings: Rings, scale: Scale, run: Run): Promise<Map<Admission, Peer[]>> {
  const indices = Array.from({ length: scale.responders }, (_, index) => index + 1).filter(
    (index) => index < scale.members,
  );
  const rtts = new Map(ADMISSIONS.map((admission) => [admission, indices.map(() => new Series())]));
  const gaps = new Map(ADMISSIONS.map((admission) => [admission, indices.map(() => new Series())]));
  run.progress("shaking hands");
  for (const admission of ADMISSIONS) {
    for (const index of indices) await rings.ask(admission, `ping/${index}`, 3);
  }
  for (let series = 0; series < scale.series; series += 1) {
    for (let turn = 0; turn < scale.runs; turn += 1) {
      run.progress(`series ${series + 1} of ${scale.series}, run ${turn + 1} of ${scale.runs}`);
      for (const [at, index] of indices.entries()) {
        await rings.inTurn(turn + at, async (admission) => {
          const ping = JSON.parse(await rings.ask(admission, `ping/${index}`, scale.pings));
          rtts.get(admission)?.[at]?.note(series, ping.ns);
          const gap = await rings.ask(admission, `packets/${index}`, scale.packets);
          gaps.get(admission)?.[at]?.note(series, Number(gap));
        });
      }
    }
  }
  const peers = async (admission: Admission): Promise<Peer[]> => {
    const paths = JSON.parse(await rings.ask(admission, "paths/", 1)) as [number, number][];
    return indices.map((index, at) => ({
      hops: (paths[index] ?? [0, 0])[0] + (paths[index] ?? [0, 0])[1],
      rtt_us: (rtts.get(admission)?.[at]?.mean ?? Number.NaN) / 1e3,
      packets_per_second: 1e9 / (gaps.get(admission)?.[at]?.mean ?? Number.NaN),
    }));
  };
  return new Map([
    ["closed", await peers("closed")],
    ["open", await peers("open")],
  ]);
}

/** The ratio of means over members that are as many hops away in both rings: their places differ. */
function ratioAtEqualHops(
  closed: readonly Peer[],
  open: readonly Peer[],
  of: (peer: Peer) => number,
): number {
  const sums = [0, 0];
  for (const hops of new Set(closed.map((peer) => peer.hops))) {
    const [ours, theirs] = [closed, open].map((peers) => peers.filter((peer) => peer.hops === hops).map(of));
    const count = Math.min(ours?.length ?? 0, theirs?.length ?? 0);
    if (count === 0) continue;
    sums[0] = (sums[0] ?? 0) + count * mean(ours ?? []);
    sums[1] = (sums[1] ?? 0) + count * mean(theirs ?? []);
  }
  return (sums[0] ?? Number.NaN) / (sums[1] ?? Number.NaN);
}

function compared(
  what: string,
  unit: string,
  closed: readonly Peer[],
  open: readonly Peer[],
  of: (peer: Peer) => number,
  bar: Bar,
): Row[] {
  const [ours, theirs] = [closed.map(of), open.map(of)];
  const row = (name: string, statistic: (values: readonly number[]) => number): Row => ({
    ...figure(`${what}, ${name}`, unit, exactly(statistic(ours))),
    peer: exactly(statistic(theirs)),
    peerName: "open",
    ratio: statistic(ours) / statistic(theirs),
  });
  return [
    {
      ...figure(`${what}, at equal hops`, unit, summarise(ours)),
      peer: summarise(theirs),
      peerName: "open",
      ratio: ratioAtEqualHops(closed, open, of),
      bar,
    },
    row("mean", mean),
    row("highest", (values) => Math.max(...values)),
    row("lowest", (values) => Math.min(...values)),
    row("deviation", deviation),
  ];
}

function draw(measured: ReadonlyMap<Admission, readonly Peer[]>): string {
  const sorted = (of: (peer: Peer) => number, direction: 1 | -1) =>
    [...measured].map(([name, peers]) => {
      const values = peers.map(of).sort((a, b) => direction * (a - b));
      const ranks = RANKS.filter((rank) => rank <= values.length);
      return { name, points: ranks.map((rank) => [rank, values[rank - 1] ?? 0] as const) };
    });
  return lines("members, sorted", [
    { title: "round trip through the ring, us", series: sorted((peer) => peer.rtt_us, 1) },
    { title: "messages a second from a member", series: sorted((peer) => peer.packets_per_second, -1) },
  ]);
}

/** Round trips and messages a second through a ring (secure Chord, table 1 and figures 2 and 3). */
export const chordC1: Experiment = {
  name: "chord-c1",
  summary:
    "round trips and messages a second from one of 255 members to the others, closed ring beside open one",
  onAllCores: true,
  async prepare() {
    const binary = await buildChord();
    return async (run) => {
      const scale = scaleOf(run.quick);
      await using rings = await Rings.start(binary, scale.members, run.progress);
      const measured = await measure(rings, scale, run);
      run.plot(draw(measured));
      const [closed, open] = [measured.get("closed") ?? [], measured.get("open") ?? []];
      const hops = (peers: readonly Peer[]) => mean(peers.map((peer) => peer.hops));
      const rtt = (peer: Peer) => peer.rtt_us;
      const rate = (peer: Peer) => peer.packets_per_second;
      return [
        figure("members", "members", exactly(scale.members)),
        figure(
          "series x runs (the paper's 12 x 10: CHORD_FULL=1)",
          "runs",
          exactly(scale.series * scale.runs),
        ),
        {
          ...figure("hops of a ping and its answer", "hops", exactly(hops(closed))),
          peer: exactly(hops(open)),
          peerName: "open",
        },
        ...compared("round trip", "us", closed, open, rtt, ratioAtMost(SLOWER)),
        ...compared("messages a second", "1/s", closed, open, rate, ratioAtLeast(LESS)),
      ];
    };
  },
};
