//! What a member knows of its neighbours on the ring and of members further away.

use alloc::vec::Vec;

use super::Parameters;
use crate::gather::Gather as _;
use crate::identity::PeerId;
use crate::place::{Place, distance, in_half_open, in_open, leading};
use selfsame_sorted_map::Map;

/// Neighbours and fingers of one member
#[derive(Debug)]
pub(crate) struct Routing {
    parameters: &'static Parameters,
    me: PeerId,
    /// The predecessor and up to three members before it, as it names them, the nearest first: they may hand over copies.
    before: Vec<PeerId>,
    successors: Vec<PeerId>,
    fingers: Map<u8, PeerId>,
    dead: Map<PeerId, u64>,
}

impl Routing {
    pub(crate) fn new(me: PeerId, parameters: &'static Parameters) -> Self {
        Self {
            parameters,
            me,
            before: Vec::new(),
            successors: Vec::new(),
            fingers: Map::new(),
            dead: Map::new(),
        }
    }

    pub(crate) fn predecessor(&self) -> Option<PeerId> {
        self.before.first().copied()
    }

    pub(crate) fn successors(&self) -> &[PeerId] {
        &self.successors
    }

    pub(crate) fn successor(&self) -> Option<PeerId> {
        self.successors.first().copied()
    }

    /// How far members are apart here, as the leading bits of a distance; 0 for one that knows no successor.
    pub(crate) fn spacing(&self) -> u64 {
        let span = |last: &PeerId| leading(&distance(&self.me.place(), &last.place()));
        self.successors.last().map_or(0, span) / self.successors.len().max(1) as u64
    }

    pub(crate) fn fingers(&self) -> impl Iterator<Item = &PeerId> {
        self.fingers.values()
    }

    /// Everybody who is in some table, each once, in the order of the circle from this member on.
    pub(crate) fn all(&self) -> Vec<PeerId> {
        let neighbours = self.before.iter().take(1).chain(&self.successors);
        let all = neighbours.chain(self.fingers.values());
        clockwise(&self.me.place(), all.copied().gather())
    }

    #[inline(never)]
    pub(crate) fn is_predecessor(&self, peer: &PeerId) -> bool {
        self.before.first() == Some(peer)
    }

    #[inline(never)]
    pub(crate) fn is_successor(&self, peer: &PeerId) -> bool {
        self.successors.first() == Some(peer)
    }

    pub(crate) fn contains(&self, peer: &PeerId) -> bool {
        self.is_neighbour(peer) || self.fingers.values().any(|finger| finger == peer)
    }

    /// Whether a peer is the predecessor or in the successor list.
    pub(crate) fn is_neighbour(&self, peer: &PeerId) -> bool {
        self.is_predecessor(peer) || self.successors.contains(peer)
    }

    /// Takes a closer predecessor.
    pub(crate) fn set_predecessor(&mut self, peer: PeerId) {
        self.before.insert(0, peer);
        self.before.truncate(self.parameters.mirrors + 1);
    }

    /// The predecessor and up to three members before it, the nearest first.
    pub(crate) fn before(&self) -> &[PeerId] {
        &self.before
    }

    /// Takes up the members before this one that an earlier start knew.
    pub(crate) fn restore_before(&mut self, before: Vec<PeerId>) {
        self.before = before;
    }

    /// Takes the members that the predecessor names as those before it.
    pub(crate) fn set_earlier(&mut self, predecessor: PeerId, mut named: Vec<PeerId>) {
        let (me, end) = (self.me.place(), predecessor.place());
        named.retain(|peer| in_open(&me, &peer.place(), &end));
        named.insert(0, predecessor);
        self.before = named;
    }

    /// Whether this member keeps copies for a member: it is the successor, which handed over so far, or one of those before.
    pub(crate) fn mirrors_for(&self, peer: &PeerId) -> bool {
        let few = self.before.len().min(self.parameters.mirrors);
        self.is_successor(peer) || self.before[..few].contains(peer)
    }

    /// Whether this member keeps copies of what is stored at a position: of its own and of the members before it, back to
    /// the one before them all, should they have died, but not farther than is likely, whatever the predecessor says.
    pub(crate) fn may_mirror(&self, target: &Place) -> bool {
        self.is_within(target, self.parameters.mirrored_half_spacings)
            && in_half_open(&self.mirrored_from(), target, &self.me.place())
    }

