import { mkdirSync } from "node:fs";
import { join } from "node:path";
import type { Overview } from "selfsame-apps/audit";

import { Child } from "./child.ts";
import type { ClosedNetwork } from "./closed.ts";
import { type AuditPlan, PLATFORMS, type Plan, type Platform, savePlan } from "./plan.ts";
import { type Built, programOf, type Start } from "./programs.ts";
import { ticketKeyFile } from "./secret.ts";
import type { NodeStatus } from "./status.ts";

/** What a runtime has verified of the audit log. */
export type Verified = Overview & { verifiedBy: string };

/** Who owns the names of the main job, what each node may serve, and the log that all of them hold. */
export type Deployment = {
  owner: string;
  grants: Record<Platform, Record<string, string>>;
  audit: AuditPlan;
};

/** Where the plan of a cluster is kept. */
export const PLAN_FILE = "plan.json";

/** How long a node may take to tell of itself. */
const STATUS_TIMEOUT_MS = 2000;

/** A node that ended without having been asked to. */
export type Ended = { platform: Platform };

/** The three nodes of the main job, each a program of its own. */
export class Cluster {
  readonly plan: Plan;
  readonly #built: Built;
  /** Where its nodes keep their stores, keys and logs. */
  readonly folder: string;
  readonly #children: Map<Platform, Child> = new Map();
  readonly #onEnded: (ended: Ended) => void;
  /** The network, if it is closed. */
  readonly closed: ClosedNetwork | undefined;
  #deployment: Deployment | undefined;

  constructor(
    plan: Plan,
    built: Built,
    folder: string,
    onEnded: (ended: Ended) => void,
    closed?: ClosedNetwork,
  ) {
    this.plan = plan;
    this.#built = built;
    this.folder = folder;
    this.#onEnded = onEnded;
    this.closed = closed;
    mkdirSync(folder, { recursive: true, mode: 0o700 });
  }

  /** What nodes that start from now on serve. */
  deploy(deployment: Deployment): void {
    this.#deployment = deployment;
  }

  /** Public key of the owner of the names, once they are deployed. */
  get owner(): string | undefined {
    return this.#deployment?.owner;
  }

  /** The audit log, once it is deployed. */
  get audit(): AuditPlan | undefined {
    return this.#deployment?.audit;
  }

  /** Where a node answers HTTP. */
  urlOf(platform: Platform): string {
    return `http://127.0.0.1:${this.plan.ports[platform]}`;
  }

  /** The address at which others join through a node, if its id is known. */
  bootstrapOf(platform: Platform, scheme: "http" | "ws"): string[] {
    const id = this.plan.ids[platform];
    return id === undefined ? [] : [`${scheme}://127.0.0.1:${this.plan.ports[platform]}/.mesh#${id}`];
  }

  /** The process group of a node that runs. */
  pidOf(platform: Platform): number | undefined {
    return this.#children.get(platform)?.pid;
  }

  /** Whether a node runs. */
  isRunning(platform: Platform): boolean {
    return this.#children.get(platform)?.isRunning ?? false;
  }

  /** What a node that runs knows of itself and the ring. */
  async statusOf(platform: Platform): Promise<NodeStatus> {
    // The host prints its status whenever it changes.
    if (platform === "wasmtime") return this.#children.get(platform)?.said("status") as NodeStatus;
    const response = await fetch(`${this.urlOf(platform)}/status`, {
      signal: AbortSignal.timeout(STATUS_TIMEOUT_MS),
    });
    if (!response.ok) throw new Error(`${platform} answers ${response.status}`);
    return (await response.json()) as NodeStatus;
  }

  /** The file with all that a node prints. */
  logOf(platform: Platform): string {
    return join(this.folder, `${platform}.log`);
  }

  /** Starts a node, which joins through those of the others that run; resolves when it can be reached. */
  async start(platform: Platform): Promise<void> {
    const child = Child.start(programOf(platform, this.startOf(platform)));
    this.#children.set(platform, child);
    const ended = (): void => {
      if (this.#children.get(platform) !== child) return;
      this.#children.delete(platform);
      this.#onEnded({ platform });
    };
    child.ended.then(ended, ended);
    await child.ready;
    this.#remember(platform, String(child.said("id")));
  }

  /** How a node is started now. */
  startOf(platform: Platform): Start {
    const others = PLATFORMS.filter((other) => other !== platform && this.isRunning(other));
    return {
      built: this.#built,
      plan: this.plan,
      // A Durable Object dials by HTTP only: an outgoing WebSocket would keep it awake.
      bootstrap: others.flatMap((other) => this.bootstrapOf(other, platform === "workerd" ? "http" : "ws")),
      data: join(this.folder, platform),
      log: this.logOf(platform),
      owner: this.#deployment?.owner ?? "",
      grants: this.#deployment?.grants[platform] ?? {},
      ticketKey: ticketKeyFile(this.folder),
      audit: this.#deployment?.audit,
      zone: this.closed?.zone,
      certify: this.closed?.pages?.url,
    };
  }

  /** Ends a node as a crash would. */
  async kill(platform: Platform): Promise<void> {
    await this.#forget(platform)?.kill();
  }

  /** Asks a node to end. */
  async stop(platform: Platform): Promise<void> {
    await this.#forget(platform)?.stop();
  }

  /** Asks all nodes to end, and then the name server of a closed network. */
  async stopAll(): Promise<void> {
    await Promise.all(PLATFORMS.map((platform) => this.stop(platform)));
    this.closed?.close();
  }

  /** Stops the clock of a node, or lets it go on. */
  pause(platform: Platform, isPaused: boolean): void {
    this.#children.get(platform)?.signal(isPaused ? "SIGSTOP" : "SIGCONT");
  }

  #remember(platform: Platform, id: string): void {
    const known = this.plan.ids[platform];
    if (known === id) return;
    if (known !== undefined) {
      throw new Error(
        `${platform} has another identity than before: remove ${this.folder} to begin with a new ring`,
      );
    }
    this.plan.ids[platform] = id;
    savePlan(join(this.folder, PLAN_FILE), this.plan);
  }

  /** Nobody is told of the end of a node that was asked to end. */
  #forget(platform: Platform): Child | undefined {
    const child = this.#children.get(platform);
    this.#children.delete(platform);
    return child;
  }
}
