import { isMet, type Row } from "./row.ts";
import type { Figure } from "./statistics.ts";

/** What a run of an experiment came to. */
export interface Result {
  readonly experiment: string;
  readonly machine: Readonly<Record<string, string | number>>;
  readonly rows: readonly Row[];
}

/** Rounds to four significant digits, but never an integer part. */
function rounded(value: number): number {
  return Math.abs(value) >= 1000 ? Math.round(value) : Number(value.toPrecision(4));
}

function show(value: number): string {
  return Math.abs(value) >= 1000 ? Math.round(value).toLocaleString("en-US") : `${rounded(value)}`;
}

function showSpread(figure: Figure | null): string {
  if (figure === null) return "";
  if (figure.lower === figure.upper) return show(figure.median);
  return `${show(figure.median)} (${show(figure.lower)} .. ${show(figure.upper)})`;
}

function showBar(row: Row): string {
  if (row.bar === null) return "";
  return `${row.bar.text}: ${isMet(row) ? "met" : "MISSED"}`;
}

/** The result as a table for people; quartiles stand in brackets after each median. */
export function toTable({ experiment, machine, rows }: Result): string {
  const header = ["what", "unit", "ours", "peer", "peer is", "ratio", "bar"];
  const cells = rows.map((row) => [
    row.what,
    row.unit,
    showSpread(row.ours),
    showSpread(row.peer),
    row.peerName ?? "",
    row.ratio === null ? "" : show(row.ratio),
    showBar(row),
  ]);
  const widths = header.map((title, column) =>
    Math.max(title.length, ...cells.map((line) => line[column]?.length ?? 0)),
  );
  const draw = (line: readonly string[]) =>
    line
      .map((cell, column) => cell.padEnd(widths[column] ?? 0))
      .join("  ")
      .trimEnd();
  const about = Object.entries(machine).map(([name, value]) => `${name} ${value}`);
  const rule = widths.map((width) => "-".repeat(width));
  return [`${experiment} (${about.join(", ")})`, "", draw(header), draw(rule), ...cells.map(draw)].join("\n");
}

/** The result as one line of JSON for programs. */
export function toJson({ experiment, machine, rows }: Result): string {
  return JSON.stringify({
    experiment,
    machine,
    rows: rows.map((row) => ({
      what: row.what,
      unit: row.unit,
      ours: rounded(row.ours.median),
      peer: row.peer === null ? null : rounded(row.peer.median),
      peerName: row.peerName,
      ratio: row.ratio === null ? null : rounded(row.ratio),
      bar: row.bar?.text ?? null,
      met: isMet(row),
    })),
  });
}

/** What the bars that were missed are, one line each. */
export function missed(rows: readonly Row[]): string[] {
  return rows.filter((row) => isMet(row) === false).map((row) => `${row.what}: ${row.bar?.text}`);
}