    /// The member before all those whose mirror this one is: what it keeps copies of begins there.
    pub(crate) fn mirrored_from(&self) -> Place {
        let first = self.before.get(self.parameters.mirrors);
        first.unwrap_or(&self.me).place()
    }

    /// Whether a peer would be a closer predecessor than the one there is.
    pub(crate) fn precedes_better(&self, peer: &PeerId) -> bool {
        *peer != self.me
            && self
                .predecessor()
                .is_none_or(|known| in_open(&known.place(), &peer.place(), &self.me.place()))
    }

    /// Whether a peer would be a closer successor than the one there is.
    pub(crate) fn succeeds_better(&self, peer: &PeerId) -> bool {
        *peer != self.me
            && self
                .successor()
                .is_none_or(|known| in_open(&self.me.place(), &peer.place(), &known.place()))
    }

    /// Whether a peer would be the successor or the predecessor.
    pub(crate) fn would_be_nearest(&self, peer: &PeerId) -> bool {
        self.succeeds_better(peer) || self.precedes_better(peer)
    }

    /// Takes a live successor and its own list, without those presumed dead. What was known beside them stays: a list
    /// may be that of a newcomer, or leave out whom its sender wants to hide. Says whether anything changed.
    pub(crate) fn adopt_successor(&mut self, peer: PeerId, list: &[PeerId]) -> bool {
        let known = list.iter().take_while(|next| **next != self.me);
        let known = known.chain(&self.successors);
        let known = known.filter(|next| {
            !self.dead.contains_key(next) && in_open(&peer.place(), &next.place(), &self.me.place())
        });
        let mut successors: Vec<PeerId> = known.copied().gather();
        successors.push(peer);
        successors = clockwise(&self.me.place(), successors);
        successors.truncate(self.parameters.successors);
        let changed = self.successors != successors;
        self.successors = successors;
        changed
    }

    /// Takes a live member into the successor list if it lies in its range.
    pub(crate) fn take_in(&mut self, peer: PeerId) -> bool {
        match (self.successors.first(), self.successors.last()) {
            (Some(first), Some(last)) if in_open(&first.place(), &peer.place(), &last.place()) => {
                self.adopt_successor(*first, &[peer])
            }
            _ => false,
        }
    }

    /// Successors that another one, whose list goes at least as far or round the circle, does not know.
    pub(crate) fn unknown_to(&self, peer: &PeerId, list: &[PeerId]) -> Vec<PeerId> {
        let is_round = list.contains(&self.me);
        let end = list.last().filter(|_| list.len() >= self.parameters.successors);
        let is_left_out = |other: &&PeerId| {
            let is_in_range =
                is_round || end.is_some_and(|end| in_open(&peer.place(), &other.place(), &end.place()));
            is_in_range && *other != peer && !list.contains(other)
        };
        self.successors.iter().filter(is_left_out).copied().gather()
    }

    /// Presumes a peer dead since a time, and takes it out of all tables; says whether it was a neighbour.
    pub(crate) fn bury(&mut self, peer: &PeerId, since_ms: u64) -> bool {
        if self.dead.len() >= self.parameters.max_dead
            && let Some((first, _)) = self.dead.iter().min_by_key(|(_, until_ms)| **until_ms)
        {
            let first = *first;
            self.dead.remove(&first);
        }
        self.dead
            .insert(*peer, since_ms.saturating_add(self.parameters.dead_ms));
        self.remove(peer)
    }

    /// Takes a peer out of all tables; says whether it was a neighbour.
    pub(crate) fn remove(&mut self, peer: &PeerId) -> bool {
        let was_neighbour = self.is_neighbour(peer);
        self.fingers.retain(|_, finger| finger != peer);
        self.successors.retain(|successor| successor != peer);
        if self.is_predecessor(peer) {
            // The next one says itself who is before it.
            self.before.clear();
        }
        self.before.retain(|before| before != peer);
        was_neighbour
    }

    /// Takes note that a peer is alive; says whether it was presumed dead.
    pub(crate) fn revive(&mut self, peer: &PeerId) -> bool {
        self.dead.remove(peer).is_some()
    }

    pub(crate) fn is_dead(&self, peer: &PeerId) -> bool {
        self.dead.contains_key(peer)
    }

    /// Whether a peer is not presumed dead, or was long enough that it is worth a question.
    pub(crate) fn may_ask(&self, peer: &PeerId, now_ms: u64) -> bool {
        let until_ms = self.dead.get(peer);
        let left_ms = self.parameters.dead_ms.saturating_sub(self.parameters.rest_ms);
        until_ms.is_none_or(|until_ms| *until_ms <= now_ms.saturating_add(left_ms))
    }

