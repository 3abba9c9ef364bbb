//! The next hop of frames that members pass on.

use alloc::vec::Vec;

use super::Ring;
use crate::gather::Gather as _;
use crate::identity::PeerId;
use crate::place::{Place, in_half_open};

impl Ring {
    /// The members known that are closer to a member than this one, itself included, the closest first.
    pub(crate) fn next_hops(&self, to: &PeerId) -> Vec<PeerId> {
        let (me, to) = (self.me().place(), to.place());
        let all = self.routing.all().into_iter();
        let mut closer: Vec<PeerId> = all.filter(|peer| in_half_open(&me, &peer.place(), &to)).gather();
        closer.reverse();
        closer
    }

    /// Whether this member is closer to a member than a peer is, which is another one.
    pub(crate) fn is_closer_here(&self, peer: &PeerId, to: &PeerId) -> bool {
        peer != to && in_half_open(&peer.place(), &self.me().place(), &to.place())
    }

    /// Whether this member answers for a place.
    pub(crate) fn is_responsible_for(&self, place: &Place) -> bool {
        self.serves() && self.routing.is_responsible(place)
    }
}
