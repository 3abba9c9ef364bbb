/** The file of cases, and how they are played whatever carries the requests. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join as joinPath } from "node:path";

import { type Arrived, type Field, type Order, type Outcome, REPLY, type Reply, RUN } from "./probe.ts";

/** Who makes requests. */
export type Caller = "node" | "deno" | "workerd" | "rust" | "proxy";
/** Where services are. */
export type Callee = "node" | "deno" | "workerd" | "rust" | "exposed";

/** What headers are to be. */
interface Expected {
  headers?: Record<string, string>;
  without?: string[];
  cookies?: string[];
  body?: string;
}

/** A case of the file. */
export interface Case {
  name: string;
  callers?: Caller[];
  callees?: Callee[];
  order: Order;
  reply?: Reply;
  arrives?: Expected & { method?: string; path?: string };
  comes?: Expected & { status: number };
  /** There is no answer, and these words say why. */
  refused?: string;
}

/** The cases. */
export const cases: readonly Case[] = JSON.parse(
  readFileSync(joinPath(import.meta.dirname, "cases.json"), "utf8"),
);

/** Returns the cases that a caller can play with a service. */
export function casesOf(caller: Caller, callee: Callee): readonly Case[] {
  return cases.filter(
    ({ callers = [caller], callees = [callee] }) => callers.includes(caller) && callees.includes(callee),
  );
}

/** What makes the requests, and sees what arrives. */
export interface Stage {
  perform(caller: Caller, order: Order): Promise<Outcome | undefined>;
  /** The peer id of a caller. */
  idOf(caller: Caller): string | undefined;
  /** What arrived of a run at a service. */
  arrivedAt(callee: Callee, run: string): Promise<Arrived | null>;
}

/** Plays cases and counts what it asserts. */
export class Player {
  /** What was asserted. */
  assertions = 0;
  readonly #stage: Stage;
  #runs = 0;

  constructor(stage: Stage) {
    this.#stage = stage;
  }

  /** Has a caller make the request of a case to a service. */
  async play({ order, reply, arrives, comes, refused }: Case, caller: Caller, callee: Callee): Promise<void> {
    const run = `${++this.#runs}`;
    const renamed = (text: string): string =>
      text.replace("probe.mesh", `${callee}.mesh`).replace("PROBE.mesh", `${callee.toUpperCase()}.mesh`);
    const headers: Field[] = [
      ...order.headers.map(([name, value]): Field => [name, name === "host" ? renamed(value) : value]),
      [RUN, run],
      ...(reply === undefined ? [] : [[REPLY, inHeader(reply)] as const]),
    ];
    const outcome = await this.#stage.perform(caller, { ...order, url: renamed(order.url), headers });
    assert(outcome !== undefined);
    if (refused !== undefined) {
      assert("error" in outcome, JSON.stringify(outcome));
      this.#check(outcome.error.includes(refused), true, outcome.error);
      if (reply === undefined) this.#check(await this.#stage.arrivedAt(callee, run), null, "nothing arrives");
      return;
    }
    assert(!("error" in outcome) && comes !== undefined, JSON.stringify(outcome));
    this.#check(outcome.status, comes.status, "status");
    this.#compare("answer", comes, outcome.headers, outcome.body);
    if (arrives === undefined) return;
    const arrived = await this.#stage.arrivedAt(callee, run);
    assert(arrived !== null);
    this.#check(arrived.caller, this.#stage.idOf(caller), "caller");
    if (arrives.method !== undefined) this.#check(arrived.method, arrives.method, "method");
    if (arrives.path !== undefined) this.#check(arrived.path, arrives.path, "path");
    this.#compare("request", arrives, arrived.headers, arrived.body);
  }

  #check<T>(actual: T, expected: T, what: string): void {
    this.assertions += 1;
    assert.deepEqual(actual, expected, what);
  }

  /** Compares what is expected with a message. */
  #compare(what: string, expected: Expected, headers: readonly Field[], body: string): void {
    const valuesOf = (wanted: string): string[] =>
      headers.filter(([name]) => name === wanted).map(([, value]) => value);
    for (const [name, value] of Object.entries(expected.headers ?? {})) {
      this.#check(valuesOf(name), [value], `${what}: ${name}`);
    }
    for (const name of expected.without ?? []) this.#check(valuesOf(name), [], `${what}: ${name}`);
    if (expected.cookies !== undefined)
      this.#check(valuesOf("set-cookie"), expected.cookies, `${what}: cookies`);
    if (expected.body !== undefined) this.#check(body, expected.body, `${what}: body`);
  }
}

/** JSON that may stand in a header. */
function inHeader(value: unknown): string {
  return JSON.stringify(value).replaceAll(/[^ -~]/g, (character) => {
    return `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`;
  });
}