    pub(crate) fn forget_dead(&mut self, now_ms: u64) {
        self.dead.retain(|_, until_ms| now_ms < *until_ms);
    }

    pub(crate) fn set_finger(&mut self, bit: u8, peer: PeerId) {
        if self.successors.contains(&peer) || peer == self.me {
            self.fingers.remove(&bit);
        } else {
            self.fingers.insert(bit, peer);
        }
    }

    /// Forgets the fingers that the successor list covers.
    pub(crate) fn drop_fingers_up_to(&mut self, bit: u8) {
        self.fingers.retain(|finger, _| *finger > bit);
    }

    /// Where what this member may have to store begins. Without a predecessor, the nearest member before it that is known stands
    /// in; a member that knows nobody has the whole circle.
    pub(crate) fn range_start(&self) -> Place {
        self.predecessor()
            .or_else(|| self.all().pop())
            .unwrap_or(self.me)
            .place()
    }

    /// Whether this member is responsible for a position: nobody it knows of may have it. One that has lost its
    /// predecessor and knows others does not say so until another has come forward.
    pub(crate) fn is_responsible(&self, target: &Place) -> bool {
        match self.predecessor() {
            Some(peer) => in_half_open(&peer.place(), target, &self.me.place()),
            None => *target == self.me.place() || self.all().is_empty(),
        }
    }

    /// Whether a position lies so close before this member that a predecessor which misleads it gains little there.
    pub(crate) fn is_near(&self, target: &Place) -> bool {
        self.is_within(target, self.parameters.half_spacings)
    }

    fn is_within(&self, target: &Place, half_spacings: u64) -> bool {
        let near = (self.spacing() / 2).saturating_mul(half_spacings);
        near == 0 || leading(&distance(target, &self.me.place())) < near
    }

    /// Whether this member may be the responsible one.
    pub(crate) fn may_be_responsible(&self, target: &Place) -> bool {
        in_half_open(&self.range_start(), target, &self.me.place())
    }

    /// The members nearest before a position and after this one, nearest first.
    pub(crate) fn closer(&self, target: &Place) -> Vec<PeerId> {
        let mut nearest = self.all();
        nearest.retain(|peer| in_open(&self.me.place(), &peer.place(), target));
        nearest.reverse();
        nearest.truncate(self.parameters.named_closer);
        nearest
    }

    /// The member known to follow a peer most closely, up to this one.
    pub(crate) fn follower_of(&self, peer: &PeerId) -> Option<PeerId> {
        let follows = |other: &PeerId| in_open(&peer.place(), &other.place(), &self.me.place());
        self.all().into_iter().find(follows)
    }

    pub(crate) fn clear(&mut self) {
        *self = Self::new(self.me, self.parameters);
    }
}

