//! Where a message goes next: to a member at random of the group whose leader precedes its target most closely, so that no
//! member stands in every way to another one (Secure Chord, section 3.5).

use alloc::vec::Vec;

use super::super::Ring;
use super::Lease;
use crate::gather::Gather as _;
use crate::identity::PeerId;
use crate::place::{Place, distance, in_half_open, in_open};
use crate::random::Random;

/// Most members that a message may go to next: two groups.
const MAX_HOPS: usize = 16;
/// Members among which the next one is drawn: if a group offers fewer, those of the group behind it are drawn from as well. All
/// of four lie once in 160,000 times where one member in twenty does.
const DRAWN: usize = 4;
/// Known members that a lease may leave out between those that it names: they may have joined since.
const MAX_LEFT_OUT: usize = 2;

impl Ring {
    /// To whom a message for the member responsible for a place may go, the best first; nobody if that is this one.
    ///
    /// All of them are nearer to the target than this member, so that no message goes in a circle, and none but the responsible
    /// one lies behind it. Those that failed lately come last.
    #[must_use]
    pub fn group_hops(&self, random: &mut Random, target: &Place) -> Vec<PeerId> {
        if !self.is_guarded() || self.routing.is_responsible(target) {
            return Vec::new();
        }
        let me = self.me().place();
        let covers = |peer: &&PeerId| in_half_open(&me, target, &peer.place());
        if let Some(responsible) = self.routing.successors().iter().find(covers) {
            return Vec::from([*responsible]);
        }
        let mut hops = Vec::new();
        let mut drawn = Vec::new();
        for group in self.groups_before(target) {
            for peer in group {
                let is_nearer = in_open(&me, &peer.place(), target);
                let is_reachable = self.book.get(&peer).is_some() && !self.routing.is_dead(&peer);
                if is_nearer && is_reachable && !hops.contains(&peer) && !drawn.contains(&peer) {
                    drawn.push(peer);
                }
            }
            if drawn.len() >= DRAWN {
                shuffle(random, &mut drawn);
                hops.append(&mut drawn);
            }
            if hops.len() >= MAX_HOPS {
                break;
            }
        }
        shuffle(random, &mut drawn);
        hops.append(&mut drawn);
        hops.truncate(MAX_HOPS);
        let is_poor = |peer: &PeerId| self.guard.scores.is_poor(peer);
        hops.sort_by_key(is_poor);
        hops
    }

    /// The groups whose leaders precede a place, the nearest first; of those that are known only by their leaders, the leader.
    fn groups_before(&self, target: &Place) -> Vec<Vec<PeerId>> {
        let me = self.me().place();
        let mut leaders = self.routing.all();
        leaders.extend(self.guard.held.newest().map(|lease| lease.terms().leader));
        leaders.retain(|leader| in_open(&me, &leader.place(), target));
        leaders.sort_unstable_by_key(|leader| distance(&leader.place(), target));
        leaders.dedup();
        let known = leaders.clone();
        let members = |leader: &PeerId| match self.guard.held.of(leader) {
            Some(lease) if left_out(lease, &known) <= MAX_LEFT_OUT => lease.terms().members.clone(),
            _ => Vec::from([*leader]),
        };
        leaders.iter().map(members).gather()
    }
}

/// How many of some members lie among those that a lease names, and are not named: a leader that names nobody but accomplices
/// skips whoever stands between them.
fn left_out(lease: &Lease, known: &[PeerId]) -> usize {
    let members = &lease.terms().members;
    let (Some(first), Some(last)) = (members.first(), members.last()) else {
        return 0;
    };
    let skipped = known
        .iter()
        .filter(|peer| in_open(&first.place(), &peer.place(), &last.place()) && !members.contains(peer));
    skipped.count()
}

fn shuffle(random: &mut Random, peers: &mut [PeerId]) {
    for last in (1..peers.len()).rev() {
        peers.swap(last, random.below(last + 1));
    }
}
