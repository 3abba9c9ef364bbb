//! Commands of a map and its replies, as items.

use alloc::vec::Vec;

use selfsame_codec::map::{MapCommand, MapReply};
use selfsame_codec::{BatchWriter, Field, Malformed, Reader};

use super::client::{list, signing};
use super::reply;
use crate::client;
use crate::map::{Command, Entries, Entry, Freshness, Held, MAX_COMMAND, Operation, Place, Range, Reply};
use crate::refusal::Result;

/// The command of an item, and what the host calls it.
pub(super) fn read(command: &MapCommand<'_>) -> core::result::Result<(u32, Command), Malformed> {
    use MapCommand as C;
    let (number, command) = match *command {
        C::MapWrite {
            command,
            sign,
            operations,
        } => {
            let operations = list(operations, read_operation)?;
            let signing = signing(sign);
            (command, Command::Write { operations, signing })
        }
        C::MapGet { command, fresh, key } => {
            let (key, freshness) = (key.to_vec(), freshness(fresh));
            (command, Command::Get { key, freshness })
        }
        C::MapList {
            command,
            fresh,
            values,
            start,
            end,
            limit,
        } => {
            let listing = Command::List {
                range: range(start, end),
                limit: limit as usize,
                values,
                freshness: freshness(fresh),
            };
            (command, listing)
        }
        ref later => read_later(later)?,
    };
    if number > MAX_COMMAND {
        return Err(Malformed);
    }
    Ok((number, command))
}

/// A command about what was, or what will be.
fn read_later(command: &MapCommand<'_>) -> core::result::Result<(u32, Command), Malformed> {
    use MapCommand as C;
    Ok(match *command {
        C::MapHistory {
            command,
            key,
            before,
            limit,
        } => {
            let before = match list(before, Place::read)?.as_slice() {
                [] => None,
                [place] => Some(*place),
                _ => return Err(Malformed),
            };
            let history = Command::History {
                key: key.to_vec(),
                before,
                limit: limit as usize,
            };
            (command, history)
        }
        C::MapChanges {
            command,
            begin,
            since,
            start,
            end,
            every_ms,
        } => {
            let changes = Command::Changes {
                range: range(start, end),
                since: (!begin).then_some(since),
                every_ms: u64::from(every_ms),
            };
            (command, changes)
        }
        C::Cancel { command, waiting } => (command, Command::Cancel { command: waiting }),
        _ => return Err(Malformed),
    })
}

fn range(start: &[u8], end: &[u8]) -> Range {
    Range {
        start: start.to_vec(),
        end: end.to_vec(),
    }
}

fn freshness(fresh: bool) -> Freshness {
    if fresh {
        Freshness::Newest
    } else {
        Freshness::Known
    }
}

fn read_operation(reader: &mut Reader<'_>) -> core::result::Result<Operation, Malformed> {
    let kind: u8 = reader.field()?;
    let key = reader.field::<&[u8]>()?.to_vec();
    let value = match kind {
        1 => Some(reader.field::<&[u8]>()?.to_vec()),
        2 => None,
        _ => return Err(Malformed),
    };
    Ok(Operation { key, value })
}

/// Appends what came of a command.
pub(super) fn write(command: u32, result: Result<Reply>, out: &mut BatchWriter) {
    let result = match result {
        Ok(Reply::Entries(entries)) => return write_entries(command, &entries, out),
        Ok(Reply::Capsule(reply)) => Ok(reply),
        Ok(Reply::Written(name)) => Ok(client::Reply::Written(Vec::from([name]))),
        Ok(Reply::Done) => Ok(client::Reply::Done),
        Err(refusal) => Err(refusal),
    };
    reply::write(command, &result, out);
}

fn write_entries(command: u32, entries: &Entries, out: &mut BatchWriter) {
    let mut bytes = Vec::new();
    for Entry {
        key,
        place,
        clock,
        held,
    } in &entries.entries
    {
        key.as_slice().write(&mut bytes);
        place.write(&mut bytes);
        clock.write(&mut bytes);
        match held {
            Held::Nothing => bytes.push(0),
            Held::Value(value) => {
                bytes.push(1);
                value.as_slice().write(&mut bytes);
            }
            Held::Unread => bytes.push(2),
        }
    }
    MapReply::Entries {
        command,
        more: entries.more,
        version: entries.version,
        entries: &bytes,
    }
    .encode(out);
}
