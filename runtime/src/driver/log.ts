import { type CodeName, codeName, codeText } from "../codec/code.ts";
import type { LogLevel } from "../codec/output.ts";
import { guarded } from "../guard.ts";

export type { LogLevel } from "../codec/output.ts";

/** One record of a node's log. It never holds a secret. */
export interface LogRecord {
  /** How much it matters. */
  readonly level: LogLevel;
  /** Name of its cause in the table of errors, where it has one. */
  readonly code: CodeName | undefined;
  /** The path concerned, or 0. */
  readonly path: number;
  /** What happened. */
  readonly text: string;
}

/** Where log records go. */
export type LogSink = (record: LogRecord) => void;

/** What is logged, and where. */
export interface LogOptions {
  /** Where log records go; the console unless given. */
  readonly log?: LogSink | undefined;
  /** The least level that is logged; `warn` unless given. */
  readonly logLevel?: LogLevel | undefined;
}

const order: readonly LogLevel[] = ["debug", "info", "warn", "error"];

/** Filters records by their level before anything is done with them. */
export class Logger {
  readonly #least: number;
  readonly #sink: LogSink;

  constructor(sink: LogSink = consoleSink, level: LogLevel = "warn") {
    this.#sink = sink;
    this.#least = order.indexOf(level);
  }

  /** Hands a record on if its level is wanted. A sink that throws disturbs nobody. */
  log(level: LogLevel, text: string, code = 0, path = 0): void {
    if (order.indexOf(level) < this.#least) return;
    const name = codeName(code);
    const words = text === "" && name !== undefined ? codeText(name) : text;
    guarded("the log hook", this.#sink)({ level, code: name, path, text: words });
  }
}

function consoleSink(record: LogRecord): void {
  const cause = record.code === undefined ? "" : ` (${record.code})`;
  console[record.level](`selfsame: ${record.text}${cause}`);
}
