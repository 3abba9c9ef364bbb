//! One iterative lookup: the asker goes step by step to the member responsible for a position, and sees each step
//! (Themis, section 6.1).
//!
//! A member before the position leads there through members that lie closer to it, a member after it through its own
//! predecessors. The member that is responsible says so itself, which proves that it is alive. That nobody lies between
//! it and the position is believed when members before the position say so whose own places are as close to each other
//! as members near the asker are: few who lie together have keys that lie so close.

use alloc::vec::Vec;

use selfsame_codec::Code;

use super::Parameters;
use super::routing::clockwise;
use crate::admission::KNOWS_CLOSED;
use crate::gather::Gather as _;
use crate::identity::PeerId;
use crate::place::{Place, distance, in_half_open, in_open, leading};
use selfsame_sorted_map::Map;

/// Members after the position that may lead back to it, each by one member: liars could all do so, one after the other.
const MAX_STEPS_BACK: usize = 16;

/// Members before the position that must say alike who is responsible: one alone may lie.
const LEAST_VOUCHING: usize = 2;

/// Members that vouch when more are asked several at once: where so many are not enough, an asker may have to ask everybody it
/// meets.
const MANY_VOUCHING: usize = 8;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    New,
    Asked,
    Done,
    /// It gave no answer.
    Failed,
}

#[derive(Clone, Copy, Debug)]
struct Candidate {
    state: State,
    /// Whether it may be the responsible one rather than one before the position.
    after: bool,
    /// Once it has answered: the member before it, if it knows one.
    answered: Option<Option<PeerId>>,
    /// Whether its successors reach beyond the position: it vouches that there is nobody nearer than those that it named.
    vouches: bool,
    /// Whether it has had its second chance.
    retried: bool,
}

/// What a lookup begins with
#[derive(Debug, Default)]
pub(crate) struct Start {
    /// Members that may lead to the position.
    pub(crate) before: Vec<PeerId>,
    /// Members that may be responsible.
    pub(crate) after: Vec<PeerId>,
    /// Asked only when nobody else is left: they were on the way to a sibling object.
    pub(crate) avoided: Vec<PeerId>,
    /// How far members are apart near the asker, as the leading bits of a distance; 0 if it cannot tell.
    pub(crate) spacing: u64,
}

/// What an answer named, records verified
#[derive(Debug, Default)]
pub(crate) struct Answer {
    pub(crate) responsible: bool,
    pub(crate) closer: Vec<PeerId>,
    pub(crate) successors: Vec<PeerId>,
    pub(crate) predecessor: Option<PeerId>,
    /// Encoded entries, verified by whoever wanted them.
    pub(crate) entries: Vec<(Vec<u8>, Vec<u8>)>,
}

/// Who is responsible
#[derive(Clone, Debug)]
pub(crate) struct Owner {
    pub(crate) peer: PeerId,
    /// It did not say so itself.
    pub(crate) is_inferred: bool,
    /// How many members were asked until it answered; those that only vouch for it are not counted.
    pub(crate) hops: u32,
    /// Members that follow it, as it says itself, or else those before it.
    pub(crate) successors: Vec<PeerId>,
    pub(crate) entries: Vec<(Vec<u8>, Vec<u8>)>,
}

/// Whom a lookup has met
#[derive(Debug, Default)]
pub(crate) struct Trail {
    /// All that were asked.
    pub(crate) asked: Vec<PeerId>,
    /// Those that answered, the nearest after the position first.
    pub(crate) answered: Vec<PeerId>,
}

/// What a lookup needs next
#[derive(Debug)]
pub(crate) enum Step {
    Ask(PeerId),
    Wait,
    Finished(Result<Owner, Code>),
}

/// State of one lookup
#[derive(Debug)]
pub(crate) struct Lookup {
    parameters: &'static Parameters,
    target: Place,
    candidates: Map<PeerId, Candidate>,
    in_flight: usize,
    asked: usize,
    owner: Option<Owner>,
    error: Code,
    hedge_at_ms: u64,
    hedge: bool,
    avoided: Vec<PeerId>,
    spacing: u64,
    /// Who is responsible by the asker's own successor list.
    successor: Option<PeerId>,
    /// How often a member after the position led back to it.
    steps_back: usize,
    /// Who has to be asked as well because the group of who claims the position names it.
    witness: Option<PeerId>,
}

