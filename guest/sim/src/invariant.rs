//! The invariant of a ring that repairs itself (Zave, arXiv 1502.06461, section 3): whatever fails, there is exactly one
//! ring of members, it is in order, and every other member leads into it.

use core::fmt;
use std::collections::{BTreeMap, BTreeSet};

use selfsame_codec::reply::Status;

use crate::ring::RingState;

type Id = [u8; 32];

/// How the invariant is broken
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Broken {
    /// A member whose whole successor list is dead.
    NoSuccessor(Id),
    /// Two rings; a member of each.
    TwoRings(Id, Id),
    /// The ring passes this member's place twice.
    OutOfOrder(Id),
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoSuccessor(member) => write!(f, "{} without a living successor", short(member)),
            Self::TwoRings(one, other) => write!(f, "two rings, of {} and {}", short(one), short(other)),
            Self::OutOfOrder(member) => write!(f, "a ring out of order at {}", short(member)),
        }
    }
}

/// The first digits of an id, enough to tell members apart.
fn short(id: &Id) -> String {
    id[..4].iter().map(|byte| format!("{byte:02x}")).collect()
}

impl RingState {
    /// Checks the invariant over the first living successor of every member that has joined. A way that ends at one that is
    /// still joining leads where that one will be. `returning` are members that started again and may know nobody who still
    /// lives: they join anew.
    ///
    /// # Errors
    /// How it is broken.
    pub fn invariant(&self, returning: &BTreeSet<Id>) -> Result<(), Broken> {
        let is_in = |id: &Id| self.members()[id].joined && !returning.contains(id);
        let next = self.first_living(is_in)?;
        let mut ring: Option<Vec<Id>> = None;
        for member in self.members().keys() {
            let reached = cycle(&next, member);
            if !is_in(member) || !reached.iter().all(is_in) {
                continue;
            }
            check_order(&reached)?;
            let ring = ring.get_or_insert_with(|| reached.clone());
            if !reached.contains(&ring[0]) {
                return Err(Broken::TwoRings(ring[0], reached[0]));
            }
        }
        Ok(())
    }

    /// Whether a member that started again knows somebody who lives and is none of those `returning`: two that were gone at
    /// the same time may find each other before the ring.
    #[must_use]
    pub fn is_back(&self, member: &Id, returning: &BTreeSet<Id>) -> bool {
        let status = self.members().get(member);
        status.is_some_and(|status| {
            self.living_successors(status)
                .any(|next| !returning.contains(next))
        })
    }

    /// Whether every member that knows a living successor would still reach one if those in `gone` failed, and if those in
    /// `cut` did not reach each other, and whoever is joining would find another: the premise of the proof is that this is so.
    #[must_use]
    pub fn outlives(&self, gone: &BTreeSet<Id>, cut: &[(Id, Id)]) -> bool {
        let is_cut = |one: &Id, other: &Id| cut.contains(&(*one, *other)) || cut.contains(&(*other, *one));
        // One that leaves is as good as gone, and who joins may be told of whoever goes at this moment.
        let stays =
            |id: &Id| !gone.contains(id) && self.members().get(id).is_some_and(|status| status.joined);
        let is_settled = self.members().values().all(|status| status.joined);
        (is_settled || self.members().keys().any(stays))
            && self.members().iter().all(|(id, status)| {
                // Who has no successor yet is about to learn of its predecessor as one.
                let only = status.predecessor.iter().filter(|_| status.successors.is_empty());
                let known = status.successors.iter().chain(only).map(|node| &node.id);
                let mut living = known.filter(|next| self.members().contains_key(*next)).peekable();
                let knows_nobody = living.peek().is_none();
                knows_nobody || living.any(|next| stays(next) && !is_cut(id, next))
            })
    }

    /// Those of a member's successors that live, in the order of its list.
    fn living_successors<'a>(&'a self, status: &'a Status) -> impl Iterator<Item = &'a Id> {
        let successors = status.successors.iter().map(|node| &node.id);
        successors.filter(|id| self.members().contains_key(*id))
    }

    fn first_living(&self, is_in: impl Fn(&Id) -> bool) -> Result<BTreeMap<Id, Id>, Broken> {
        let mut next = BTreeMap::new();
        for (id, status) in self.members() {
            match self.living_successors(status).next() {
                Some(living) => _ = next.insert(*id, *living),
                None if status.successors.is_empty() || !is_in(id) => {}
                None => return Err(Broken::NoSuccessor(*id)),
            }
        }
        Ok(next)
    }
}

/// The members that are passed again and again from a start.
fn cycle(next: &BTreeMap<Id, Id>, start: &Id) -> Vec<Id> {
    let mut seen = BTreeMap::new();
    let mut way = Vec::new();
    let mut at = *start;
    loop {
        if let Some(first) = seen.insert(at, way.len()) {
            return way.split_off(first);
        }
        way.push(at);
        match next.get(&at) {
            Some(following) => at = *following,
            None => return vec![at],
        }
    }
}

fn check_order(ring: &[Id]) -> Result<(), Broken> {
    let following = ring.iter().cycle().skip(1);
    let mut wraps = ring.iter().zip(following).filter(|(one, other)| other <= one);
    match wraps.nth(1) {
        Some((id, _)) => Err(Broken::OutOfOrder(*id)),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(high: u8) -> Id {
        let mut id = [0; 32];
        id[0] = high;
        id
    }

    fn links(pairs: &[(u8, u8)]) -> BTreeMap<Id, Id> {
        pairs.iter().map(|(from, to)| (id(*from), id(*to))).collect()
    }

    #[test]
    fn an_appendage_leads_into_the_ring() {
        let next = links(&[(1, 2), (2, 3), (3, 1), (9, 2)]);
        assert_eq!(cycle(&next, &id(9)).len(), 3);
        assert_eq!(check_order(&cycle(&next, &id(9))), Ok(()));
    }

    #[test]
    fn a_ring_that_goes_round_twice_is_out_of_order() {
        let next = links(&[(1, 3), (3, 2), (2, 4), (4, 1)]);
        assert!(check_order(&cycle(&next, &id(1))).is_err());
    }
}
