//! Publications of this node: which one is due when, and the few that are under way.

use alloc::vec::Vec;

use selfsame_codec::Code;

use super::Parameters;
use super::publish::NameKey;
use crate::association::{Association, ObjectId};
use crate::identity::PeerId;
use selfsame_sorted_map::{Map, Set};

/// How far a publication has come
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Due { at_ms: u64 },
    Looking,
    Storing,
    Stored,
}

/// One object under which this node is to be found
#[derive(Debug)]
pub(super) struct Publication {
    pub(super) name: NameKey,
    pub(super) association: Association,
    pub(super) state: State,
    /// Whether the association was stored there before, so that a lookup may show that it still is.
    pub(super) was_stored: bool,
    pub(super) holder: Option<PeerId>,
    pub(super) tries: u32,
    pub(super) error: Code,
    /// Sequence of the association that the store has.
    pub(super) kept_sequence_ms: Option<u64>,
}

/// All publications by their objects
#[derive(Debug)]
pub(super) struct Publications {
    parameters: &'static Parameters,
    publications: Map<ObjectId, Publication>,
    /// Those that were due at the last look and have not begun since.
    due: Vec<ObjectId>,
    /// No other publication is due before this.
    next_due_ms: u64,
    under_way: Set<ObjectId>,
}

impl Publications {
    pub(super) fn new(parameters: &'static Parameters) -> Self {
        Self {
            parameters,
            publications: Map::new(),
            due: Vec::new(),
            next_due_ms: u64::MAX,
            under_way: Set::new(),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.publications.is_empty()
    }

    pub(super) fn get(&self, object: &ObjectId) -> Option<&Publication> {
        self.publications.get(object)
    }

    pub(super) fn get_mut(&mut self, object: &ObjectId) -> Option<&mut Publication> {
        self.publications.get_mut(object)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&ObjectId, &Publication)> {
        self.publications.iter()
    }

    /// A new association takes its publication, and that of an older one. It is due at once.
    pub(super) fn insert(&mut self, now_ms: u64, name: NameKey, association: Association) {
        let object = association.object();
        let holder = self.get(&object).and_then(|publication| publication.holder);
        let publication = Publication {
            name,
            association,
            state: State::Due { at_ms: now_ms },
            was_stored: false,
            holder,
            tries: 0,
            error: Code::NoRoute,
            kept_sequence_ms: None,
        };
        self.under_way.remove(&object);
        self.publications.insert(object, publication);
        self.next_due_ms = self.next_due_ms.min(now_ms);
    }

    /// Keeps the publications of some names.
    pub(super) fn retain(&mut self, keep: impl Fn(&NameKey) -> bool) {
        self.publications.retain(|_, publication| keep(&publication.name));
        self.under_way
            .retain(|object| self.publications.contains_key(object));
    }

    /// Makes publications due at a time that were stored.
    pub(super) fn check_all(&mut self, at_ms: u64) {
        for publication in self.publications.values_mut() {
            if publication.state == State::Stored {
                publication.state = State::Due { at_ms };
            }
        }
        self.next_due_ms = self.next_due_ms.min(at_ms);
    }

    /// Storing has failed, and is tried again after a while.
    ///
    /// Gives the publication, unless it was not under way.
    pub(super) fn failed(&mut self, object: &ObjectId, now_ms: u64, code: Code) -> Option<&Publication> {
        let publication = self.publications.get_mut(object)?;
        if !self.under_way.remove(object) {
            return None;
        }
        let Parameters {
            retry_ms,
            max_retry_ms,
            ..
        } = self.parameters;
        let wait_ms = (retry_ms << publication.tries.min(10)).min(*max_retry_ms);
        let at_ms = now_ms.saturating_add(wait_ms);
        publication.state = State::Due { at_ms };
        publication.tries = publication.tries.saturating_add(1);
        publication.was_stored = false;
        publication.error = code;
        self.next_due_ms = self.next_due_ms.min(at_ms);
        Some(publication)
    }

    /// A member holds what is to be found there. Gives the publication, and whether that was known of this very association.
    pub(super) fn stored(&mut self, object: &ObjectId, holder: PeerId) -> Option<(&Publication, bool)> {
        let publication = self.publications.get_mut(object)?;
        self.under_way.remove(object);
        let sequence_ms = publication.association.validity().sequence_ms;
        let was_known = publication.kept_sequence_ms.replace(sequence_ms) == Some(sequence_ms);
        publication.state = State::Stored;
        publication.was_stored = true;
        publication.holder = Some(holder);
        publication.tries = 0;
        Some((publication, was_known))
    }

    /// Whether one more publication may be looked up or stored.
    pub(super) fn may_begin(&self) -> bool {
        self.under_way.len() < self.parameters.max_storing
    }

    /// When the next publication is due.
    pub(super) fn next_due_ms(&self) -> u64 {
        if self.due.is_empty() { self.next_due_ms } else { 0 }
    }

    /// Begins to look up a publication that is due; says whether the association was stored there before.
    pub(super) fn begin(&mut self, now_ms: u64) -> Option<(ObjectId, bool)> {
        if self.due.is_empty() && self.next_due_ms <= now_ms {
            self.look_for_due(now_ms);
        }
        while let Some(object) = self.due.pop() {
            if let Some(publication) = self.publications.get_mut(&object)
                && matches!(publication.state, State::Due { .. })
            {
                publication.state = State::Looking;
                self.under_way.insert(object);
                return Some((object, publication.was_stored));
            }
        }
        None
    }

    fn look_for_due(&mut self, now_ms: u64) {
        self.next_due_ms = u64::MAX;
        for (object, publication) in self.publications.iter() {
            if let State::Due { at_ms } = publication.state {
                if at_ms <= now_ms {
                    self.due.push(*object);
                } else {
                    self.next_due_ms = self.next_due_ms.min(at_ms);
                }
            }
        }
    }
}
