import { buildChord } from "../harness/build.ts";
import type { Experiment } from "../harness/experiment.ts";
import { interleave } from "../harness/measure.ts";
import { bars } from "../harness/plot.ts";
import { TaskProcess } from "../harness/process.ts";
import { ratioAtLeast, timed } from "../harness/row.ts";

const OF_NONE = 0.85;
const OF_ED25519 = 8;
/** What the paper reports, on other hardware. */
const PAPER = { none: 4000, mac: 3500, rsa: 15 };

const WAYS = ["mac", "none", "ed25519"] as const;

/** Pings of two peers whose messages are authenticated in three ways (secure Chord, section 3.3). */
export const chordC3: Experiment = {
  name: "chord-c3",
  summary: "pings of two peers: not authenticated, by the channel, by Ed25519 on every message",
  async prepare() {
    const binary = await buildChord();
    return async (run) => {
      await using peers = new TaskProcess("pair", binary, []);
      const works = WAYS.map((way) => peers.work(`pair/${way}`));
      const [mac = [], none = [], ed25519 = []] = await interleave(works, run.effort, run.progress);
      const row = (name: string, samples: readonly number[], least: number) =>
        timed(`pings, sealed by the channel`, "1/s", mac, { name, samples }, ratioAtLeast(least));
      const rows = [
        row("not authenticated", none, OF_NONE),
        row("Ed25519 on every message", ed25519, OF_ED25519),
      ];
      run.plot(
        bars("Pings a second of two peers on one machine", [
          { name: "the channel", value: rows[0]?.ours.median ?? 0 },
          ...rows.map(({ peer, peerName }) => ({ name: peerName ?? "", value: peer?.median ?? 0 })),
          { name: "the paper's, HMAC", value: PAPER.mac },
          { name: "the paper's, not authenticated", value: PAPER.none },
          { name: "the paper's, RSA-2048 on every message", value: PAPER.rsa },
        ]),
      );
      return rows;
    };
  },
};
