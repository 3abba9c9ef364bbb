//! Which heads are named where there are more than can be.

use alloc::vec::Vec;
use core::cmp::Reverse;

use crate::hash::RecordName;
use crate::header::HeaderView;

/// The writer that a record names, and its sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Origin {
    /// The writer's number.
    pub(crate) writer: u16,
    /// The sequence number.
    pub(crate) sequence: u64,
}

impl Origin {
    /// That of the record with this header.
    pub(crate) fn of(header: &HeaderView<'_>) -> Self {
        Self {
            writer: header.writer(),
            sequence: header.sequence(),
        }
    }
}

/// At most `limit` of these heads: first the newest of each writer, then the second of each, and so on, so that no writer hides
/// the newest of another by however many of its own.
pub(crate) fn newest_of_each(
    heads: impl Iterator<Item = (RecordName, Origin)>,
    limit: usize,
) -> Vec<(RecordName, Origin)> {
    let mut all: Vec<(RecordName, Origin)> = heads.collect();
    if all.len() <= limit {
        return all;
    }
    all.sort_unstable_by_key(|(name, origin)| (origin.writer, Reverse(origin.sequence), *name));
    let of_writers = all.chunk_by(|(_, one), (_, other)| one.writer == other.writer);
    let mut in_turn: Vec<(usize, RecordName, Origin)> = of_writers
        .flat_map(|of_one| of_one.iter().enumerate())
        .map(|(turn, (name, origin))| (turn, *name, *origin))
        .collect();
    in_turn.sort_by_key(|(turn, ..)| *turn);
    in_turn.truncate(limit);
    in_turn
        .into_iter()
        .map(|(_, name, origin)| (name, origin))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(writer: u16, sequence: u64) -> (RecordName, Origin) {
        let mut name = [0; 32];
        name[..2].copy_from_slice(&writer.to_be_bytes());
        name[2..10].copy_from_slice(&sequence.to_be_bytes());
        (RecordName(name), Origin { writer, sequence })
    }

    #[test]
    fn newest_of_each_writer_comes_first() {
        let crowd = (0..100).map(|sequence| head(1, sequence));
        let all: Vec<_> = crowd.chain([head(0, 7), head(0, 3), head(9, 1)]).collect();
        let some = |limit| newest_of_each(all.iter().copied(), limit);
        assert_eq!(some(3), [head(0, 7), head(1, 99), head(9, 1)]);
        assert_eq!(some(6)[3..], [head(0, 3), head(1, 98), head(1, 97)]);
        assert_eq!(some(103), all);
    }
}