impl Lookup {
    /// A lookup that begins at some members.
    pub(crate) fn new(parameters: &'static Parameters, target: Place, start: Start) -> Self {
        let mut lookup = Self {
            parameters,
            target,
            candidates: Map::new(),
            in_flight: 0,
            asked: 0,
            owner: None,
            error: Code::NoRoute,
            hedge_at_ms: u64::MAX,
            hedge: false,
            avoided: start.avoided,
            spacing: start.spacing,
            successor: start.after.first().copied(),
            steps_back: 0,
            witness: None,
        };
        start.before.iter().for_each(|peer| lookup.add(*peer, false));
        start.after.iter().for_each(|peer| lookup.add(*peer, true));
        lookup
    }

    pub(crate) fn target(&self) -> &Place {
        &self.target
    }

    /// Never asks this peer.
    pub(crate) fn exclude(&mut self, peer: PeerId) {
        self.add(peer, false);
        self.set(&peer, State::Done);
    }

    /// Never asks the asker itself. Whether it may turn out to be responsible depends on whether it knows who precedes it.
    pub(crate) fn exclude_asker(&mut self, me: PeerId, predecessor: Option<PeerId>) {
        self.exclude(me);
        if let Some(candidate) = self.candidates.get_mut(&me) {
            candidate.answered = Some(predecessor);
        }
    }

    /// Whom this lookup has met.
    pub(crate) fn trail(&self) -> Trail {
        let asked = self.candidates.iter();
        let asked = asked
            .filter(|(_, candidate)| candidate.state != State::New)
            .map(|(peer, _)| *peer)
            .gather();
        let answered = self.candidates.iter();
        let answered = answered
            .filter(|(_, candidate)| candidate.answered.is_some())
            .map(|(peer, _)| *peer);
        Trail {
            asked,
            answered: clockwise(&self.target, answered.gather()),
        }
    }

    /// When to ask a further member beside those that have not answered.
    pub(crate) fn hedge_at_ms(&self) -> u64 {
        self.hedge_at_ms
    }

    /// Allows one more request if the last one is slow.
    pub(crate) fn tick(&mut self, now_ms: u64) {
        if now_ms >= self.hedge_at_ms {
            self.hedge = true;
        }
    }

    fn add(&mut self, peer: PeerId, after: bool) {
        if let Some(known) = self.candidates.get_mut(&peer) {
            known.after |= after;
        } else if self.candidates.len() < self.parameters.max_candidates {
            let state = State::New;
            self.candidates.insert(
                peer,
                Candidate {
                    state,
                    after,
                    answered: None,
                    vouches: false,
                    retried: false,
                },
            );
        }
    }

    /// What to do now; to be called again until it is not `Ask`.
    pub(crate) fn next(&mut self, now_ms: u64) -> Step {
        if let Some(owner) = &self.owner
            && !self.has_better_than(&owner.peer)
            && self.is_confirmed(&owner.peer)
            && (!KNOWS_CLOSED || self.is_witnessed())
        {
            return self.finished(owner.clone());
        }
        let allowed = if self.hedge {
            self.parameters.parallel
        } else {
            self.wanted_at_once()
        };
        if self.in_flight >= allowed {
            if self.hedge {
                self.hedge = false;
                self.hedge_at_ms = u64::MAX;
            }
            return Step::Wait;
        }
        let next = if self.asked < self.parameters.max_asked {
            self.best()
        } else {
            None
        };
        match next {
            Some(peer) => {
                // One more for each time that an answer is late, not all at once.
                self.hedge = false;
                self.hedge_at_ms = now_ms.saturating_add(self.parameters.hedge_ms);
                self.in_flight += 1;
                self.asked += 1;
                self.set(&peer, State::Asked);
                Step::Ask(peer)
            }
            None if self.in_flight > 0 => {
                self.hedge_at_ms = u64::MAX;
                Step::Wait
            }
            None => match self.owner.take().or_else(|| self.inferred()) {
                Some(owner) => self.finished(owner),
                None => Step::Finished(Err(self.error)),
            },
        }
    }

    /// Who is responsible as far as is known when this member is asked, itself included.
    pub(crate) fn claimed(&self, peer: &PeerId) -> Option<PeerId> {
        if self.candidates.get(peer)?.after {
            return Some(*peer);
        }
        self.owner.as_ref().map(|owner| owner.peer)
    }

    fn finished(&self, mut owner: Owner) -> Step {
        if owner.successors.is_empty() {
            let behind = self.candidates.iter().filter(|(peer, candidate)| {
                candidate.after && candidate.state != State::Failed && **peer != owner.peer
            });
            let behind = behind.map(|(peer, _)| *peer).gather();
            owner.successors = clockwise(&owner.peer.place(), behind);
        }
        Step::Finished(Ok(owner))
    }

