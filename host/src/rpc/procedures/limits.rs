//! Limits of procedures, the same in every host.

use core::time::Duration;

/// Longest input, in bytes of JSON: a stranger may send one, and values take up several times as much memory as their text.
pub(super) const MAX_INPUT: usize = 1 << 20;
/// Longest item of a stream, in bytes of JSON: replicas keep the last batch of each stream.
pub(super) const MAX_ITEM: usize = 1 << 20;
/// Longest name of a procedure.
pub(super) const MAX_NAME: usize = 63;
/// Bytes of an issue, and of a refusal's message.
pub(super) const MAX_ISSUE_TEXT: usize = 256;
/// Longest failure that a client reads: the most and longest issues, all of their characters escaped.
pub(super) const MAX_FAILURE: usize = 512 * 1024;

/// Bytes of items that close a batch: a stream of larger ones gains nothing, and the last batch of each stream is kept.
pub(super) const BATCH_BYTES: usize = 64 * 1024;
/// Items that close a batch: a stream that is always ready holds the thread until then.
pub(super) const BATCH_ITEMS: usize = 1024;
/// How long others may join the first item of a batch: less than most round trips.
pub(super) const LINGER: Duration = Duration::from_millis(2);
/// How long a caller waits for an item before it is told that there is none yet: NATs forget ports after 30 s.
pub(super) const WAIT: Duration = Duration::from_secs(10);
/// How long a stream is kept that nobody asks.
pub(super) const IDLE: Duration = Duration::from_secs(30);

/// Open streams of one caller: one for each view of a program.
pub(super) const MAX_CALLER_STREAMS: usize = 32;
/// Open streams of the callers in one network, IPv4 /24 or IPv6 /56: an open mesh gives everybody any number of peer ids.
pub(super) const MAX_NETWORK_STREAMS: usize = 256;
/// Open streams of all callers: 64 MiB of last batches.
pub(super) const MAX_STREAMS: usize = 1024;
/// Streams at their end whose last batch is kept, should it be asked for again.
pub(super) const MAX_ENDED_STREAMS: usize = 256;
