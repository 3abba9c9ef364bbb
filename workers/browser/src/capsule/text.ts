import type { HistoryRecord } from "selfsame/capsule";

/** More of a line would not fit. */
const MAX_LINE = 80;
/** More of a body would not be read. */
const MAX_BODY = 4000;

/** What a record is about, in one line. */
export function titleOf({ kind, record }: Pick<HistoryRecord, "kind" | "record">): string {
  if (kind === "epoch") return "who writes and reads";
  if (record === undefined) return "sealed";
  if (kind === "tree") return `${record.subrecords.length} sub-records`;
  const text = textOf(record.content);
  if (text === undefined) return `${record.content.length} bytes`;
  const { event, user, status } = fieldsOf(text);
  if (typeof event === "string") return event.slice(0, MAX_LINE);
  if (typeof user === "string")
    return `${user.slice(0, MAX_LINE)} ${status === 200 ? "signed in" : "was refused"}`;
  return text.slice(0, MAX_LINE);
}

/** When a record says that it was written; a claim of its writer like all that it holds. */
export function timeOf({ record }: Pick<HistoryRecord, "record">): Date | undefined {
  const text = record === undefined ? undefined : textOf(record.content);
  const { time_ms } = text === undefined ? {} : fieldsOf(text);
  // Beyond this a date is none.
  return typeof time_ms === "number" && Math.abs(time_ms) <= 8.64e15 ? new Date(time_ms) : undefined;
}

/** What a record holds, for people: JSON with its lines, other text as it is, other bytes in hexadecimal. */
export function bodyOf(content: Uint8Array): string {
  const text = textOf(content);
  if (text === undefined) return hexOf(content);
  try {
    return JSON.stringify(JSON.parse(text), undefined, 2).slice(0, MAX_BODY);
  } catch {
    return text.slice(0, MAX_BODY);
  }
}

function fieldsOf(text: string): Record<string, unknown> {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === "object" && value !== null ? (value as Record<string, unknown>) : {};
  } catch {
    return {};
  }
}

function textOf(content: Uint8Array): string | undefined {
  try {
    const text = new TextDecoder("utf-8", { fatal: true }).decode(content);
    // Control characters but tab and line feed are no text.
    return /\p{Cc}/u.test(text.replaceAll(/[\t\n\r]/g, "")) ? undefined : text;
  } catch {
    return undefined;
  }
}

function hexOf(bytes: Uint8Array): string {
  const shown = [...bytes.subarray(0, MAX_BODY / 3)].map((byte) => byte.toString(16).padStart(2, "0"));
  return shown.join(" ") + (bytes.length > shown.length ? " \u2026" : "");
}