/// Peers in the order of the circle from a position on, each once.
pub(crate) fn clockwise(from: &Place, peers: Vec<PeerId>) -> Vec<PeerId> {
    let ways = peers
        .into_iter()
        .map(|peer| (distance(from, &peer.place()), peer));
    ways.collect::<Map<_, _>>().into_values().gather()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(high: u8) -> PeerId {
        let mut id = [0; 32];
        id[0] = high;
        PeerId(id)
    }

    #[test]
    fn a_member_alone_has_the_whole_circle() {
        let routing = Routing::new(peer(5), &Parameters::DEFAULT);
        assert!(routing.is_responsible(&peer(4).place()));
        assert!(routing.is_responsible(&peer(6).place()));
        assert!(routing.closer(&peer(9).place()).is_empty());
    }

    #[test]
    fn successor_lists_go_once_round_in_order_and_have_an_end() {
        let mut routing = Routing::new(peer(5), &Parameters::DEFAULT);
        assert!(routing.adopt_successor(peer(7), &[peer(8), peer(5), peer(6)]));
        assert_eq!(routing.successors(), [peer(7), peer(8)]);
        assert!(routing.adopt_successor(peer(7), &[peer(10), peer(9)]));
        assert_eq!(routing.successors(), [peer(7), peer(8), peer(9), peer(10)]);
        let many: Vec<PeerId> = (8..100).map(peer).collect();
        assert!(routing.adopt_successor(peer(7), &many));
        assert_eq!(routing.successors().len(), Parameters::DEFAULT.successors);
        assert!(!routing.adopt_successor(peer(7), &many));
    }

    #[test]
    fn whom_a_successor_leaves_out_stays_and_is_to_be_asked() {
        let mut routing = Routing::new(peer(5), &Parameters::DEFAULT);
        routing.adopt_successor(peer(8), &[peer(9), peer(2), peer(5)]);
        routing.adopt_successor(peer(7), &[]);
        assert_eq!(routing.successors(), [peer(7), peer(8), peer(9), peer(2)]);
        assert!(routing.unknown_to(&peer(7), &[]).is_empty());
        routing.adopt_successor(peer(7), &[peer(9), peer(5)]);
        assert_eq!(routing.successors(), [peer(7), peer(8), peer(9), peer(2)]);
        assert_eq!(
            routing.unknown_to(&peer(7), &[peer(9), peer(5)]),
            [peer(8), peer(2)]
        );
        assert!(routing.take_in(peer(1)));
        assert!(!routing.take_in(peer(6)) && !routing.take_in(peer(4)));
        assert_eq!(
            routing.successors(),
            [peer(7), peer(8), peer(9), peer(1), peer(2)]
        );
    }

    #[test]
    fn the_dead_are_not_taken_back_from_lists_for_a_while() {
        let mut routing = Routing::new(peer(5), &Parameters::DEFAULT);
        routing.adopt_successor(peer(7), &[peer(8), peer(9)]);
        assert!(routing.bury(&peer(8), 1000));
        routing.adopt_successor(peer(7), &[peer(8), peer(9)]);
        assert_eq!(routing.successors(), [peer(7), peer(9)]);
        routing.forget_dead(1000 + Parameters::DEFAULT.dead_ms);
        routing.adopt_successor(peer(7), &[peer(8), peer(9)]);
        assert_eq!(routing.successors(), [peer(7), peer(8), peer(9)]);
    }

    #[test]
    fn when_many_are_dead_the_first_of_them_is_forgotten() {
        let mut routing = Routing::new(peer(5), &Parameters::DEFAULT);
        let most = Parameters::DEFAULT.max_dead;
        for number in 0..=most {
            let mut id = [0; 32];
            id[..8].copy_from_slice(&(number as u64).to_le_bytes());
            routing.bury(&PeerId(id), 1000 + number as u64);
        }
        assert_eq!(routing.dead.len(), most);
        let is_dead = |number: u64| {
            let mut id = [0; 32];
            id[..8].copy_from_slice(&number.to_le_bytes());
            routing.is_dead(&PeerId(id))
        };
        assert!(!is_dead(0) && is_dead(1) && is_dead(most as u64));
    }

    #[test]
    fn without_a_predecessor_the_nearest_known_member_bounds_what_may_be_stored() {
        let mut routing = Routing::new(peer(5), &Parameters::DEFAULT);
        routing.adopt_successor(peer(7), &[peer(2)]);
        assert!(routing.may_be_responsible(&peer(3).place()));
        assert!(!routing.may_be_responsible(&peer(2).place()));
        assert!(!routing.is_responsible(&peer(3).place()));
        assert!(routing.is_responsible(&peer(5).place()));
        routing.set_predecessor(peer(3));
        assert!(!routing.is_responsible(&peer(3).place()));
        assert!(routing.is_responsible(&peer(5).place()));
    }

    #[test]
    fn near_is_within_some_usual_ways_between_two_members() {
        let mut routing = Routing::new(peer(100), &Parameters::DEFAULT);
        assert!(routing.is_near(&peer(101).place()));
        routing.adopt_successor(peer(104), &[peer(120)]);
        assert!(routing.is_near(&peer(61).place()));
        assert!(!routing.is_near(&peer(60).place()));
    }

    #[test]
    fn closer_members_lie_between_and_come_nearest_first() {
        let mut routing = Routing::new(peer(5), &Parameters::DEFAULT);
        routing.adopt_successor(peer(7), &[peer(8), peer(20)]);
        routing.set_finger(254, peer(90));
        assert_eq!(routing.closer(&peer(50).place()), [peer(20), peer(8), peer(7)]);
        assert_eq!(routing.closer(&peer(91).place()), [peer(90), peer(20), peer(8)]);
        assert!(routing.closer(&peer(6).place()).is_empty());
        assert_eq!(routing.follower_of(&peer(8)), Some(peer(20)));
    }
}