    /// One step of the way follows from the other, but all that are to vouch for a member can be asked at once.
    fn wanted_at_once(&self) -> usize {
        let Some(owner) = &self.owner else { return 1 };
        if self.has_better_than(&owner.peer) {
            return 1;
        }
        match self.vouching().count() {
            0 => LEAST_VOUCHING,
            1..MANY_VOUCHING => 1,
            _ => self.parameters.parallel,
        }
    }

    fn vouching(&self) -> impl Iterator<Item = &PeerId> {
        let vouching = self.candidates.iter().filter(|(_, candidate)| candidate.vouches);
        vouching.map(|(peer, _)| peer)
    }

    /// Whether those who vouch that there is nobody between the position and this member are two at least, and some of
    /// them so close before it that they cannot all lie.
    fn is_confirmed(&self, owner: &PeerId) -> bool {
        let half = self.spacing / 2;
        let halves = self.parameters.half_spacings;
        if self.successor == Some(*owner) || owner.place() == self.target || half == 0 || halves == 0 {
            return true;
        }
        let after = leading(&distance(&self.target, &owner.place()));
        let ways = || {
            self.vouching()
                .map(|peer| leading(&distance(&peer.place(), &self.target)).saturating_add(after))
        };
        let is_close = |way: u64| {
            let nearer = ways().filter(|other| *other <= way).count() as u64;
            way < half.saturating_mul(nearer * halves.min(nearer))
        };
        ways().count() >= LEAST_VOUCHING && ways().any(is_close)
    }

    /// Has a member asked before the lookup ends.
    pub(crate) fn set_witness(&mut self, peer: PeerId) {
        self.add(peer, false);
        self.witness = Some(peer);
    }

    /// Whether the one that has to be asked has answered, or does not.
    fn is_witnessed(&self) -> bool {
        let witness = self.witness.and_then(|peer| self.candidates.get(&peer));
        let is_open = |witness: &Candidate| matches!(witness.state, State::New | State::Asked);
        self.asked >= self.parameters.max_asked || !witness.is_some_and(is_open)
    }

    /// Whether somebody who has not failed lies nearer after the position than one who says that it is responsible.
    fn has_better_than(&self, owner: &PeerId) -> bool {
        let limit = distance(&self.target, &owner.place());
        self.asked < self.parameters.max_asked
            && self.candidates.iter().any(|(peer, candidate)| {
                matches!(candidate.state, State::New | State::Asked)
                    && candidate.after
                    && distance(&self.target, &peer.place()) < limit
            })
    }

    /// Who must be responsible although nobody says so: the nearest after the position that lives, while the member before
    /// it has died and its own new predecessor has not told it yet.
    fn inferred(&self) -> Option<Owner> {
        let alive = self.candidates.iter().filter_map(|(peer, candidate)| {
            let predecessor = candidate.answered.filter(|_| candidate.after)?;
            Some((distance(&self.target, &peer.place()), peer, predecessor))
        });
        let (_, peer, predecessor) = alive.min()?;
        let has_failed = |peer: PeerId| {
            let known = self.candidates.get(&peer);
            known.is_some_and(|known| known.state == State::Failed)
        };
        predecessor.is_none_or(has_failed).then(|| Owner {
            peer: *peer,
            is_inferred: true,
            hops: self.asked as u32,
            successors: Vec::new(),
            entries: Vec::new(),
        })
    }

    /// The nearest after the position, otherwise the nearest before it.
    fn best(&self) -> Option<PeerId> {
        let open = || {
            let open = self.candidates.iter();
            open.filter(|(_, candidate)| candidate.state == State::New)
        };
        let is_open = |peer: &PeerId| open().any(|(other, _)| other == peer);
        if KNOWS_CLOSED && let Some(witness) = self.witness.filter(is_open) {
            return Some(witness);
        }
        let limit = self
            .owner
            .as_ref()
            .map(|owner| distance(&self.target, &owner.peer.place()));
        let after = open()
            .filter(|(_, candidate)| candidate.after)
            .map(|(peer, _)| (distance(&self.target, &peer.place()), peer))
            .filter(|(way, _)| limit.is_none_or(|limit| *way < limit))
            .min();
        let before = open()
            .filter(|(_, candidate)| !candidate.after)
            .map(|(peer, _)| {
                (
                    self.avoided.contains(peer),
                    distance(&peer.place(), &self.target),
                    peer,
                )
            })
            .min()
            .map(|(_, _, peer)| *peer);
        after.map(|(_, peer)| *peer).or(before)
    }

