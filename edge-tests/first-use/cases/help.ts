import { run } from "../../lib/run.ts";
import { selfsame } from "../../lib/sidecar.ts";

/** Examples of the program's help texts, by the command that each belongs to, such as `capsule append`; "" is the program itself. */
export async function helpExamples(): Promise<Map<string, string[]>> {
  const examples = new Map<string, string[]>();
  const read = async (path: readonly string[]): Promise<void> => {
    const help = await run(selfsame(), [...path, "--help"]);
    const lines = examplesOf(help);
    if (lines.length > 0) examples.set(path.join(" "), lines);
    for (const command of subcommandsOf(help)) await read([...path, command]);
  };
  await read([]);
  return examples;
}

/** The indented lines below `Example:` or `Examples:`. */
export function examplesOf(help: string): string[] {
  const [, after] = help.split(/^Examples?:\n/m);
  const lines: string[] = [];
  for (const line of (after ?? "").split("\n")) {
    if (!line.startsWith("  ")) break;
    lines.push(line.trim());
  }
  return lines;
}

function subcommandsOf(help: string): string[] {
  const [, after] = help.split(/^Commands:\n/m);
  const names: string[] = [];
  for (const line of (after ?? "").split("\n")) {
    const [, name] = /^ {2}([a-z]+)(?: |$)/.exec(line) ?? [];
    if (name === undefined && line === "") break;
    if (name !== undefined && name !== "help") names.push(name);
  }
  return names;
}
