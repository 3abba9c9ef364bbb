//! What is given of a record with sub-records: what it begins with, and single ones of them, each with its path.

use alloc::rc::Rc;
use alloc::vec::Vec;

use selfsame_codec::{Code, Field, Reader};

use super::capsule::{CORRUPT, Capsule};
use super::entry::{Body, Entry};
use super::index::{NO_RECORD, Outcome, known};
use super::space::{Missing, Space};
use super::trees::{Grown, Trees};
use crate::hash::RecordName;
use crate::header::RecordKind;
use crate::record::{Record, TreeBody, TreeHead};
use crate::refusal::{Refusal, Result};
use crate::tree::Tree;

/// Appends a sub-record, and of what proves it so many levels.
///
/// # Errors
/// [`Code::NoRecord`], [`Code::BadTree`] of a record of another kind, [`Code::StoreCorrupt`].
pub(super) fn read_part(
    capsule: &Capsule,
    (space, trees): (&mut Space, &mut Trees),
    record: &RecordName,
    (index, levels): (u32, u8),
    results: &mut Vec<u8>,
) -> Result<Outcome<()>> {
    let name = capsule.charter().name();
    let grown = match trees.get(&name, record, levels) {
        Some(grown) => grown,
        None => {
            let Outcome::Done(grown) = grow(capsule, space, record, levels)? else {
                return Ok(Outcome::Wait);
            };
            let grown = Rc::new(grown);
            trees.insert(&name, record, grown.clone());
            grown
        }
    };
    let part = grown.part(index as usize).ok_or(NO_RECORD)?;
    (part.len() as u32).write(results);
    let Outcome::Done(()) = capsule.write_body(space, record, &grown.body(), part, results)? else {
        return Ok(Outcome::Wait);
    };
    grown.write_path(index as usize, levels, results);
    Ok(Outcome::Done(()))
}

/// Appends what a record with sub-records begins with.
///
/// # Errors
/// As [`read_part`].
pub(super) fn subrecords(
    capsule: &Capsule,
    space: &mut Space,
    record: &RecordName,
    results: &mut Vec<u8>,
) -> Result<Outcome<()>> {
    let entry = known!(entry(capsule, space, record))?;
    let len = TreeHead::fixed_len(capsule.is_sealed());
    let mut head = Vec::new();
    let Outcome::Done(()) = capsule.write_body(space, record, &Body::of(&entry), 0..len, &mut head)? else {
        return Ok(Outcome::Wait);
    };
    results.extend_from_slice(entry.header_bytes());
    let (count, preamble) = head.split_at(size_of::<u32>());
    results.extend_from_slice(count);
    preamble.write(results);
    Ok(Outcome::Done(()))
}

/// Remembers the tree of a record that was just stored: its sub-records are read soon, if at all.
pub(super) fn plant(
    capsule: &Capsule,
    trees: &mut Trees,
    (name, record): (&RecordName, &Record<'_>),
    tree: Tree,
) {
    if let Ok(head) = TreeHead::read(&mut Reader::new(record.body), capsule.is_sealed()) {
        let grown = Grown::new(&head, Some(record.body), Some(tree));
        trees.insert(&capsule.charter().name(), name, Rc::new(grown));
    }
}

/// Finds where the sub-records of a record lie, and grows their tree if paths of so many levels are wanted.
fn grow(capsule: &Capsule, space: &mut Space, record: &RecordName, levels: u8) -> Result<Outcome<Grown>> {
    let entry = known!(entry(capsule, space, record))?;
    let sealed = capsule.is_sealed();
    let needed = match entry.inline_body() {
        None if levels == 0 => {
            let mut count = Vec::new();
            let range = 0..size_of::<u32>();
            match capsule.write_body(space, record, &Body::of(&entry), range, &mut count)? {
                Outcome::Done(()) => {
                    TreeHead::len_of(Reader::new(&count).field().map_err(|_| CORRUPT)?, sealed)
                }
                Outcome::Wait => return Ok(Outcome::Wait),
            }
        }
        _ => entry.header().body_len() as usize,
    };
    let mut bytes = Vec::new();
    let Outcome::Done(()) = capsule.write_body(space, record, &Body::of(&entry), 0..needed, &mut bytes)?
    else {
        return Ok(Outcome::Wait);
    };
    let head = TreeHead::read(&mut Reader::new(&bytes), sealed).map_err(|_| CORRUPT)?;
    let tree = match levels {
        0 => None,
        _ => Some(TreeBody::decode(&bytes, sealed)?.hashes(capsule.charter().hasher())?),
    };
    Ok(Outcome::Done(Grown::new(&head, entry.inline_body(), tree)))
}

/// A stored record with sub-records.
fn entry(
    capsule: &Capsule,
    space: &mut Space,
    record: &RecordName,
) -> core::result::Result<Result<Entry>, Missing> {
    Ok(match capsule.index().entry(space, record)? {
        Ok(Some(entry)) if entry.header().kind() == RecordKind::Tree => Ok(entry),
        Ok(Some(_)) => Err(Refusal::new(Code::BadTree, 0)),
        Ok(None) => Err(NO_RECORD),
        Err(refusal) => Err(refusal),
    })
}
