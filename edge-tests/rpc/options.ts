import { parseArgs } from "node:util";

/**
 * Reads options of the command line that are whole numbers from 0, each with its value in a full run; `--short` takes
 * the values of a short one.
 */
export function numbersFrom<Name extends string>(
  full: Readonly<Record<Name, number>>,
  short: Readonly<Partial<Record<Name, number>>>,
): Record<Name, number> & { readonly isShort: boolean } {
  const names = Object.keys(full) as Name[];
  const { values } = parseArgs({
    options: {
      short: { type: "boolean", default: false },
      ...Object.fromEntries(names.map((name) => [name, { type: "string" as const }])),
    },
  });
  const given = values as Readonly<Record<string, string | boolean | undefined>>;
  const isShort = given.short === true;
  const numbers: Record<Name, number> = { ...full, ...(isShort ? short : {}) };
  for (const name of names) {
    const text = given[name];
    if (text === undefined) continue;
    const number = Number(text);
    if (!Number.isSafeInteger(number) || number < 0)
      throw new Error(`--${name} is a whole number, not ${text}`);
    numbers[name] = number;
  }
  return { ...numbers, isShort };
}
