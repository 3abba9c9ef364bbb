//! Opening capsules, and heeding what of them is damaged.

use alloc::boxed::Box;

use super::capsule::Capsule;
use super::index::{Index, Outcome};
use super::job::Job;
use super::space::Missing;
use super::{MAX_OPEN, Replica, Waiting, layout};
use crate::hash::CapsuleName;
use crate::refusal::Result;

impl Replica {
    /// The capsule, taken out of those that are open; nothing if it is not stored.
    pub(super) fn opened(&mut self, name: &CapsuleName) -> Result<Outcome<Option<Box<Capsule>>>> {
        if let Some(capsule) = self.open.remove(name) {
            return Ok(Outcome::Done(Some(capsule)));
        }
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
        let opened = Capsule::open(&mut self.space, name, index, self.now_ms)?;
        match opened {
            Outcome::Done(_) => self.page = None,
            Outcome::Wait => _ = self.ask(),
        }
        Ok(opened)
    }

    /// Keeps it open for what comes next.
    pub(super) fn keep_open(&mut self, name: CapsuleName, capsule: Option<Box<Capsule>>) {
        if let Some(capsule) = capsule {
            if self.open.len() >= MAX_OPEN {
                self.open.pop_first();
            }
            self.open.insert(name, capsule);
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
