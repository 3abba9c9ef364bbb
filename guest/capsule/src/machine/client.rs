//! A client, with the map in its capsule, behind the boundary.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use bytes::Bytes;
use selfsame_codec::capsule::{Input, Keys, Output, Values};
use selfsame_codec::client::{self, ClientConfig};
use selfsame_codec::map::{self as codec_map, MapCommand};
use selfsame_codec::{BatchWriter, Code, Field, Item, Malformed, Reader};
use zeroize::Zeroizing;

use super::{commit, map};
use crate::client::{Command, Config, Effect, Extent, Period, Signing, Start, Timing};
use crate::epoch::{ReaderKey, Revoked};
use crate::hash::{CapsuleName, RecordName};
use crate::keys::Key;
use crate::map::{self as maps, Map};
use crate::writer::Backpointers;

/// The largest time: there is nothing to be woken for.
const NEVER: u64 = u64::MAX;

/// A client, the keys of its servers, and what of its store is being read
#[derive(Debug)]
pub(super) struct ClientMachine {
    map: Map,
    servers: Vec<Key>,
    readings: BTreeMap<u32, Vec<Vec<u8>>>,
}

impl ClientMachine {
    pub(super) fn new(config: ClientConfig<'_>) -> Result<Self, Code> {
        let ClientConfig { metadata, timing, .. } = config;
        let servers = keys(config.servers).map_err(|_| Code::BadConfig)?;
        let seed = match config.seed {
            [] => None,
            seed => Some(Zeroizing::new(seed.try_into().map_err(|_| Code::BadConfig)?)),
        };
        let [hedge_ms, attempt_ms, avoid_ms, deadline_ms] = timing.map(u64::from);
        let mut made = Config::new(CapsuleName(config.capsule), servers.clone(), config.entropy);
        made.metadata = (!metadata.is_empty()).then(|| metadata.to_vec());
        made.seed = seed;
        made.write_quorum = config.write_quorum as usize;
        made.read_quorum = config.read_quorum as usize;
        made.timing = Timing {
            hedge_ms,
            attempt_ms,
            avoid_ms,
            deadline_ms,
        };
        Ok(Self {
            map: Map::new(made).map_err(|refusal| refusal.code)?,
            servers,
            readings: BTreeMap::new(),
        })
    }

    /// Takes an input or a command and appends what the host is to do.
    pub(super) fn take(&mut self, now_ms: u64, item: Item<'_>, out: &mut BatchWriter) -> Result<(), Code> {
        if item.kind >= codec_map::FIRST_KIND {
            let command = MapCommand::decode(item).map_err(|_| Code::BadInput)?;
            let (id, command) = map::read(&command).map_err(|_| Code::BadInput)?;
            self.map.command(now_ms, id, command);
        } else if item.kind >= client::FIRST_KIND {
            let command = client::Command::decode(item).map_err(|_| Code::BadInput)?;
            let (id, command) = read(&command).map_err(|_| Code::BadInput)?;
            if id > maps::MAX_COMMAND {
                return Err(Code::BadInput);
            }
            self.map.command(now_ms, id, maps::Command::Capsule(command));
        } else {
            self.take_input(now_ms, &Input::decode(item).map_err(|_| Code::BadInput)?)?;
        }
        self.follow(out);
        Ok(())
    }

    /// Wakes the client if it is time, and says when it is next.
    pub(super) fn end_batch(&mut self, now_ms: u64, out: &mut BatchWriter) {
        if self.map.next_wake().is_some_and(|at| at <= now_ms) {
            self.map.wake(now_ms);
        }
        self.follow(out);
        let at_ms = self.map.next_wake().unwrap_or(NEVER);
        Output::Wake { at_ms }.encode(out);
    }

    fn take_input(&mut self, now_ms: u64, input: &Input<'_>) -> Result<(), Code> {
        match *input {
            Input::StoreValues { tag, ok, values } => {
                let keys = self.readings.remove(&tag).ok_or(Code::BadInput)?;
                if !ok {
                    // It begins nothing without knowing what it has written and seen.
                    return Err(Code::StoreFailed);
                }
                let values: Result<Vec<_>, Malformed> = Values::new(values).collect();
                let values = values.ok().filter(|values| values.len() == keys.len());
                let values = values.ok_or(Code::BadInput)?.into_iter();
                let values = values.map(|value| value.map(Bytes::copy_from_slice));
                let pairs: Vec<_> = keys.into_iter().zip(values).collect();
                self.map.values(now_ms, tag, &pairs);
            }
            Input::StoreCommitted { tag, ok } => self.map.committed(now_ms, tag, ok),
            Input::Answered { tag, ok, response } => match ok {
                true => self.map.response(now_ms, tag, response),
                false => self.map.failed(now_ms, tag),
            },
            _ => return Err(Code::BadInput),
        }
        Ok(())
    }

