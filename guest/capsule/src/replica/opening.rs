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

/// Memory of the open capsules beside the one in use. Heads and writers make one larger, to about 2 MiB; 2048 small ones fit. Opening
/// one again takes a signature and looks into the store.
const MAX_OPEN_BYTES: usize = 16 << 20;

/// An open capsule that no request uses at the moment
#[derive(Debug)]
struct Idle {
    capsule: Box<Capsule>,
    bytes: usize,
    /// The source that used it last, and when.
    source: Source,
    used: u64,
}

/// The open capsules. Of too many, the source that takes the most memory loses the one that it used longest ago.
#[derive(Debug, Default)]
pub(super) struct OpenCapsules {
    all: BTreeMap<CapsuleName, Idle>,
    by_source: BTreeMap<Source, usize>,
    bytes: usize,
    uses: u64,
}

impl OpenCapsules {
    fn take(&mut self, name: &CapsuleName) -> Option<Box<Capsule>> {
        let idle = self.all.remove(name)?;
        self.bytes -= idle.bytes;
        if let Some(bytes) = self.by_source.get_mut(&idle.source) {
            *bytes -= idle.bytes;
            if *bytes == 0 {
                self.by_source.remove(&idle.source);
            }
        }
        Some(idle.capsule)
    }

    fn insert(&mut self, name: CapsuleName, source: Source, capsule: Box<Capsule>) {
        while self.bytes > MAX_OPEN_BYTES
            && let Some(name) = self.evictable()
        {
            self.take(&name);
        }
        self.uses += 1;
        let bytes = capsule.memory();
        self.bytes += bytes;
        *self.by_source.entry(source).or_default() += bytes;
        let idle = Idle {
            capsule,
            bytes,
            source,
            used: self.uses,
        };
        self.all.insert(name, idle);
    }

    fn evictable(&self) -> Option<CapsuleName> {
        let (source, _) = self.by_source.iter().max_by_key(|(_, bytes)| **bytes)?;
        let of_source = self.all.iter().filter(|(_, idle)| idle.source == *source);
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
