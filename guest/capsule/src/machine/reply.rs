//! What a client tells its application, as items.

use alloc::vec::Vec;

use selfsame_codec::client::Reply as Item;
use selfsame_codec::{BatchWriter, Field};

use crate::authority::Fork;
use crate::client::{Content, Description, Got, Heads, Position, Reply};
use crate::hash::RecordName;
use crate::refusal::{Refusal, Result};

/// Appends what came of a command.
pub(super) fn write(command: u32, result: &Result<Reply>, out: &mut BatchWriter) {
    match result {
        Err(Refusal { code, at }) => Item::Failed {
            command,
            code: code.as_u16(),
            at: *at,
        }
        .encode(out),
        Ok(reply) => write_reply(command, reply, out),
    }
}

fn write_reply(command: u32, reply: &Reply, out: &mut BatchWriter) {
    match reply {
        Reply::Done => Item::Done { command }.encode(out),
        Reply::Ready(position) => ready(command, position, out),
        Reply::Written(written) => Item::Written {
            command,
            names: &names(written),
        }
        .encode(out),
        Reply::Records(records) => Item::Records {
            command,
            results: &results(records, write_record),
        }
        .encode(out),
        Reply::Fresh(heads) => fresh(command, heads, out),
        Reply::Parts(parts) => Item::Parts {
            command,
            results: &results(parts, |part, bytes| (&**part).write(bytes)),
        }
        .encode(out),
        Reply::Subrecords(counts) => Item::Counts {
            command,
            results: &results(counts, |outline, bytes| outline.count.write(bytes)),
        }
        .encode(out),
        Reply::File(file) => Item::File { command, file }.encode(out),
        Reply::Described(description) => described(command, description, out),
        Reply::Fork(Fork { one, other }) => Item::Fork {
            command,
            header: &one.header,
            proof: &one.proof,
            other_header: &other.header,
            other_proof: &other.proof,
        }
        .encode(out),
    }
}

fn ready(command: u32, position: &Position, out: &mut BatchWriter) {
    Item::Ready {
        command,
        writer: position.writer,
        epoch: position.epoch,
        sequence: position.sequence,
        after: position.parent.as_ref().map_or(&[], |name| &name.0),
    }
    .encode(out);
}

fn fresh(command: u32, fresh: &Heads, out: &mut BatchWriter) {
    let (mut heads, mut answers, mut refused) = (Vec::new(), Vec::new(), Vec::new());
    for head in &fresh.heads {
        head.name.0.write(&mut heads);
        let mut header = Vec::new();
        head.header.encode(&mut header);
        header.as_slice().write(&mut heads);
    }
    for (server, answer) in &fresh.answers {
        server.write(&mut answers);
        answer.time_ms.write(&mut answers);
        names(&answer.heads).as_slice().write(&mut answers);
    }
    for (server, refusal) in &fresh.refused {
        server.write(&mut refused);
        write_refusal(refusal, &mut refused);
    }
    Item::Fresh {
        command,
        heads: &heads,
        answers: &answers,
        refused: &refused,
        forks: &names(fresh.forks.as_flattened()),
    }
    .encode(out);
}

fn described(command: u32, description: &Description, out: &mut BatchWriter) {
    let mut writers = Vec::new();
    for (number, key) in &description.writers {
        number.write(&mut writers);
        key.0.write(&mut writers);
    }
    Item::Described {
        command,
        metadata: &description.metadata,
        writers: &writers,
        epoch: description.epoch,
        records: description.epoch_records,
    }
    .encode(out);
}

fn write_record(got: &Got, bytes: &mut Vec<u8>) {
    got.header.view().encoded().write(bytes);
    got.authorship.write(bytes);
    match &got.content {
        Content::Plain(content) => {
            bytes.push(1);
            (&**content).write(bytes);
        }
        Content::Parts(parts) => {
            bytes.push(2);
            let mut listed = Vec::new();
            parts.iter().for_each(|part| (&**part).write(&mut listed));
            listed.as_slice().write(bytes);
        }
        Content::Change(body) => {
            bytes.push(3);
            (&**body).write(bytes);
        }
    }
}

fn results<T>(results: &[Result<T>], write: impl Fn(&T, &mut Vec<u8>)) -> Vec<u8> {
    let mut bytes = Vec::new();
    for result in results {
        match result {
            Ok(value) => {
                0_u16.write(&mut bytes);
                write(value, &mut bytes);
            }
            Err(refusal) => write_refusal(refusal, &mut bytes),
        }
    }
    bytes
}

fn write_refusal(refusal: &Refusal, bytes: &mut Vec<u8>) {
    refusal.code.as_u16().write(bytes);
    refusal.at.write(bytes);
}

fn names(names: &[RecordName]) -> Vec<u8> {
    names.iter().flat_map(|name| name.0).collect()
}
