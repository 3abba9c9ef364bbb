//! Opening capsules, keeping them open, and heeding what of them is damaged.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;

use super::capsule::{Capsule, Opening};
use super::index::{Index, Outcome};
use super::job::Job;
use super::space::Missing;
use super::{Replica, Source, Waiting, layout};
use crate::hash::CapsuleName;
use crate::refusal::Result;

/// Memory of the open capsules beside the one in use. Heads and writers make one larger, to about 3 MiB; 2048 small ones fit. Opening
/// one again takes a signature and looks into the store.
const MAX_OPEN_BYTES: usize = 16 << 20;

/// An open capsule that no request uses at the moment
#[derive(Debug)]
struct Idle {
    capsule: Box<Capsule>,
    bytes: usize,
    /// The source whose it counts as, and another one that has used it lately.
    holder: Source,
    other: Option<Source>,
    used: u64,
}

/// The open capsules. Each counts as of one source: of whoever had it opened, until that source has too many. Of too many, the source
/// that takes the most memory loses the one that was used longest ago, unless another source that holds less has used that one too:
/// then it counts as that one's. So nobody closes the capsules of others by using them.
#[derive(Debug, Default)]
pub(super) struct OpenCapsules {
    all: BTreeMap<CapsuleName, Idle>,
    by_source: BTreeMap<Source, usize>,
    bytes: usize,
    uses: u64,
    /// Whose the capsule in use was.
    taken: Option<(CapsuleName, Source, Option<Source>)>,
}

impl OpenCapsules {
    fn take(&mut self, name: &CapsuleName) -> Option<Box<Capsule>> {
        let idle = self.all.remove(name)?;
        self.discharge(idle.holder, idle.bytes);
        self.taken = Some((*name, idle.holder, idle.other));
        Some(idle.capsule)
    }

    fn charge(&mut self, source: Source, bytes: usize) {
        self.bytes += bytes;
        *self.by_source.entry(source).or_default() += bytes;
    }

    fn discharge(&mut self, source: Source, bytes: usize) {
        self.bytes -= bytes;
        if let Some(held) = self.by_source.get_mut(&source) {
            *held -= bytes;
            if *held == 0 {
                self.by_source.remove(&source);
            }
        }
    }

    fn insert(&mut self, name: CapsuleName, source: Source, capsule: Box<Capsule>) {
        let taken = self.taken.take_if(|(taken, ..)| *taken == name);
        let (holder, other) = match taken {
            Some((_, holder, other)) if holder == source => (holder, other),
            Some((_, holder, _)) => (holder, Some(source)),
            None => (source, None),
        };
        while self.bytes > MAX_OPEN_BYTES
            && let Some(name) = self.evictable()
        {
            self.evict(&name);
        }
        self.uses += 1;
        let bytes = capsule.memory();
        self.charge(holder, bytes);
        let idle = Idle {
            capsule,
            bytes,
            holder,
            other,
            used: self.uses,
        };
        self.all.insert(name, idle);
    }

    /// Closes a capsule, or counts it as of another source that has used it and holds less.
    fn evict(&mut self, name: &CapsuleName) {
        let Some(mut idle) = self.all.remove(name) else {
            return;
        };
        self.discharge(idle.holder, idle.bytes);
        let held = |source: &Source| self.by_source.get(source).copied().unwrap_or(0);
        let next = idle.other.take();
        if let Some(next) = next.filter(|next| held(next) < held(&idle.holder)) {
            self.charge(next, idle.bytes);
            idle.holder = next;
            self.all.insert(*name, idle);
        }
    }

    fn evictable(&self) -> Option<CapsuleName> {
        let (source, _) = self.by_source.iter().max_by_key(|(_, bytes)| **bytes)?;
        let of_source = self.all.iter().filter(|(_, idle)| idle.holder == *source);
        let (name, _) = of_source.min_by_key(|(_, idle)| idle.used)?;
        Some(*name)
    }
}

impl Replica {
    /// The capsule, taken out of those that are open; nothing if it is not stored.
    pub(super) fn opened(&mut self, name: &CapsuleName) -> Result<Outcome<Option<Box<Capsule>>>> {
        if let Some(capsule) = self.open.take(name) {
            return Ok(Outcome::Done(Some(capsule)));
        }
        let begun = self.opening.take().filter(|opening| opening.is_of(name));
        let opening = match begun {
            Some(opening) => opening,
            None => match self.begin_opening(name)? {
                Outcome::Done(Some(opening)) => opening,
                Outcome::Done(None) => return Ok(Outcome::Done(None)),
                Outcome::Wait => return Ok(Outcome::Wait),
            },
        };
        match opening.step(&mut self.space) {
            Ok(capsule) => Ok(Outcome::Done(Some(capsule))),
            Err(opening) => {
                self.opening = Some(opening);
                self.ask();
                Ok(Outcome::Wait)
            }
        }
    }

    fn begin_opening(&mut self, name: &CapsuleName) -> Result<Outcome<Option<Opening>>> {
        match self.space.get(&layout::single(name, layout::METADATA)) {
            Ok(Some(_)) => {}
            Ok(None) => return Ok(Outcome::Done(None)),
            Err(Missing) => {
                _ = self.space.get(&layout::single(name, layout::COUNTS));
                _ = self.space.get(&layout::single(name, layout::DAMAGE));
                self.ask();
                return Ok(Outcome::Wait);
            }
        }
        let (Some(heads), Some(pending)) = (&self.heads, &self.pending) else {
            let is_first = self.heads.is_none();
            self.scan_all(name, if is_first { layout::HEAD } else { layout::PENDING });
            return Ok(Outcome::Wait);
        };
        // Whether there are holes, the first few tell.
        let Some(holes) = &self.page else {
            let (start, end) = layout::range(name, layout::POINTED);
            self.push_scan(Waiting::Page, start, end);
            return Ok(Outcome::Wait);
        };
        let index = Index::new(*name, heads, pending, !holes.is_empty());
        let begun = Capsule::open(&mut self.space, name, index, self.now_ms)?;
        match begun {
            Outcome::Done(_) => self.page = None,
            Outcome::Wait => _ = self.ask(),
        }
        Ok(begun)
    }

    /// Keeps it open for what comes next; a request of `source` has used it.
    pub(super) fn keep_open(&mut self, name: CapsuleName, source: Source, capsule: Option<Box<Capsule>>) {
        if let Some(capsule) = capsule {
            self.open.insert(name, source, capsule);
        }
    }

    /// Heeds what was found damaged of an open capsule; whether it has to be opened anew.
    pub(super) fn heeds_damage(&mut self, capsule: &mut Capsule) -> bool {
        if self.space.has_damaged() {
            self.trees.clear();
        }
        if capsule.heal(&mut self.space) {
            self.commit(false);
            self.forget_reading();
            return true;
        }
        if capsule.index_mut().damage_mut().begin_mending() {
            self.jobs.push_back(Job::mend(capsule.charter().name()));
        }
        false
    }
}
