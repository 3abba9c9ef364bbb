import type { Layouts } from "./batch.ts";
import { bytes, count, flag, u32 } from "./field.ts";

/**
 * What an application asks of the map in a client's capsule; the sentences are those of `guest/codec/src/map.rs`. `command`
 * numbers are of the same kind as those of other commands. A place is `record 32 | index u32`.
 */
export type MapCommand =
  /** Set and delete keys, all or none, signed at once or later; answered by `Written`, with one name. */
  | { type: "MapWrite"; command: number; sign: boolean; operations: Uint8Array }
  /** Ask for the entry of a key, as of now or as far as is known; answered by `Entries`, with one or none. */
  | { type: "MapGet"; command: number; fresh: boolean; key: Uint8Array }
  /** Ask for entries from `start` to before `end`, if that is not empty; answered by `Entries`. */
  | {
      type: "MapList";
      command: number;
      fresh: boolean;
      values: boolean;
      start: Uint8Array;
      end: Uint8Array;
      limit: number;
    }
  /** Ask what a key was, the newest first, or what it was before the operation at a place; answered by `Entries`. */
  | { type: "MapHistory"; command: number; key: Uint8Array; before: Uint8Array; limit: number }
  /** Wait until keys have changed after a version, or only ask for the present one; answered by `Entries`. */
  | {
      type: "MapChanges";
      command: number;
      begin: boolean;
      since: number;
      start: Uint8Array;
      end: Uint8Array;
      every_ms: number;
    }
  /** Give up waiting for changes: the other command fails; answered by `Done`. */
  | { type: "Cancel"; command: number; waiting: number };

/** What an application is told of a map. */
export type MapReply =
  /**
   * Entries: `length u32 | key | place | clock u64`, then 0 if the key was deleted, `1 | length u32 | value`, or 2 if the value was
   * not read. Whether there may be more, or of changes, whether some were missed; after which version to ask for changes.
   */
  { type: "Entries"; command: number; more: boolean; version: number; entries: Uint8Array };

/** The layouts of commands of a map. */
export const MAP_COMMANDS: Layouts<MapCommand> = {
  MapWrite: [96, { command: u32, sign: flag, operations: bytes }],
  MapGet: [97, { command: u32, fresh: flag, key: bytes }],
  MapList: [98, { command: u32, fresh: flag, values: flag, start: bytes, end: bytes, limit: u32 }],
  MapHistory: [99, { command: u32, key: bytes, before: bytes, limit: u32 }],
  MapChanges: [100, { command: u32, begin: flag, since: count, start: bytes, end: bytes, every_ms: u32 }],
  Cancel: [101, { command: u32, waiting: u32 }],
};

/** The layouts of replies of a map. */
export const MAP_REPLIES: Layouts<MapReply> = {
  Entries: [96, { command: u32, more: flag, version: count, entries: bytes }],
};
