use alloc::collections::BinaryHeap;
use std::collections::{HashMap, HashSet};
use std::io::Write as _;

use selfsame_host::Error;
use selfsame_host::capsule::{
    Authorship, Capsule, Content, Heads, Record, RecordHeader, RecordKind, RecordName,
};
use serde_json::{Value, json};

use super::Client;
use crate::cli::args::{HeadsCommand, LogCommand, ProveCommand, ReadCommand};
use crate::cli::output::{Failure, Output};

pub(super) async fn read(command: ReadCommand, output: Output) -> Result<(), Failure> {
    let client = Client::open(&command.capsule, output).await?;
    let what = "reading records";
    let records = client
        .with(what, output, async |capsule| {
            Ok(capsule.read_all(&command.record).await?)
        })
        .await?;
    for record in records {
        let record = record?;
        if output.json {
            output.print("", &value_of(&record))?;
        } else {
            write_content(&record.content)?;
        }
    }
    Ok(())
}

/// Writes what a record holds as it is; sub-records one after the other.
fn write_content(content: &Content) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    let written = match content {
        Content::Bytes(bytes) | Content::Change(bytes) => out.write_all(bytes),
        Content::Parts(parts) => parts.iter().try_for_each(|part| out.write_all(part)),
    };
    written
        .and_then(|()| out.flush())
        .map_err(|error| Failure::output(&error))
}

pub(super) async fn prove(command: ProveCommand, output: Output) -> Result<(), Failure> {
    let ProveCommand {
        capsule,
        record,
        output: path,
        header_only,
    } = command;
    let unusable = |error: std::io::Error| Failure::file(&path, error);
    let mut file = std::fs::File::create_new(&path).map_err(unusable)?;
    let written = async {
        let client = Client::open(&capsule, output).await?;
        let what = "proving the record";
        let proof = client
            .with(what, output, async |capsule| {
                Ok(capsule.prove(record, !header_only).await?)
            })
            .await?;
        let written = file.write_all(&proof).and_then(|()| file.sync_all());
        written.map_err(unusable)?;
        Ok::<_, Failure>(proof.len())
    };
    let written = written.await;
    if written.is_err() {
        // A half of a file proves nothing.
        _ = std::fs::remove_file(&path);
    }
    let value = json!({ "file": path, "record": record.to_string(), "bytes": written? });
    output.print(path.display(), &value)
}

pub(super) async fn heads(command: HeadsCommand, output: Output) -> Result<(), Failure> {
    let client = Client::open(&command.capsule, output).await?;
    let what = "asking for the newest records";
    let found = client
        .with(what, output, async |capsule| heads_of(capsule).await)
        .await?;
    for head in &found.heads {
        output.print(
            format_args!("{} {}", head.name, summary(&head.header)),
            &header_value(head.name, &head.header),
        )?;
    }
    Ok(())
}

/// The newest records. Tells of what does not keep anybody from reading them and yet should be known.
async fn heads_of(capsule: &Capsule) -> Result<Heads, Failure> {
    let heads = capsule.heads().await?;
    let (servers, places, lacks) = (capsule.servers(), capsule.places(), capsule.lacks());
    for (server, error) in &heads.refused {
        let place = servers
            .iter()
            .zip(&places)
            .find(|(other, _)| *other == server)
            .map_or("", |(_, place)| place);
        // Of one that lacks something is told at the end.
        if !lacks.iter().any(|lack| lack.starts_with(&format!("{place}: "))) {
            tracing::warn!("the answer of {place} does not count: {}", error.reason());
        }
    }
    for [one, other] in &heads.forks {
        tracing::warn!(%one, %other, "a writer has used one sequence number twice");
    }
    Ok(heads)
}

pub(super) async fn log(command: LogCommand, output: Output) -> Result<(), Failure> {
    let client = Client::open(&command.capsule, output).await?;
    client
        .with("reading records", output, async |capsule| {
            let from = if command.from.is_empty() {
                let found = heads_of(capsule).await?;
                found.heads.iter().map(|head| head.name).collect()
            } else {
                command.from
            };
            show(capsule, from, command.most, output).await
        })
        .await
}

