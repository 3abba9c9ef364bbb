//! Lookups are confirmed by the group of the member that claims a position.

use super::super::{Context, Ring};
use super::Lease;
use crate::gather::Gather as _;
use crate::identity::PeerId;
use crate::place::in_open;

impl Ring {
    /// A member claims the position of a lookup, and gives its lease: one at random of its group that precedes the position has
    /// to be asked as well, who may know somebody nearer. Who claims it chooses neither whom nor what that one answers.
    pub(in super::super) fn have_witnessed(
        &mut self,
        cx: &mut Context<'_>,
        walk: u64,
        claimant: PeerId,
        lease: &[u8],
    ) {
        if !self.is_guarded() {
            return;
        }
        let Ok(lease) = Lease::verify(&mut self.gate, lease) else {
            self.guard.failed(claimant);
            return;
        };
        let terms = lease.terms();
        let is_sound = terms.leader == claimant && terms.check_shape(self.parameters.group).is_ok();
        let Some(lookup) = self.walks.lookup_mut(walk).filter(|_| is_sound) else {
            return;
        };
        let me = self.settings.id;
        let precedes = |peer: &&PeerId| {
            **peer != claimant
                && **peer != me
                && in_open(&terms.members[0].place(), &peer.place(), lookup.target())
        };
        let witnesses: alloc::vec::Vec<PeerId> = lease
            .members_before(lookup.target())
            .iter()
            .filter(precedes)
            .copied()
            .gather();
        let known = witnesses.into_iter().filter(|peer| self.book.is_route(peer));
        let known: alloc::vec::Vec<PeerId> = known.gather();
        if !known.is_empty() {
            lookup.set_witness(known[cx.random.below(known.len())]);
        }
    }
}
