/** One line of a plot. */
export interface Series {
  readonly name: string;
  readonly points: readonly (readonly [x: number, y: number])[];
}

/** One plot among those below each other, which share the horizontal axis. */
export interface Panel {
  readonly title: string;
  readonly series: readonly Series[];
}

const WIDTH = 760;
const PANEL_HEIGHT = 260;
const LEFT = 90;
const RIGHT = 190;
const TOP = 34;
const BOTTOM = 46;
/** Colours that the colour-blind tell apart (Okabe and Ito). */
const COLOURS = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000"];
const BAR_HEIGHT = 18;
const BAR_GAP = 10;

function escaped(text: string): string {
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll('"', "&quot;");
}

function label(x: number, y: number, text: string, anchor = "start"): string {
  return `<text x="${x.toFixed(1)}" y="${y.toFixed(1)}" text-anchor="${anchor}">${escaped(text)}</text>`;
}

function page(height: number, parts: readonly string[]): string {
  const style = "font: 12px sans-serif; background: white";
  const size = `width="${WIDTH}" height="${height}" viewBox="0 0 ${WIDTH} ${height}"`;
  return `<svg xmlns="http://www.w3.org/2000/svg" ${size} style="${style}">\n${parts.join("\n")}\n</svg>\n`;
}

function short(value: number): string {
  return value.toLocaleString("en-US", { maximumSignificantDigits: 3, notation: "compact" });
}

/** Powers of ten around all values. */
function decades(values: readonly number[]): number[] {
  const positive = values.filter((value) => value > 0);
  const from = Math.floor(Math.log10(Math.min(...positive)));
  const to = Math.max(from + 1, Math.ceil(Math.log10(Math.max(...positive))));
  return Array.from({ length: to - from + 1 }, (_, step) => 10 ** (from + step));
}

/** Draws lines over a common axis, all axes logarithmic. */
export function lines(axis: string, panels: readonly Panel[]): string {
  const all = panels.flatMap(({ series }) => series.flatMap(({ points }) => points));
  const xs = [...new Set(all.map(([x]) => x))].sort((a, b) => a - b);
  const [low = 1, high = 10] = [xs[0], xs.at(-1)];
  const across = Math.max(Math.log10(high / low), 1e-9);
  const placeX = (x: number) => LEFT + (Math.log10(x / low) / across) * (WIDTH - LEFT - RIGHT);
  const parts = panels.flatMap((panel, at) => drawPanel(panel, at * PANEL_HEIGHT, xs, placeX));
  parts.push(label(placeX(low), panels.length * PANEL_HEIGHT - 8, axis));
  return page(panels.length * PANEL_HEIGHT, parts);
}

function drawPanel(
  { title, series }: Panel,
  top: number,
  xs: readonly number[],
  placeX: (x: number) => number,
) {
  const ticks = decades(series.flatMap(({ points }) => points.map(([, y]) => y)));
  const [low = 1, high = 10] = [ticks[0], ticks.at(-1)];
  const height = PANEL_HEIGHT - TOP - BOTTOM;
  const placeY = (y: number) => top + TOP + (1 - Math.log10(y / low) / Math.log10(high / low)) * height;
  const right = WIDTH - RIGHT;
  const parts = [label(LEFT, top + TOP - 14, title)];
  for (const tick of ticks) {
    const y = placeY(tick).toFixed(1);
    parts.push(`<line x1="${LEFT}" y1="${y}" x2="${right}" y2="${y}" stroke="#ddd"/>`);
    parts.push(label(LEFT - 8, placeY(tick) + 4, short(tick), "end"));
  }
  for (const x of xs) parts.push(label(placeX(x), top + PANEL_HEIGHT - BOTTOM + 18, short(x), "middle"));
  series.forEach(({ name, points }, index) => {
    const colour = COLOURS[index % COLOURS.length];
    const path = points.map(([x, y]) => `${placeX(x).toFixed(1)},${placeY(y).toFixed(1)}`);
    parts.push(`<polyline points="${path.join(" ")}" fill="none" stroke="${colour}" stroke-width="2"/>`);
    for (const place of path) {
      const [x, y] = place.split(",");
      parts.push(`<circle cx="${x}" cy="${y}" r="3" fill="${colour}"/>`);
    }
    const y = top + TOP + 14 + index * 18;
    parts.push(`<rect x="${right + 14}" y="${y - 9}" width="10" height="10" fill="${colour}"/>`);
    parts.push(label(right + 30, y, name));
  });
  return parts;
}

/** Draws bars, each with its name and value. */
export function bars(
  title: string,
  values: readonly { readonly name: string; readonly value: number }[],
): string {
  const most = Math.max(Number.MIN_VALUE, ...values.map(({ value }) => value));
  const left = 330;
  const across = WIDTH - left - 90;
  const parts = [label(12, 22, title)];
  values.forEach(({ name, value }, index) => {
    const y = TOP + index * (BAR_HEIGHT + BAR_GAP);
    const width = ((value / most) * across).toFixed(1);
    parts.push(label(left - 10, y + 13, name, "end"));
    parts.push(
      `<rect x="${left}" y="${y}" width="${width}" height="${BAR_HEIGHT}" fill="${COLOURS[index % COLOURS.length]}"/>`,
    );
    parts.push(label(left + Number(width) + 8, y + 13, short(value)));
  });
  return page(TOP + values.length * (BAR_HEIGHT + BAR_GAP) + 10, parts);
}
