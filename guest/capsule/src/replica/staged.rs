//! Records of a request that nothing proves when they come: a signature may follow, their writer may have made itself known, or they
//! stray.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;

use hashbrown::HashMap;
use selfsame_codec::{Code, Field, Reader};

use super::capsule::Capsule;
use super::entry::Given;
use super::index::Outcome;
use super::job::{Job, Storing};
use super::layout::{self, of_record};
use super::serve::Tools;
use super::space::Space;
use crate::hash::{CapsuleName, RecordName};
use crate::record::{Checked, Record};
use crate::refusal::{Refusal, Result};
use crate::spread::BuildSpread;

/// Nothing proves a record, and nobody who is known to be a writer has brought it.
const UNPROVEN: Refusal = Refusal {
    code: Code::Unproven,
    at: 0,
};

/// Records of a request that nothing proves so far: a signature that comes after them may
#[derive(Debug, Default)]
pub(super) struct Staged {
    /// Which operation writes each.
    pub(super) of: HashMap<RecordName, usize, BuildSpread>,
    /// Where their results stand.
    pub(super) results: BTreeMap<usize, usize>,
    pub(super) refused: BTreeMap<usize, Refusal>,
    /// Those that are looked at once more, the next one last, as soon as all operations are carried out.
    next: Option<Vec<usize>>,
}

/// A record that waits for what proves it, in a request or astray
#[derive(Clone, Debug)]
pub(super) struct Brought {
    pub(super) name: RecordName,
    pub(super) message: Arc<Vec<u8>>,
    /// Where in that it begins.
    pub(super) at: usize,
}

impl Brought {
    /// A record, if it strays.
    pub(super) fn stray(space: &Space, capsule: &CapsuleName, name: &RecordName) -> Option<Self> {
        let key = of_record(capsule, layout::RECORD, name);
        let message = space.strays.get(&key)?;
        Some(Self {
            name: *name,
            message,
            at: 0,
        })
    }

    /// The record.
    ///
    /// # Errors
    /// None, as it was read before.
    pub(super) fn given(&self) -> Result<Given<'_>> {
        Ok(Given {
            record: Record::read(&mut Reader::new(&self.message[self.at..]))?,
            request: &self.message,
            at: self.at,
        })
    }
}

impl Job {
    /// Ends what is staged: what something proves by now is stored, what a writer has brought is kept for it, and the rest strays.
    pub(super) fn settle(&mut self, capsule: &mut Capsule, tools: &mut Tools<'_>) -> Result<Outcome<()>> {
        // What was written last is most likely to be pointed to by what is proven, and points to others.
        let staged = &mut self.staged;
        let all = || staged.results.keys().copied().collect();
        let mut next = staged.next.take().unwrap_or_else(all);
        while let Some(index) = next.pop() {
            let Some(one) = self.brought(index) else { continue };
            let given = one.given()?;
            match capsule.write(tools.space, &one.name, &given, None)? {
                Outcome::Wait => {
                    // To look at the others again would evict what this one reads.
                    next.push(index);
                    self.staged.next = Some(next);
                    return Ok(Outcome::Wait);
                }
                Outcome::Done(false) => {}
                Outcome::Done(true) => {
                    tools.space.mark();
                    self.is_stored(index, one.name);
                    let pointers = given.record.header.backpointers();
                    next.extend(pointers.filter_map(|pointer| self.staged.of.get(&pointer).copied()));
                }
            }
        }
        self.staged.next = Some(next);
        while let Some((index, _)) = self.staged.results.first_key_value() {
            let index = *index;
            let Some(one) = self.brought(index) else {
                self.staged.results.remove(&index);
                continue;
            };
            let given = one.given()?;
            match capsule.write(tools.space, &one.name, &given, self.writer) {
                Ok(Outcome::Wait) => return Ok(Outcome::Wait),
                Ok(Outcome::Done(true)) => {
                    tools.space.mark();
                    self.is_stored(index, one.name);
                }
                Ok(Outcome::Done(false)) => {
                    let bytes = &one.message[one.at..one.at + given.record.len()];
                    let key = of_record(&capsule.charter().name(), layout::RECORD, &one.name);
                    tools.space.strays.insert(self.source, key, bytes.to_vec());
                    self.is_refused(index, &one.name, UNPROVEN);
                }
                Err(refusal) => self.is_refused(index, &one.name, refusal),
            }
        }
        Ok(Outcome::Done(()))
    }

    /// The record that an operation writes and that is staged still.
    fn brought(&self, index: usize) -> Option<Brought> {
        let (at, checked) = self.operations.get(index)?;
        let Some(Ok(Checked { name, .. })) = checked else {
            return None;
        };
        self.staged.results.contains_key(&index).then(|| Brought {
            name: *name,
            message: Arc::clone(&self.message),
            at: at + 1,
        })
    }

    pub(super) fn is_stored(&mut self, index: usize, name: RecordName) {
        self.storing.insert(index, Storing::Record(name));
        self.staged.results.remove(&index);
        self.staged.of.remove(&name);
    }

    fn is_refused(&mut self, index: usize, name: &RecordName, refusal: Refusal) {
        if let Some(at) = self.staged.results.remove(&index) {
            self.staged.refused.insert(at, refusal);
        }
        self.staged.of.remove(name);
    }

    /// A record that is to be signed and is not stored, with all of this request to which it leads, in their order.
    pub(super) fn brought_for(&self, space: &Space, record: &RecordName) -> Vec<Brought> {
        let Some(first) = self.staged.of.get(record) else {
            return Brought::stray(space, &self.envelope.capsule, record)
                .into_iter()
                .collect();
        };
        let (mut next, mut reached) = (Vec::from([*first]), BTreeMap::new());
        while let Some(index) = next.pop() {
            let Some(one) = self.brought(index).filter(|_| !reached.contains_key(&index)) else {
                continue;
            };
            if let Ok(given) = one.given() {
                let pointers = given.record.header.backpointers();
                next.extend(pointers.filter_map(|pointer| self.staged.of.get(&pointer).copied()));
            }
            reached.insert(index, one);
        }
        reached.into_values().collect()
    }
}

/// The results with refusals in place of those that stand at these places and say that all is well.
pub(super) fn refuse_at(results: Vec<u8>, refused: &BTreeMap<usize, Refusal>) -> Vec<u8> {
    if refused.is_empty() {
        return results;
    }
    let mut out = Vec::with_capacity(results.len() + refused.len() * size_of::<u32>());
    let mut from = 0;
    for (at, refusal) in refused {
        out.extend_from_slice(&results[from..*at]);
        refusal.code.as_u16().write(&mut out);
        refusal.at.write(&mut out);
        from = at + size_of::<u16>();
    }
    out.extend_from_slice(&results[from..]);
    out
}
