import type { HistoryRecord } from "selfsame/capsule";

/** Who writes a capsule: the owner, whose number is 0, and those whom the owner has named. */
export type Writer = {
  number: number;
  /** What the owner calls it in the signed description, or its number. */
  name: string;
  /** The public key with which it signs, 64 hexadecimal digits. */
  key: string;
};

/** What the page has verified of a capsule. */
export type Graph = {
  /** The capsule's name in base32. */
  capsule: string;
  /** What the owner has signed about it. */
  description: string;
  writers: Writer[];
  /** Each record after all that point to it. */
  records: readonly HistoryRecord[];
  /** Names of the records that no other points to; each is signed. */
  heads: ReadonlySet<string>;
  /** Whether these are all records. */
  isWhole: boolean;
};

/** What one step of a proof shows. */
export type Step = {
  record: string;
  writer: number;
  /** Whether its writer's signature was checked, or that the step before points to it. */
  by: "signature" | "pointer";
};

/** The names that the owner gives writers in the description: `1 wasmtime, 2 deno`. */
export function writersOf(
  description: string,
  writers: readonly { readonly number: number; readonly key: string }[],
): Writer[] {
  const names = new Map(
    [...description.matchAll(/\b(\d{1,5}) ([\w-]{1,24})/g)].map(([, n, name]) => [Number(n), name]),
  );
  return writers.map(({ number, key }) => {
    const usual = number === 0 ? "owner" : `writer ${number}`;
    return { number, key, name: (number > 0 ? names.get(number) : undefined) ?? usual };
  });
}

/** A writer by its number; one that was revoked has no key any more. */
export function writerOf(writers: readonly Writer[], number: number): Writer {
  return writers.find((writer) => writer.number === number) ?? { number, key: "", name: `writer ${number}` };
}

/** The path of a proof: the first record is signed, each points to the next one, and the last is the record itself. */
export function stepsOf(
  path: readonly { readonly name: string; readonly writer: number }[],
  record: { readonly name: string; readonly writer: number },
): Step[] {
  const all = path.at(-1)?.name === record.name ? path : [...path, record];
  return all.map(({ name, writer }, index) => ({
    record: name,
    writer,
    by: index === 0 ? "signature" : "pointer",
  }));
}

/** A number and what is counted. */
export function count(number: number, what: string): string {
  return `${number} ${what}${number === 1 ? "" : /(s|ch)$/.test(what) ? "es" : "s"}`;
}
