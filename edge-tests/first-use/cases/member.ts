import { sectionOf } from "../document.ts";
import { Newcomer, type NewcomerOptions } from "../newcomer.ts";
import type { Stage } from "../scenario.ts";

export const QUICK_START = "docs/quick-start.md";

/** What a newcomer has on a machine with the current Node, Deno and the program `selfsame`. */
export function optionsOf({ report, tools }: Stage): NewcomerOptions {
  return {
    path: [tools.nodes.current.folder, tools.deno, tools.selfsame],
    replaced: tools.replaced,
    note: report.note,
  };
}

/** A newcomer who has done what the quick start says up to the member that the other platforms join through. */
export async function withMember(stage: Stage): Promise<Newcomer> {
  const newcomer = await Newcomer.arrive(optionsOf(stage));
  try {
    await newcomer.follow(sectionOf(QUICK_START, "Node"), /^node (?:hello|chat)\.mjs/);
    return newcomer;
  } catch (error) {
    await newcomer.leave();
    throw error;
  }
}

/** Gives the examples of a command's help text, once. */
export type Take = (path: string) => string[];

/** Runs one command. */
export function command(newcomer: Newcomer, text: string, prints?: string): Promise<string> {
  return newcomer.run({ text, prints });
}

/** What a command that must fail says. */
export async function failureOf(newcomer: Newcomer, text: string): Promise<string> {
  const output = await newcomer.run({ text, prints: undefined }).catch((error: Error) => error);
  if (output instanceof Error) return output.message;
  throw new Error(`$ ${text}\ndid not fail:\n${output}`);
}
