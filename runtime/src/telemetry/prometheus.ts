import {
  type Amount,
  BOUNDS,
  type Counter,
  type Durations,
  type Histogram,
  type Instrument,
} from "./metrics.ts";
import type { Attributes } from "./span.ts";

/** The type of the text, for the header `content-type` of an answer to a scrape. */
export const PROMETHEUS_TYPE = "text/plain; version=0.0.4; charset=utf-8";

/** Units are part of a name. */
const SUFFIX: Readonly<Record<string, string>> = { s: "_seconds" };

/** What instruments measured, in the text format of Prometheus; `all` are labels of every series. */
export function prometheusText(instruments: readonly Instrument[], all: Attributes): string {
  return instruments
    .filter((instrument) => instrument.series().length > 0)
    .map((instrument) => {
      const name = nameOf(instrument);
      const { help } = instrument.description;
      const head = `# HELP ${name} ${escapeHelp(help)}\n# TYPE ${name} ${instrument.type}\n`;
      return head + linesOf(name, instrument, all).join("");
    })
    .join("");
}

function nameOf({ type, description: { name, unit } }: Instrument): string {
  const base = name.replaceAll(".", "_") + (SUFFIX[unit] ?? "");
  return type === "counter" ? `${base}_total` : base;
}

function linesOf(name: string, instrument: Histogram | Counter, all: Attributes): string[] {
  if (instrument.type === "histogram") {
    return (instrument as Histogram).series().flatMap((series) => histogramLines(name, series, all));
  }
  return (instrument as Counter)
    .series()
    .map(({ attributes, value }: Amount) => line(name, { ...all, ...attributes }, value));
}

function histogramLines(
  name: string,
  { attributes, count, sum, buckets }: Durations,
  all: Attributes,
): string[] {
  const labels = { ...all, ...attributes };
  let below = 0;
  const counts = BOUNDS.map((bound, index) => {
    below += buckets[index] ?? 0;
    return line(`${name}_bucket`, { ...labels, le: String(bound) }, below);
  });
  const whole = line(`${name}_bucket`, { ...labels, le: "+Inf" }, count);
  return [...counts, whole, line(`${name}_sum`, labels, sum), line(`${name}_count`, labels, count)];
}

function line(name: string, labels: Attributes, value: number): string {
  const pairs = Object.entries(labels).map(
    ([key, text]) => `${key.replaceAll(/[^a-zA-Z0-9_]/g, "_")}="${escapeLabel(String(text))}"`,
  );
  return `${name}${pairs.length === 0 ? "" : `{${pairs.join(",")}}`} ${value}\n`;
}

function escapeLabel(text: string): string {
  return text.replaceAll("\\", "\\\\").replaceAll("\n", "\\n").replaceAll('"', '\\"');
}

function escapeHelp(text: string): string {
  return text.replaceAll("\\", "\\\\").replaceAll("\n", "\\n");
}
