//! Where what a node publishes is stored: which place is due when, and the few that are under way.

use alloc::boxed::Box;
use alloc::vec::Vec;

use selfsame_codec::Code;

use super::Parameters;
use super::publish::NameKey;
use crate::association::{Association, ObjectId};
use crate::identity::PeerId;
use crate::map::{Map, Set};

/// How far a place has come
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Due { at_ms: u64 },
    Looking,
    Storing,
    Stored,
}

/// One object under which this node is to be found
#[derive(Debug)]
pub(super) struct Place {
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

/// All places by their objects
#[derive(Debug)]
pub(super) struct Places {
    parameters: &'static Parameters,
    places: Map<ObjectId, Box<Place>>,
    /// Those that were due at the last look and have not begun since.
    due: Vec<ObjectId>,
    /// No other place is due before this.
    next_due_ms: u64,
    under_way: Set<ObjectId>,
}

impl Places {
    pub(super) fn new(parameters: &'static Parameters) -> Self {
        Self {
            parameters,
            places: Map::new(),
            due: Vec::new(),
            next_due_ms: u64::MAX,
            under_way: Set::new(),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    pub(super) fn get(&self, object: &ObjectId) -> Option<&Place> {
        Some(self.places.get(object)?)
    }

    pub(super) fn get_mut(&mut self, object: &ObjectId) -> Option<&mut Place> {
        Some(self.places.get_mut(object)?)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&ObjectId, &Place)> {
        self.places.iter().map(|(object, place)| (object, &**place))
    }

    /// A new association takes its place, and that of an older one. It is due at once.
    pub(super) fn insert(&mut self, now_ms: u64, name: NameKey, association: Association) {
        let object = association.object();
        let holder = self.get(&object).and_then(|place| place.holder);
        let place = Place {
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
        self.places.insert(object, Box::new(place));
        self.next_due_ms = self.next_due_ms.min(now_ms);
    }

    /// Keeps the places of some names.
    pub(super) fn retain(&mut self, keep: impl Fn(&NameKey) -> bool) {
        self.places.retain(|_, place| keep(&place.name));
        self.under_way.retain(|object| self.places.contains_key(object));
    }

    /// Makes places due at a time that were stored.
    pub(super) fn check_all(&mut self, at_ms: u64) {
        for place in self.places.values_mut() {
            if place.state == State::Stored {
                place.state = State::Due { at_ms };
            }
        }
        self.next_due_ms = self.next_due_ms.min(at_ms);
    }

    /// Storing has failed, and is tried again after a while.
    ///
    /// Gives the place, unless it was not under way.
    pub(super) fn failed(&mut self, object: &ObjectId, now_ms: u64, code: Code) -> Option<&Place> {
        let place = self.places.get_mut(object)?;
        if !self.under_way.remove(object) {
            return None;
        }
        let Parameters {
            retry_ms,
            max_retry_ms,
            ..
        } = self.parameters;
        let wait_ms = (retry_ms << place.tries.min(10)).min(*max_retry_ms);
        let at_ms = now_ms.saturating_add(wait_ms);
        place.state = State::Due { at_ms };
        place.tries = place.tries.saturating_add(1);
        place.was_stored = false;
        place.error = code;
        self.next_due_ms = self.next_due_ms.min(at_ms);
        Some(place)
    }

    /// A member holds what is to be found there. Gives the place, and whether that was known of this very association.
    pub(super) fn stored(&mut self, object: &ObjectId, holder: PeerId) -> Option<(&Place, bool)> {
        let place = self.places.get_mut(object)?;
        self.under_way.remove(object);
        let sequence_ms = place.association.validity().sequence_ms;
        let was_known = place.kept_sequence_ms.replace(sequence_ms) == Some(sequence_ms);
        place.state = State::Stored;
        place.was_stored = true;
        place.holder = Some(holder);
        place.tries = 0;
        Some((place, was_known))
    }

    /// Whether one more place may be looked up or stored.
    pub(super) fn may_begin(&self) -> bool {
        self.under_way.len() < self.parameters.max_storing
    }

    /// When the next place is due.
    pub(super) fn next_due_ms(&self) -> u64 {
        if self.due.is_empty() { self.next_due_ms } else { 0 }
    }

    /// Begins to look up a place that is due; says whether the association was stored there before.
    pub(super) fn begin(&mut self, now_ms: u64) -> Option<(ObjectId, bool)> {
        if self.due.is_empty() && self.next_due_ms <= now_ms {
            self.look_for_due(now_ms);
        }
        while let Some(object) = self.due.pop() {
            if let Some(place) = self.places.get_mut(&object)
                && matches!(place.state, State::Due { .. })
            {
                place.state = State::Looking;
                self.under_way.insert(object);
                return Some((object, place.was_stored));
            }
        }
        None
    }

    fn look_for_due(&mut self, now_ms: u64) {
        self.next_due_ms = u64::MAX;
        for (object, place) in self.places.iter() {
            if let State::Due { at_ms } = place.state {
                if at_ms <= now_ms {
                    self.due.push(*object);
                } else {
                    self.next_due_ms = self.next_due_ms.min(at_ms);
                }
            }
        }
    }
}