/// Shows records, each after those that point to it as far as they are shown: of those that can come next the one with the
/// highest sequence number.
async fn show(capsule: &Capsule, from: Vec<RecordName>, most: u32, output: Output) -> Result<(), Failure> {
    let mut known: HashMap<RecordName, Record> = HashMap::new();
    let mut seen: HashSet<RecordName> = HashSet::new();
    let mut next: BinaryHeap<(u64, RecordName)> = BinaryHeap::new();
    let mut fresh: Vec<RecordName> = from;
    for _ in 0..most {
        fresh.retain(|name| seen.insert(*name));
        for (name, read) in fresh.iter().zip(capsule.read_all(&fresh).await?) {
            match read {
                Ok(record) => {
                    next.push((record.header.sequence, *name));
                    known.insert(*name, record);
                }
                Err(error) => tell_hole(*name, &error, output)?,
            }
        }
        let Some(record) = next.pop().and_then(|(_, name)| known.remove(&name)) else {
            return Ok(());
        };
        output.print(
            format_args!(
                "{} {} {}",
                record.name,
                summary(&record.header),
                record.authorship
            ),
            &authored(header_value(record.name, &record.header), record.authorship),
        )?;
        fresh = record.header.backpointers;
    }
    Ok(())
}

/// A record that is pointed to and not there does not keep the others from being shown.
fn tell_hole(name: RecordName, error: &Error, output: Output) -> Result<(), Failure> {
    let code = error.code().map(selfsame_host::Code::name);
    let value = json!({ "record": name.to_string(), "missing": error.to_string(), "code": code });
    output.print(format_args!("{name} missing: {error}"), &value)
}

fn summary(header: &RecordHeader) -> String {
    let RecordHeader {
        writer,
        epoch,
        sequence,
        body_length,
        ..
    } = header;
    let kind = kind_name(header.kind);
    format!("{kind} writer {writer} epoch {epoch} sequence {sequence} bytes {body_length}")
}

fn kind_name(kind: RecordKind) -> &'static str {
    match kind {
        RecordKind::Plain => "plain",
        RecordKind::Tree => "tree",
        RecordKind::Epoch => "epoch",
    }
}

/// A record's header as JSON.
pub(super) fn header_value(name: RecordName, header: &RecordHeader) -> Value {
    let backpointers: Vec<_> = header.backpointers.iter().map(ToString::to_string).collect();
    json!({
        "record": name.to_string(),
        "kind": kind_name(header.kind),
        "writer": header.writer,
        "epoch": header.epoch,
        "sequence": header.sequence,
        "bytes": header.body_length,
        "backpointers": backpointers,
    })
}

/// A record as JSON, with who answers for it.
pub(super) fn authored(mut value: Value, authorship: Authorship) -> Value {
    match authorship {
        Authorship::SignedBy(signer) => value["signedBy"] = signer.into(),
        Authorship::VouchedForBy(signer) => value["vouchedForBy"] = signer.into(),
    }
    value
}

fn value_of(record: &Record) -> Value {
    let mut value = authored(header_value(record.name, &record.header), record.authorship);
    match &record.content {
        Content::Bytes(bytes) => put_bytes(&mut value, bytes),
        Content::Change(bytes) => value["base64"] = data_encoding::BASE64.encode(bytes).into(),
        Content::Parts(parts) => {
            let parts = parts.iter().map(|part| {
                let mut value = json!({});
                put_bytes(&mut value, part);
                value
            });
            value["subrecords"] = parts.collect();
        }
    }
    value
}

/// Bytes as text where they are text, as base64 elsewhere.
fn put_bytes(value: &mut Value, bytes: &[u8]) {
    match core::str::from_utf8(bytes) {
        Ok(text) => value["content"] = text.into(),
        Err(_) => value["base64"] = data_encoding::BASE64.encode(bytes).into(),
    }
}
