//! What an application asks of a map in `capsule.wasm`, and what it is told.

use crate::batch::items;

/// The kind from which on an input is a [`MapCommand`] and an output a [`MapReply`].
pub const FIRST_KIND: u8 = 96;

items! {
    /// What an application asks of the map in a client's capsule
    ///
    /// `command` numbers are of the same kind as those of [`crate::client::Command`]. A place is `record 32 | index u32`.
    pub enum MapCommand {
        /// Set and delete keys, all or none: `1 | length u32 | key | length u32 | value` or `2 | length u32 | key`, any number;
        /// signed at once (`sign`) or later. Answered by `Written`, with one name.
        96 MapWrite { command: u32, sign: bool, operations: &'a [u8] }
        /// Ask for the entry of a key, as of now (`fresh`) or as far as is known; answered by `Entries`, with one or none.
        97 MapGet { command: u32, fresh: bool, key: &'a [u8] }
        /// Ask for entries in the order of their keys, from `start` to before `end`, if that is not empty, with their `values` or
        /// without; answered by `Entries`.
        98 MapList { command: u32, fresh: bool, values: bool, start: &'a [u8], end: &'a [u8], limit: u32 }
        /// Ask what a key was, the newest first, or what it was before the operation at a place; answered by `Entries`.
        99 MapHistory { command: u32, key: &'a [u8], before: &'a [u8], limit: u32 }
        /// Wait until keys have changed after a version, or `begin`: only ask for the present one. The servers are asked every so
        /// many milliseconds. Answered by `Entries`, where deleted keys are too.
        100 MapChanges { command: u32, begin: bool, since: u64, start: &'a [u8], end: &'a [u8], every_ms: u32 }
        /// Give up waiting for changes: the other command fails; answered by `Done`.
        101 Cancel { command: u32, waiting: u32 }
    }
}

items! {
    /// What an application is told of a map
    pub enum MapReply {
        /// Entries, any number: `length u32 | key | place | clock u64`, then 0 if the key was deleted, `1 | length u32 | value`, or 2
        /// if the value was not read. Whether there may be `more`, or of changes, whether some were missed; and after which version
        /// to ask for changes.
        96 Entries { command: u32, more: bool, version: u64, entries: &'a [u8] }
    }
}
