//! Which earlier records a record points to, beside its parent, so that proofs stay short.

use alloc::vec::Vec;

use crate::hash::RecordName;

/// Records in blocks: a record is a block of level 0, and after `N` blocks of one level in a row the next record closes them to one of
/// the next level.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Blocks<const N: usize> {
    /// Level and last record of each block that is not closed into a larger one.
    open: Vec<(u8, RecordName)>,
}

impl<const N: usize> Blocks<N> {
    /// The blocks that the next record closes.
    fn closed(&self) -> Option<&[(u8, RecordName); N]> {
        let closed = self.open.last_chunk::<N>()?;
        closed
            .iter()
            .all(|(level, _)| *level == closed[0].0)
            .then_some(closed)
    }

    fn push(&mut self, name: RecordName) {
        let level = match self.closed() {
            Some(closed) => {
                let level = closed[0].0 + 1;
                self.open.truncate(self.open.len() - N);
                level
            }
            None => 0,
        };
        self.open.push((level, name));
    }
}

/// Shortcuts over a writer's records, one more backpointer each, with which the way between any two takes a number of steps
/// that grows with the logarithm of their distance.
///
/// Who closes three blocks points to the record before them, or, if they are the very first, to the last record of the first of the
/// three: the scheme of Buldas and others (*Time-stamping with binary linking schemes*, section 5), as in Bamboo.
#[derive(Clone, Debug, Default)]
pub struct Shortcuts(Blocks<3>);

impl Shortcuts {
    /// The shortcut of the next record, if it has one beside its writer's record before it.
    #[must_use]
    pub fn next(&self) -> Option<RecordName> {
        let closed = self.0.closed()?;
        let before = (self.0.open.len() - closed.len()).checked_sub(1);
        Some(before.map_or(closed[0].1, |place| self.0.open[place].1))
    }

    /// Takes the record that was written.
    pub fn push(&mut self, name: RecordName) {
        self.0.push(name);
    }

    /// Appends what a writer stores of this.
    pub fn encode(&self, out: &mut Vec<u8>) {
        for (level, name) in &self.0.open {
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
        let open = entries.iter().map(entry).collect();
        rest.is_empty().then_some(Self(Blocks { open }))
    }
}

/// Hubs among records that are written together, most likely to be signed by the last of them: who closes seven blocks points to the
/// last record of each, and the last record to those of all that are open. So the way from it to any other takes a step for each
/// power of seven, and one header on it proves seven records.
#[derive(Clone, Debug, Default)]
pub struct Hubs(Blocks<{ Self::SPOKES }>);

impl Hubs {
    /// How many blocks a hub closes.
    pub const SPOKES: usize = 7;

    /// What the next record points to beside its parent; more if it is the last.
    pub fn next(&self, is_last: bool) -> impl Iterator<Item = &RecordName> {
        let closed: &[_] = match self.0.closed() {
            _ if is_last => &self.0.open,
            Some(closed) => closed,
            None => &[],
        };
        closed.iter().map(|(_, name)| name)
    }

    /// Takes the record that was written.
    pub fn push(&mut self, name: RecordName) {
        self.0.push(name);
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
        let mut shortcuts = Shortcuts::default();
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
    fn from_the_last_of_a_batch_the_way_to_any_other_is_a_few_steps() {
        for (count, most, longest) in [(2, 1, 1), (8, 7, 1), (50, 8, 2), (400, 14, 3), (4096, 28, 5)] {
            let mut hubs = Hubs::default();
            let mut steps = alloc::vec![usize::MAX; count];
            let mut all: Vec<Vec<usize>> = Vec::new();
            for at in 0..count {
                let own: Vec<usize> = hubs
                    .next(at + 1 == count)
                    .map(|name| index(*name))
                    .chain(at.checked_sub(1))
                    .collect();
                assert!(own.len() <= most + 1, "{} of {count}", own.len());
                all.push(own);
                hubs.push(name(at as u64));
            }
            steps[count - 1] = 0;
            for at in (0..count).rev() {
                for to in &all[at] {
                    steps[*to] = steps[*to].min(steps[at] + 1);
                }
            }
            assert_eq!(steps.iter().max(), Some(&longest), "of {count}");
        }
    }

    #[test]
    fn what_is_kept_grows_with_the_logarithm_and_comes_back() {
        let mut shortcuts = Shortcuts::default();
        for at in 1..=100_000 {
            shortcuts.push(name(at));
            assert!(shortcuts.0.open.len() <= 33);
        }
        let mut encoded = Vec::new();
        shortcuts.encode(&mut encoded);
        let back = Shortcuts::decode(&encoded).expect("what was written");
        assert_eq!(back.next(), shortcuts.next());
        assert_eq!(back.0, shortcuts.0);
        assert!(Shortcuts::decode(&encoded[1..]).is_none());
    }
}
