import type { LogRecord, LogSink } from "../driver/log.ts";
import { contexts } from "./current.ts";

/** Where lines go. */
export interface JsonLoggerOptions {
  /** Writes a line, which comes without its end; the console's log of the record's level unless given. */
  readonly write?: ((line: string, record: LogRecord) => void) | undefined;
}

/** Log records as one JSON object a line, with the trace that the record belongs to: `log: jsonLogger()`. */
export function jsonLogger({ write = toConsole }: JsonLoggerOptions = {}): LogSink {
  return (record) => {
    const { level, code, path, text } = record;
    const context = contexts().getStore();
    const line = JSON.stringify({
      time: new Date().toISOString(),
      level,
      ...(code === undefined ? {} : { code }),
      ...(path === 0 ? {} : { path }),
      message: text,
      ...(context === undefined ? {} : { trace_id: context.traceId, span_id: context.spanId }),
    });
    write(line, record);
  };
}

function toConsole(line: string, { level }: LogRecord): void {
  console[level](line);
}
