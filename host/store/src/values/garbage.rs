//! Files of which most rows are not what their keys have any more: the others are written again with the next table.

use std::fs;

use selfsame_write_batch::{LENGTHS, Row};
use xxhash_rust::xxh3::{Xxh3Default, xxh3_64};

use super::super::StoreError;
use super::super::file::failed;
use super::draft::{Draft, MARKED};
use super::{Listed, Place, Values};

/// Files in which garbage is looked for with each table, which most often brings one: what is half garbage goes as fast as it comes.
const LOOKED_AT: usize = 2;
/// Rows that tell how much of a file is garbage.
const SAMPLES: u64 = 24;
/// So many files that are small are written as one.
const FEW: usize = 8;

/// What was needed of files that are not any more
#[derive(Debug, Default)]
pub(crate) struct Kept {
    /// Keys, in their order, and where their rows are now.
    pub(crate) rows: Vec<(Vec<u8>, Place)>,
    files: Vec<u64>,
}

impl Kept {
    pub(super) fn replaces(&self, number: u64) -> bool {
        self.files.contains(&number)
    }
}

/// Looks for files that are mostly garbage, and for small ones, and writes what is needed of them to a new one. `place_of` says where
/// the row of a key is, `small` how many bytes a small file has at most.
///
/// # Errors
/// [`StoreError`] when a file cannot be read or is damaged, or the new one cannot be written.
pub(crate) fn keep(
    values: &Values,
    small: u64,
    draft: &mut Draft,
    place_of: impl Fn(&[u8]) -> Result<Option<Place>, StoreError>,
) -> Result<Kept, StoreError> {
    let mut chosen = small_ones(values, small);
    if chosen.is_empty() {
        chosen = mostly_garbage(values, &place_of)?;
    }
    let mut kept = Kept::default();
    for file in chosen {
        let Loaded { bytes, rows } = load(values, &file, &place_of)?;
        for row in rows.iter().filter_map(|at| Row::at(&bytes, *at)) {
            kept.rows.push((row.key.to_vec(), draft.append(row.bytes)?));
        }
        kept.files.push(file.number);
    }
    kept.rows.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
    Ok(kept)
}

/// A file in memory, and where those rows begin in it that are what their keys have
struct Loaded {
    bytes: Vec<u8>,
    rows: Vec<usize>,
}

fn small_ones(values: &Values, small: u64) -> Vec<Listed> {
    let mut files = values.files().listed.clone();
    files.retain(|file| file.len < small);
    if files.len() < FEW {
        files.clear();
    }
    files
}

/// Those of which half or more of what was looked at is garbage, of the files whose turn it is.
fn mostly_garbage(
    values: &Values,
    place_of: &impl Fn(&[u8]) -> Result<Option<Place>, StoreError>,
) -> Result<Vec<Listed>, StoreError> {
    let mut found = Vec::new();
    for file in turn(values) {
        let (live, all) = live_of_sample(values, &file, place_of)?;
        if all > 0 && 2 * live <= all {
            found.push(file);
        }
    }
    Ok(found)
}

/// The files that come next, in the order of their numbers and from the first one again.
fn turn(values: &Values) -> Vec<Listed> {
    let mut files = values.files();
    let next = files.listed.partition_point(|file| file.number <= files.looked);
    let (before, behind) = files.listed.split_at(next);
    let turn: Vec<Listed> = behind.iter().chain(before).take(LOOKED_AT).copied().collect();
    if let Some(last) = turn.last() {
        files.looked = last.number;
    }
    turn
}

/// How many of some rows of a file are what their keys have, and how many were looked at.
fn live_of_sample(
    values: &Values,
    listed: &Listed,
    place_of: &impl Fn(&[u8]) -> Result<Option<Place>, StoreError>,
) -> Result<(u64, u64), StoreError> {
    let marks = u64::from(listed.rows.div_ceil(MARKED));
    let samples = marks.min(SAMPLES);
    let (mut live, mut all) = (0, 0);
    for sample in 0..samples {
        let Some((at, key)) = sampled_row(values, listed, sample * marks / samples)? else {
            continue;
        };
        all += 1;
        let is_here = |place: Place| place.file == listed.number && place.at == at;
        live += u64::from(place_of(&key)?.is_some_and(is_here));
    }
    Ok((live, all))
}

/// Where a marked row begins, and its key; nothing where the mark is damaged.
fn sampled_row(values: &Values, listed: &Listed, mark: u64) -> Result<Option<(u64, Vec<u8>)>, StoreError> {
    let mut at = [0; 8];
    values.read_at(listed.number, &mut at, listed.len + mark * 8)?;
    let at = u64::from_le_bytes(at);
    if at >= listed.len.saturating_sub(LENGTHS as u64) {
        return Ok(None);
    }
    let mut key_len = [0; 4];
    values.read_at(listed.number, &mut key_len, at)?;
    let key_len = u32::from_le_bytes(key_len);
    let key_at = at + LENGTHS as u64;
    if u64::from(key_len) > listed.len - key_at {
        return Ok(None);
    }
    let mut key = vec![0; key_len as usize];
    values.read_at(listed.number, &mut key, key_at)?;
    Ok(Some((at, key)))
}

/// Reads a file, and finds its rows that are what their keys have.
fn load(
    values: &Values,
    listed: &Listed,
    place_of: &impl Fn(&[u8]) -> Result<Option<Place>, StoreError>,
) -> Result<Loaded, StoreError> {
    let path = values.path_of(listed.number);
    let bytes = fs::read(&path).map_err(|error| failed(&path, &error))?;
    let mut rows = Vec::new();
    let mut sums = Xxh3Default::new();
    let mut at = 0;
    for _ in 0..listed.rows {
        let Some(row) = Row::at(&bytes, at) else { break };
        let sum = xxh3_64(row.bytes);
        sums.update(&sum.to_le_bytes());
        let is_here = |place: Place| place.file == listed.number && place.at == at as u64 && place.sum == sum;
        if place_of(row.key)?.is_some_and(is_here) {
            rows.push(at);
        }
        at = row.end;
    }
    // Rows that are damaged look as if nobody needed them.
    if at as u64 != listed.len || sums.digest() != listed.sum {
        return Err(StoreError::corrupt(&path, "its checksum is another one"));
    }
    Ok(Loaded { bytes, rows })
}
