/** Longest input, in bytes of JSON: a stranger may send one, and values take up to some twenty times as much memory as their text. */
export const MAX_INPUT: number = 1024 * 1024;
/** Longest item of a stream, in bytes of JSON: replicas keep the last batch of each stream. */
export const MAX_ITEM: number = 1024 * 1024;
/** Deepest nesting of arrays and objects, as serde_json has it: validators and writers recurse. */
export const MAX_DEPTH = 127;
/** Longest name of a procedure. */
export const MAX_NAME = 63;
/** Issues that are told of one value: people read the first. */
export const MAX_ISSUES = 16;
/** Segments of an issue's path. */
export const MAX_PATH = 16;
/** Characters of an issue's message, of a segment of its path, and of a refusal's message. */
export const MAX_ISSUE_TEXT = 256;
/** Longest failure that a client reads: the most and longest issues, all of their characters escaped. */
export const MAX_FAILURE: number = 512 * 1024;

/** Bytes of items that close a batch: a stream of larger ones gains nothing, and the last batch of each stream is kept. */
export const BATCH_BYTES: number = 64 * 1024;
/** Items that close a batch: a generator that never waits holds the thread until then. */
export const BATCH_ITEMS = 1024;
/** How long others may join the first item of a batch, in milliseconds: less than most round trips. */
export const LINGER_MS = 2;
/** How long a caller waits for an item before it is told that there is none yet, in milliseconds: NATs forget ports after 30 s. */
export const WAIT_MS = 10_000;
/** How long a stream is kept that nobody asks, in milliseconds. */
export const IDLE_MS = 30_000;

/** Open streams of one caller: one for each view of a program. */
export const MAX_CALLER_STREAMS = 32;
/** Open streams of the callers in one network, IPv4 /24 or IPv6 /56: an open mesh gives everybody any number of peer ids. */
export const MAX_NETWORK_STREAMS = 256;
/** Open streams of all callers: 64 MiB of last batches. */
export const MAX_STREAMS = 1024;
/** Streams at their end whose last batch is kept, should it be asked for again. */
export const MAX_ENDED_STREAMS = 256;