    fn follow(&mut self, out: &mut BatchWriter) {
        while let Some(effect) = self.map.next_effect() {
            match effect {
                Effect::Send {
                    server,
                    request,
                    bytes,
                } => Output::Ask {
                    tag: request,
                    peer: self.servers[usize::from(server)].0,
                    message: &bytes,
                }
                .encode(out),
                Effect::Get { tag, keys } => {
                    let mut encoded = Vec::new();
                    keys.iter().for_each(|key| key.as_slice().write(&mut encoded));
                    Output::StoreGet { tag, keys: &encoded }.encode(out);
                    self.readings.insert(tag, keys);
                }
                Effect::Commit { tag, batch, durable } => commit(tag, durable, &batch, out),
                Effect::Reply { command, result } => map::write(command, result, out),
            }
        }
    }
}

/// The command of an item, and what the host calls it.
fn read(command: &client::Command<'_>) -> Result<(u32, Command), Malformed> {
    use client::Command as C;
    Ok(match *command {
        C::Create { command } => (command, Command::Create),
        C::Init { command, after } => {
            let start = match names(after)?.as_slice() {
                [] => Start::Resume,
                [record] => Start::After(*record),
                _ => return Err(Malformed),
            };
            (command, Command::Init { start })
        }
        C::Write {
            command,
            sign,
            shortcuts,
            pointers,
            contents,
        } => {
            let write = Command::Write {
                contents: parts(contents)?,
                backpointers: backpointers(shortcuts, pointers)?,
                signing: signing(sign),
            };
            (command, write)
        }
        C::Commit {
            command,
            sign,
            shortcuts,
            pointers,
            contents,
        } => {
            let commit = Command::Commit {
                subrecords: parts(contents)?,
                backpointers: backpointers(shortcuts, pointers)?,
                signing: signing(sign),
            };
            (command, commit)
        }
        C::Govern {
            command,
            next,
            added,
            revoked,
            readers,
        } => (command, govern(next, added, revoked, readers)?),
        ref asking => read_question(asking)?,
    })
}

/// A command that writes nothing of the application's.
fn read_question(command: &client::Command<'_>) -> Result<(u32, Command), Malformed> {
    use client::Command as C;
    Ok(match *command {
        C::Sign { command } => (command, Command::Sign),
        C::Read { command, names: of } => (command, Command::Read { records: names(of)? }),
        C::QueryFresh { command } => (command, Command::QueryFresh),
        C::ReadParts {
            command,
            name,
            indexes,
        } => {
            let parts = list(indexes, |reader| Ok((RecordName(name), reader.field()?)))?;
            (command, Command::ReadParts { parts })
        }
        C::CountParts { command, names: of } => (command, Command::Subrecords { records: names(of)? }),
        C::Export { command, name, whole } => {
            let extent = if whole { Extent::Whole } else { Extent::Header };
            let record = RecordName(name);
            (command, Command::Export { record, extent })
        }
        C::Describe { command } => (command, Command::Describe),
        C::Accuse { command, one, other } => {
            let records = [RecordName(one), RecordName(other)];
            (command, Command::Accuse { records })
        }
        _ => return Err(Malformed),
    })
}

fn govern(next: bool, added: &[u8], revoked: &[u8], readers: &[u8]) -> Result<Command, Malformed> {
    let revoked = list(revoked, |reader| {
        Ok(Revoked {
            number: reader.field()?,
            heads: names(reader.field()?)?,
        })
    })?;
    let readers: Vec<ReaderKey> = list(readers, |reader| reader.array())?;
    Ok(Command::Govern {
        added: keys(added)?,
        revoked,
        readers,
        period: if next { Period::Next } else { Period::Same },
    })
}

pub(super) fn signing(sign: bool) -> Signing {
    if sign { Signing::Last } else { Signing::Later }
}

fn backpointers(shortcuts: bool, pointers: &[u8]) -> Result<Backpointers, Malformed> {
    match (shortcuts, pointers) {
        (true, []) => Ok(Backpointers::Shortcuts),
        (false, []) => Ok(Backpointers::Chain),
        (false, _) => Ok(Backpointers::Own(names(pointers)?)),
        (true, _) => Err(Malformed),
    }
}

fn parts(bytes: &[u8]) -> Result<Vec<Bytes>, Malformed> {
    let all = Bytes::copy_from_slice(bytes);
    Keys::new(&all)
        .map(|part| part.map(|part| all.slice_ref(part)))
        .collect()
}

fn names(bytes: &[u8]) -> Result<Vec<RecordName>, Malformed> {
    list(bytes, |reader| reader.array().map(RecordName))
}

fn keys(bytes: &[u8]) -> Result<Vec<Key>, Malformed> {
    list(bytes, |reader| reader.array().map(Key))
}

pub(super) fn list<'a, T>(
    bytes: &'a [u8],
    mut read: impl FnMut(&mut Reader<'a>) -> Result<T, Malformed>,
) -> Result<Vec<T>, Malformed> {
    let mut reader = Reader::new(bytes);
    let mut elements = Vec::new();
    while !reader.is_empty() {
        elements.push(read(&mut reader)?);
    }
    Ok(elements)
}
