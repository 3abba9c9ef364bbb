//! One iterative lookup: the asker goes step by step to the member responsible for a position, and sees each step
//! (Themis, section 6.1).
//!
//! A member before the position leads there through members that lie closer to it, a member after it through its own
//! predecessors. The member that is responsible says so itself, which proves that it is alive.

use alloc::vec::Vec;

use selfsame_codec::Code;

use super::Parameters;
use super::position::{Position, distance, in_half_open, in_open};
use crate::gather::Gather as _;
use crate::identity::PeerId;
use crate::map::Map;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    New,
    Asked,
    Done,
}

#[derive(Clone, Copy, Debug)]
struct Candidate {
    state: State,
    /// Whether it may be the responsible one rather than one before the position.
    after: bool,
    /// Once it has answered: the member before it, if it knows one.
    answered: Option<Option<PeerId>>,
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
    /// How many members were asked until it was found.
    pub(crate) hops: u32,
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
    target: Position,
    candidates: Map<PeerId, Candidate>,
    in_flight: usize,
    asked: usize,
    owner: Option<Owner>,
    error: Code,
    hedge_at_ms: u64,
    hedge: bool,
    /// Asked only when nobody else is left: they were on the way to a sibling object.
    avoided: Vec<PeerId>,
}

impl Lookup {
    /// A lookup that starts at these members: some before the position, and some that may be the responsible one.
    pub(crate) fn new(
        parameters: &'static Parameters,
        target: Position,
        before: &[PeerId],
        after: &[PeerId],
        avoided: Vec<PeerId>,
    ) -> Self {
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
            avoided,
        };
        before.iter().for_each(|peer| lookup.add(*peer, false));
        after.iter().for_each(|peer| lookup.add(*peer, true));
        lookup
    }

    pub(crate) fn target(&self) -> &Position {
        &self.target
    }

    /// Never asks this peer.
    pub(crate) fn exclude(&mut self, peer: PeerId) {
        let candidate = Candidate {
            state: State::Done,
            after: false,
            answered: None,
        };
        self.candidates.get_or_insert_with(peer, || candidate).state = State::Done;
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
        let by_distance: Map<_, _> = answered
            .filter(|(_, candidate)| candidate.answered.is_some())
            .map(|(peer, _)| (distance(&self.target, &peer.0), *peer))
            .collect();
        Trail {
            asked,
            answered: by_distance.into_values().gather(),
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
                },
            );
        }
    }

    /// What to do now; to be called again until it is not `Ask`.
    pub(crate) fn next(&mut self, now_ms: u64) -> Step {
        if let Some(owner) = &self.owner
            && !self.has_better_than(&owner.peer)
        {
            return Step::Finished(Ok(self.counted(owner.clone())));
        }
        let allowed = if self.hedge { self.parameters.parallel } else { 1 };
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
            None => {
                let owner = self.owner.take().or_else(|| self.inferred());
                Step::Finished(owner.map(|owner| self.counted(owner)).ok_or(self.error))
            }
        }
    }

    fn counted(&self, owner: Owner) -> Owner {
        let hops = self.asked as u32;
        Owner { hops, ..owner }
    }

    /// Whether somebody who has not failed lies nearer after the position than one who says that it is responsible.
    fn has_better_than(&self, owner: &PeerId) -> bool {
        let limit = distance(&self.target, &owner.0);
        self.asked < self.parameters.max_asked
            && self.candidates.iter().any(|(peer, candidate)| {
                candidate.state != State::Done && candidate.after && distance(&self.target, &peer.0) < limit
            })
    }

    /// Who must be responsible although nobody says so: the nearest after the position that lives, while the member before
    /// it has died and its own new predecessor has not told it yet.
    fn inferred(&self) -> Option<Owner> {
        let alive = self.candidates.iter().filter_map(|(peer, candidate)| {
            let predecessor = candidate.answered.filter(|_| candidate.after)?;
            Some((distance(&self.target, &peer.0), peer, predecessor))
        });
        let (_, peer, predecessor) = alive.min()?;
        let has_failed = |peer: PeerId| {
            let known = self.candidates.get(&peer);
            known.is_some_and(|known| known.state == State::Done && known.answered.is_none())
        };
        predecessor.is_none_or(has_failed).then(|| Owner {
            peer: *peer,
            is_inferred: true,
            hops: 0,
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
        let limit = self
            .owner
            .as_ref()
            .map(|owner| distance(&self.target, &owner.peer.0));
        let after = open()
            .filter(|(_, candidate)| candidate.after)
            .map(|(peer, _)| (distance(&self.target, &peer.0), peer))
            .filter(|(way, _)| limit.is_none_or(|limit| *way < limit))
            .min();
        if limit.is_some() {
            return after.map(|(_, peer)| *peer);
        }
        let before = || {
            open()
                .filter(|(_, candidate)| !candidate.after)
                .map(|(peer, _)| (self.avoided.contains(peer), distance(&peer.0, &self.target), peer))
                .min()
        };
        after
            .map(|(_, peer)| *peer)
            .or_else(|| before().map(|(_, _, peer)| *peer))
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

    /// A peer gave no answer; it is not asked again.
    pub(crate) fn failed(&mut self, peer: &PeerId, code: Code) {
        if self.returned(peer) {
            self.error = code;
        }
    }

    /// A peer answered. It is not asked again in this lookup, whatever it said.
    ///
    /// # Errors
    /// [`Code::NoProgress`] when the answer leads no closer.
    pub(crate) fn answered(&mut self, peer: &PeerId, answer: Answer) -> Result<(), Code> {
        if !self.returned(peer) {
            return Ok(());
        }
        let was_after = self.candidates.get_mut(peer).is_some_and(|known| {
            known.answered = Some(answer.predecessor);
            known.after
        });
        let target = self.target;
        let progress = |next: &PeerId| in_open(&peer.0, &next.0, &target);
        if !answer.closer.iter().all(progress) {
            self.error = Code::NoProgress;
            return Err(Code::NoProgress);
        }
        let before = self.candidates.len();
        for next in &answer.closer {
            self.add(*next, false);
        }
        for next in answer.successors.iter().filter(|next| *next != peer) {
            self.add(*next, in_half_open(&peer.0, &target, &next.0));
        }
        // A member beyond the position leads back to it through its predecessor.
        let back = answer
            .predecessor
            .filter(|next| *next != *peer && distance(&target, &next.0) < distance(&target, &peer.0));
        if let Some(next) = back
            && was_after
        {
            self.add(next, true);
        }
        if answer.responsible {
            self.accept(peer, answer);
            return Ok(());
        }
        let leads_on = self.candidates.len() > before
            || self
                .candidates
                .values()
                .any(|candidate| candidate.state == State::New);
        if leads_on {
            return Ok(());
        }
        self.error = Code::NoProgress;
        Err(Code::NoProgress)
    }

    /// Of two that say that they are responsible, the one nearer after the position is.
    fn accept(&mut self, peer: &PeerId, answer: Answer) {
        let nearer = |known: &Owner| distance(&self.target, &peer.0) < distance(&self.target, &known.peer.0);
        if self.owner.as_ref().is_none_or(nearer) {
            self.owner = Some(Owner {
                peer: *peer,
                is_inferred: false,
                hops: 0,
                successors: answer.successors,
                entries: answer.entries,
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(high: u8) -> PeerId {
        let mut id = [0; 32];
        id[0] = high;
        PeerId(id)
    }

    fn asks(lookup: &mut Lookup) -> PeerId {
        match lookup.next(0) {
            Step::Ask(peer) => peer,
            other => panic!("asks somebody, not {other:?}"),
        }
    }

    fn finishes(lookup: &mut Lookup) -> Result<PeerId, Code> {
        match lookup.next(0) {
            Step::Finished(result) => result.map(|owner| owner.peer),
            other => panic!("is finished, not {other:?}"),
        }
    }

    fn leads(closer: &[u8], successors: &[u8]) -> Answer {
        Answer {
            closer: closer.iter().copied().map(peer).collect(),
            successors: successors.iter().copied().map(peer).collect(),
            ..Answer::default()
        }
    }

    fn owns() -> Answer {
        Answer {
            responsible: true,
            ..Answer::default()
        }
    }

    #[test]
    fn goes_closer_step_by_step_until_one_is_responsible() {
        let mut lookup = Lookup::new(
            &Parameters::DEFAULT,
            peer(50).0,
            &[peer(10), peer(20)],
            &[],
            Vec::new(),
        );
        assert_eq!(asks(&mut lookup), peer(20));
        assert!(matches!(lookup.next(0), Step::Wait));
        assert_eq!(lookup.answered(&peer(20), leads(&[40], &[21])), Ok(()));
        assert_eq!(asks(&mut lookup), peer(40));
        assert_eq!(lookup.answered(&peer(40), leads(&[], &[60, 70])), Ok(()));
        assert_eq!(asks(&mut lookup), peer(60));
        assert_eq!(lookup.answered(&peer(60), owns()), Ok(()));
        assert_eq!(finishes(&mut lookup), Ok(peer(60)));
    }

    #[test]
    fn an_answer_that_comes_no_closer_is_noted_and_its_peer_not_asked_again() {
        let mut lookup = Lookup::new(
            &Parameters::DEFAULT,
            peer(50).0,
            &[peer(10), peer(20)],
            &[],
            Vec::new(),
        );
        assert_eq!(asks(&mut lookup), peer(20));
        assert_eq!(
            lookup.answered(&peer(20), leads(&[15], &[])),
            Err(Code::NoProgress)
        );
        assert_eq!(asks(&mut lookup), peer(10));
        assert_eq!(
            lookup.answered(&peer(10), leads(&[20], &[])),
            Err(Code::NoProgress)
        );
        assert_eq!(finishes(&mut lookup), Err(Code::NoProgress));
    }

    #[test]
    fn a_dead_successor_is_passed_over() {
        let mut lookup = Lookup::new(&Parameters::DEFAULT, peer(50).0, &[peer(40)], &[], Vec::new());
        asks(&mut lookup);
        assert_eq!(lookup.answered(&peer(40), leads(&[], &[60, 70])), Ok(()));
        assert_eq!(asks(&mut lookup), peer(60));
        lookup.failed(&peer(60), Code::TimedOut);
        assert_eq!(asks(&mut lookup), peer(70));
        assert_eq!(lookup.answered(&peer(70), owns()), Ok(()));
        assert_eq!(finishes(&mut lookup), Ok(peer(70)));
    }

    #[test]
    fn a_claim_is_checked_against_members_that_lie_nearer() {
        let mut lookup = Lookup::new(
            &Parameters::DEFAULT,
            peer(50).0,
            &[peer(40)],
            &[peer(60)],
            Vec::new(),
        );
        assert_eq!(asks(&mut lookup), peer(60));
        let back = Answer {
            predecessor: Some(peer(55)),
            ..leads(&[], &[90])
        };
        assert_eq!(lookup.answered(&peer(60), back), Ok(()));
        assert_eq!(asks(&mut lookup), peer(55));
        assert_eq!(lookup.answered(&peer(55), owns()), Ok(()));
        assert_eq!(finishes(&mut lookup), Ok(peer(55)));
    }

    #[test]
    fn slow_answers_let_others_be_asked_but_never_more_than_three() {
        let before: Vec<PeerId> = (1..10).map(peer).collect();
        let mut lookup = Lookup::new(&Parameters::DEFAULT, peer(50).0, &before, &[], Vec::new());
        let mut asked = 0;
        for round in 0..10 {
            lookup.tick(round * Parameters::DEFAULT.hedge_ms);
            while let Step::Ask(_) = lookup.next(round * Parameters::DEFAULT.hedge_ms) {
                asked += 1;
            }
        }
        assert_eq!(asked, Parameters::DEFAULT.parallel);
    }

    #[test]
    fn the_number_of_requests_is_bounded() {
        let mut lookup = Lookup::new(&Parameters::DEFAULT, peer(255).0, &[peer(1)], &[], Vec::new());
        let mut count = 0;
        while let Step::Ask(asked) = lookup.next(0) {
            count += 1;
            let next = asked.0[0] + 1;
            assert_eq!(lookup.answered(&asked, leads(&[next], &[])), Ok(()));
        }
        assert_eq!(count, Parameters::DEFAULT.max_asked);
    }
}
