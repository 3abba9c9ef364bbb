/** The six members and two leaves of a soak test: of each platform one member that lives on and one that is killed now and then. */
import { mkdirSync } from "node:fs";
import type { Server } from "node:http";
import { join } from "node:path";
import { freePort } from "selfsame-twiitr/ports";

import type { Random } from "../recover/random.ts";
import { openBackend } from "./backend.ts";
import type { SoakCapsule } from "./capsule.ts";
import { Forwarder } from "./forwarder.ts";
import { type Host, Participant, type Programs } from "./participant.ts";
import { countAt } from "./service.ts";

/** Below the ports that systems give to outgoing connections. */
const FIRST_PORT = 22_000;

/** Who takes part: `a` lives from the beginning to the end behind a port that can be cut, `b` is ended and started. */
const CAST: readonly { name: string; host: Host; isReplica?: true; isLeaf?: true }[] = [
  { name: "rust-a", host: "rust" },
  { name: "deno-a", host: "deno", isReplica: true },
  { name: "workerd-a", host: "workerd" },
  { name: "rust-b", host: "rust", isReplica: true },
  { name: "node-b", host: "node" },
  { name: "workerd-b", host: "workerd", isReplica: true },
  { name: "leaf-rust", host: "rust", isLeaf: true },
  { name: "leaf-node", host: "node", isLeaf: true },
];

/** What a stage is set up with. */
export interface StageParts {
  readonly folder: string;
  readonly random: Random;
  readonly programs: Programs;
  readonly ledger: string;
  readonly capsule: SoakCapsule;
  /** Whether heaps of workerd are to be looked at. */
  readonly inspects: boolean;
  readonly note: (line: string) => void;
}

/** All who take part, started. */
export interface Stage {
  readonly network: string;
  readonly members: readonly Participant[];
  readonly leaves: readonly Participant[];
  /** Members that may be ended. */
  readonly mortals: readonly Participant[];
  readonly replicas: readonly Participant[];
  readonly writers: readonly Participant[];
  /** The replica at which the capsule is created. */
  readonly firstReplica: { readonly participant: Participant; readonly url: string };
  /** Closes what stands before and behind the participants. */
  close(): void;
}

/** Starts all of them. */
export async function startStage(parts: StageParts): Promise<Stage> {
  const network = `soak-${parts.random.hex().slice(0, 8)}`;
  const ports = new Ports();
  const backend = await openBackend((id) => countAt(parts.ledger, id));
  const replicaPort = await ports.next();
  const participants: Participant[] = [];
  for (const { name, host, isReplica, isLeaf } of CAST) {
    const port = name === "deno-a" ? replicaPort : await ports.next();
    const isSteady = name.endsWith("-a");
    const forwarder = isSteady ? await Forwarder.open(await ports.next(), port) : undefined;
    const folder = join(parts.folder, name);
    mkdirSync(folder, { recursive: true, mode: 0o700 });
    participants.push(
      new Participant({
        host,
        programs: parts.programs,
        forwarder,
        rust:
          host === "rust"
            ? { proxy: await ports.next(), replica: await ports.next(), backend: backend.port }
            : undefined,
        inspectorPort: host === "workerd" && parts.inspects ? await ports.next() : undefined,
        replicas: [`http://127.0.0.1:${replicaPort}/capsule`],
        settings: {
          network,
          name,
          seed: parts.random.hex(),
          port,
          authority: isLeaf ? undefined : `127.0.0.1:${forwarder?.port ?? port}`,
          bootstrap: [],
          ledger: parts.ledger,
          folder,
          keep: isReplica ? parts.capsule.name : undefined,
        },
      }),
    );
  }
  await startAll(participants, parts.note);
  const named = (name: string): Participant => participants.find((one) => one.name === name) as Participant;
  return {
    network,
    members: participants.filter(({ isMember }) => isMember),
    leaves: participants.filter(({ isMember }) => !isMember),
    mortals: participants.filter(({ name }) => name.endsWith("-b")),
    replicas: participants.filter(({ isReplica }) => isReplica),
    writers: [named("deno-a"), named("leaf-node")],
    firstReplica: { participant: named("deno-a"), url: `http://127.0.0.1:${replicaPort}/capsule` },
    close: () => closeAll(participants, backend.server),
  };
}

/** The first one begins the ring; later each joins through those that live on. */
async function startAll(participants: readonly Participant[], note: (line: string) => void): Promise<void> {
  const steady: Participant[] = [];
  for (const participant of participants) {
    note(`starting ${participant.name}`);
    participant.joinThrough(steady.map(({ bootstrap }) => bootstrap));
    await participant.start();
    if (participant.name.endsWith("-a")) steady.push(participant);
  }
}

function closeAll(participants: readonly Participant[], backend: Server): void {
  for (const { forwarder } of participants) forwarder?.close();
  backend.close();
  backend.closeAllConnections();
}

/** Ports that nothing of this test has taken yet. */
class Ports {
  #last: number = FIRST_PORT - 1;

  async next(): Promise<number> {
    this.#last = await freePort(this.#last + 1);
    return this.#last;
  }
}
