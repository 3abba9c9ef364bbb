import type { HistoryRecord } from "selfsame/capsule";

/** Height of a row, which is that of a target for a finger. */
export const ROW = 44;
/** Distance of two lanes, and of the first one from the border. */
const LANE = 26;
const MARGIN = 22;
/** Writers beyond so many share lanes: a phone is no wider. */
const MAX_LANES = 6;
/** How far a shortcut leaves its lane. */
const BULGE = 15;

/** A record with its place in the drawing. */
export type Row = { record: HistoryRecord; index: number; x: number; y: number };

/** A line from a record to one that it points to. */
export type Edge = {
  key: string;
  kind: "parent" | "merge" | "shortcut";
  /** The rows of its ends. */
  from: number;
  to: number;
  d: string;
};

/** All rows, and the width of the drawing. */
export type Lanes = { rows: Row[]; width: number };

/** Puts each record into a row of its own, and into the lane of its writer. */
export function lanesOf(records: readonly HistoryRecord[]): Lanes {
  const numbers = [...new Set(records.map(({ writer }) => writer))].sort((a, b) => a - b);
  const lanes = Math.max(1, Math.min(numbers.length, MAX_LANES));
  const rows = records.map((record, index) => ({
    record,
    index,
    x: MARGIN + LANE * (numbers.indexOf(record.writer) % lanes),
    y: ROW * index + ROW / 2,
  }));
  return { rows, width: 2 * MARGIN + LANE * (lanes - 1) };
}

/** The lines that are seen between two rows; what leads to records that are not there ends below. */
export function edgesOf({ rows }: Lanes, first: number, last: number): Edge[] {
  const places = new Map(rows.map((row) => [row.record.name, row]));
  return rows.slice(0, last + 1).flatMap((from) =>
    from.record.backpointers.flatMap((name): Edge[] => {
      const to = places.get(name);
      if (to === undefined || to.index < first) return [];
      const kind = kindOf(from.record, name);
      return [
        {
          key: `${from.record.name}-${name}`,
          kind,
          from: from.index,
          to: to.index,
          d: lineOf(from, to, kind),
        },
      ];
    }),
  );
}

function kindOf({ parents }: HistoryRecord, name: string): Edge["kind"] {
  const at = parents.indexOf(name);
  return at === 0 ? "parent" : at > 0 ? "merge" : "shortcut";
}

function lineOf(from: Row, to: Row, kind: Edge["kind"]): string {
  if (kind === "shortcut") {
    const x = Math.min(from.x, to.x) - BULGE;
    return `M ${from.x} ${from.y} C ${x} ${from.y + ROW / 2} ${x} ${to.y - ROW / 2} ${to.x} ${to.y}`;
  }
  if (from.x === to.x) return `M ${from.x} ${from.y} L ${to.x} ${to.y}`;
  const middle = (from.y + to.y) / 2;
  return `M ${from.x} ${from.y} C ${from.x} ${middle} ${to.x} ${middle} ${to.x} ${to.y}`;
}
