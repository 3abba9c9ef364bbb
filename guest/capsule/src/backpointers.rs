//! Which earlier records a record points to, beside its parent, so that proofs stay short.

use alloc::vec::Vec;

use crate::hash::RecordName;

/// Shortcuts over a writer's records, one more backpointer each, with which the way between any two takes a number of steps
/// that grows with the logarithm of their distance.
///
/// Records form blocks: a record is a block of level 0, and after three blocks of one level in a row the next record closes
/// them to one of the next level. Who closes a block points to the record before that block, or, if it is the very first, to the
/// last record of the first of the three: the scheme of Buldas and others (*Time-stamping with binary linking schemes*,
/// section 5), as in Bamboo.
#[derive(Clone, Debug, Default)]
pub struct Shortcuts {
    /// Level and last record of each block that is not closed into a larger one.
    open: Vec<(u8, RecordName)>,
}

/// Blocks that the next one closes.
const CLOSED: usize = 3;

impl Shortcuts {
    /// For a writer's first record.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The shortcut of the next record, if it has one beside its writer's record before it.
    #[must_use]
    pub fn next(&self) -> Option<RecordName> {
        let (_, closed) = self.closes()?;
        let before = (self.open.len() - CLOSED).checked_sub(1);
        Some(before.map_or(closed, |place| self.open[place].1))
    }

    /// Takes the record that was written.
    pub fn push(&mut self, name: RecordName) {
        let level = match self.closes() {
            Some((level, _)) => {
                self.open.truncate(self.open.len() - CLOSED);
                level + 1
            }
            None => 0,
        };
        self.open.push((level, name));
    }

    /// What the next record closes: blocks of which level, and where the first of them ends.
    fn closes(&self) -> Option<(u8, RecordName)> {
        let (first, rest) = self.open.last_chunk::<CLOSED>()?.split_first()?;
        rest.iter().all(|(level, _)| *level == first.0).then_some(*first)
    }

    /// Appends what a writer stores of this.
    pub fn encode(&self, out: &mut Vec<u8>) {
        for (level, name) in &self.open {
            out.push(*level);
            out.extend_from_slice(&name.0);
        }
    }

    /// Reads what [`Self::encode`] wrote.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let (entries, rest) = bytes.as_chunks::<33>();
        let entry = |bytes: &[u8; 33]| {
            let mut name = [0; 32];
            name.copy_from_slice(&bytes[1..]);
            (bytes[0], RecordName(name))
        };
        rest.is_empty().then(|| Self {
            open: entries.iter().map(entry).collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use alloc::collections::VecDeque;

    use super::*;

    fn name(index: u64) -> RecordName {
        let mut name = [0; 32];
        name[..8].copy_from_slice(&index.to_le_bytes());
        RecordName(name)
    }

    fn index(name: RecordName) -> usize {
        u64::from_le_bytes(name.0[..8].try_into().expect("eight bytes")) as usize
    }

    /// The pointers of each of so many records, which are numbered from 1.
    fn pointers(count: u64) -> Vec<Vec<usize>> {
        let mut shortcuts = Shortcuts::new();
        let mut all = alloc::vec![Vec::new()];
        for at in 1..=count {
            let mut own: Vec<usize> = (at > 1).then_some(at as usize - 1).into_iter().collect();
            own.extend(shortcuts.next().map(index));
            all.push(own);
            shortcuts.push(name(at));
        }
        all
    }

    /// The links of Bamboo's specification, for the records that have one beside their predecessor.
    #[test]
    fn the_first_links_are_those_of_bamboo() {
        let links: Vec<(usize, usize)> = pointers(40)
            .iter()
            .enumerate()
            .filter_map(|(at, own)| own.get(1).map(|to| (at, *to)))
            .collect();
        let expected = [
            (4, 1),
            (8, 4),
            (12, 8),
            (13, 4),
            (17, 13),
            (21, 17),
            (25, 21),
            (26, 13),
        ];
        assert_eq!(links[..8], expected);
        assert_eq!(links.last(), Some(&(40, 13)));
    }

    #[test]
    fn from_anywhere_the_way_to_any_earlier_record_is_short() {
        const COUNT: usize = 3000;
        let all = pointers(COUNT as u64);
        for from in [COUNT, COUNT - 1, 2187, 1093, 1500] {
            let mut steps = alloc::vec![usize::MAX; COUNT + 1];
            steps[from] = 0;
            let mut queue = VecDeque::from([from]);
            while let Some(at) = queue.pop_front() {
                for to in &all[at] {
                    if steps[*to] == usize::MAX {
                        steps[*to] = steps[at] + 1;
                        queue.push_back(*to);
                    }
                }
            }
            let longest = steps[1..=from].iter().max();
            assert!(longest.is_some_and(|steps| *steps <= 40), "{longest:?}");
        }
    }

    #[test]
    fn what_is_kept_grows_with_the_logarithm_and_comes_back() {
        let mut shortcuts = Shortcuts::new();
        for at in 1..=100_000 {
            shortcuts.push(name(at));
            assert!(shortcuts.open.len() <= 33);
        }
        let mut encoded = Vec::new();
        shortcuts.encode(&mut encoded);
        let back = Shortcuts::decode(&encoded).expect("what was written");
        assert_eq!(back.next(), shortcuts.next());
        assert_eq!(back.open, shortcuts.open);
        assert!(Shortcuts::decode(&encoded[1..]).is_none());
    }
}