    fn set(&mut self, peer: &PeerId, state: State) {
        if let Some(candidate) = self.candidates.get_mut(peer) {
            candidate.state = state;
        }
    }

    fn returned(&mut self, peer: &PeerId) -> bool {
        let asked = self
            .candidates
            .get(peer)
            .is_some_and(|candidate| candidate.state == State::Asked);
        if asked {
            self.set(peer, State::Done);
            self.in_flight -= 1;
        }
        asked
    }

    /// A peer cannot be asked by what is known of it; another may name it better.
    pub(crate) fn forget(&mut self, peer: &PeerId) {
        if self.returned(peer) {
            self.candidates.remove(peer);
            self.error = Code::BadRecord;
        }
    }

    /// A peer gave no answer; it is not asked again unless it is [named anew](Self::named_anew) or by
    /// [who follows it](Self::follower_named).
    pub(crate) fn failed(&mut self, peer: &PeerId, code: Code) {
        if self.returned(peer) {
            self.set(peer, State::Failed);
            self.error = code;
        }
    }

    /// Somebody named a peer with a newer record than the one with which it gave no answer.
    pub(crate) fn named_anew(&mut self, peer: &PeerId) {
        let has_failed = |known: &Candidate| known.state == State::Failed;
        if self.candidates.get(peer).is_some_and(has_failed) {
            self.set(peer, State::New);
        }
    }

    /// Who follows a peer takes it to live: one that gave no answer may only have been late, and is asked once more.
    fn follower_named(&mut self, peer: &PeerId) {
        if let Some(known) = self.candidates.get_mut(peer)
            && known.state == State::Failed
            && !known.retried
        {
            known.retried = true;
            known.state = State::New;
        }
    }

    /// A peer answered. It is not asked again in this lookup, whatever it said.
    ///
    /// # Errors
    /// [`Code::NoProgress`] when the answer leads away.
    pub(crate) fn answered(&mut self, peer: &PeerId, answer: Answer) -> Result<(), Code> {
        if !self.returned(peer) {
            return Ok(());
        }
        let target = self.target;
        let Some(known) = self.candidates.get_mut(peer) else {
            return Ok(());
        };
        known.answered = Some(answer.predecessor);
        let progress = |next: &PeerId| in_open(&peer.place(), &next.place(), &target);
        if !answer.closer.iter().all(progress) {
            self.error = Code::NoProgress;
            return Err(Code::NoProgress);
        }
        let was_after = known.after;
        let is_beyond = |next: &PeerId| in_half_open(&peer.place(), &target, &next.place());
        known.vouches = !answer.responsible && answer.successors.iter().any(is_beyond);
        for next in &answer.closer {
            self.add(*next, false);
        }
        for next in answer.successors.iter().filter(|next| *next != peer) {
            self.add(*next, is_beyond(next));
        }
        // A member beyond the position leads back to it through its predecessor.
        let back = answer.predecessor.filter(|next| {
            *next != *peer && distance(&target, &next.place()) < distance(&target, &peer.place())
        });
        if let Some(next) = back
            && was_after
            && self.steps_back < MAX_STEPS_BACK
        {
            self.add(next, true);
            self.steps_back += 1;
            self.follower_named(&next);
        }
        if answer.responsible {
            self.accept(peer, answer);
            return Ok(());
        }
        if !self
            .candidates
            .values()
            .any(|candidate| candidate.state == State::New)
        {
            self.error = Code::NoProgress;
        }
        Ok(())
    }

    /// The asker takes itself to be responsible, which others are to confirm.
    pub(crate) fn claim(&mut self, me: &PeerId) {
        self.accept(me, Answer::default());
    }

    /// Of two that say that they are responsible, the one nearer after the position is.
    fn accept(&mut self, peer: &PeerId, answer: Answer) {
        let nearer = |known: &Owner| {
            distance(&self.target, &peer.place()) < distance(&self.target, &known.peer.place())
        };
        if self.owner.as_ref().is_none_or(nearer) {
            self.owner = Some(Owner {
                peer: *peer,
                is_inferred: false,
                hops: self.asked as u32,
                successors: answer.successors,
                entries: answer.entries,
            });
        }
    }
}

#[cfg(test)]
mod tests;
