//! Members that are responsible for parts of the circle, as this node has looked them up.

use crate::identity::PeerId;
use crate::place::{Place, in_half_open};
use selfsame_sorted_map::Map;

/// How long an answer counts: members come and go, and one that is not responsible says so.
const KEPT_MS: u64 = 60_000;
/// Most members: as many as there may be sessions with.
const MAX_OWNERS: usize = 1024;

struct Part {
    /// The place farthest before the member for which it is responsible.
    from: Place,
    until_ms: u64,
}

/// Who is responsible for what
#[derive(Default)]
pub(super) struct Owners {
    parts: Map<Place, Part>,
}

impl Owners {
    /// The member responsible for a place, if it is known: the same as for all places between it and another one of its own.
    pub(super) fn owner_of(&self, place: &Place, now_ms: u64) -> Option<PeerId> {
        let (before, after) = self.parts.split(place);
        let (owner, part) = after.first().or_else(|| before.first())?;
        let is_in = part.from == *place || part.from != *owner && in_half_open(&part.from, place, owner);
        (is_in && now_ms < part.until_ms).then(|| owner.open_peer())
    }

    /// Takes note of who is responsible for a place.
    pub(super) fn insert(&mut self, place: Place, owner: PeerId, now_ms: u64) {
        let until_ms = now_ms.saturating_add(KEPT_MS);
        let owner = owner.place();
        let known = self.parts.get(&owner);
        let from = match known.filter(|part| now_ms < part.until_ms).map(|part| part.from) {
            Some(from) if from == place || from != owner && in_half_open(&from, &place, &owner) => from,
            _ => place,
        };
        if known.is_none() && self.parts.len() >= MAX_OWNERS {
            let oldest = self.parts.iter().min_by_key(|(_, part)| part.until_ms);
            if let Some(oldest) = oldest.map(|(owner, _)| *owner) {
                self.parts.remove(&oldest);
            }
        }
        self.parts.insert(owner, Part { from, until_ms });
    }

    /// Forgets what is known of a member.
    pub(super) fn forget(&mut self, owner: &PeerId) {
        self.parts.remove(&owner.place());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(high: u8) -> Place {
        let mut place = [0; 32];
        place[0] = high;
        Place(place)
    }

    #[test]
    fn all_places_between_one_and_its_owner_are_known() {
        let mut owners = Owners::default();
        let owner = |owners: &Owners, high| owners.owner_of(&at(high), 0).map(|peer| peer.0[0]);
        owners.insert(at(10), at(20).open_peer(), 0);
        owners.insert(at(250), at(5).open_peer(), 0);
        assert_eq!([9, 21, 249, 6].map(|high| owner(&owners, high)), [None; 4]);
        assert_eq!(
            [10, 15, 20].map(|high| owner(&owners, high)),
            [Some(20), Some(20), Some(20)]
        );
        assert_eq!([250, 255, 0, 5].map(|high| owner(&owners, high)), [Some(5); 4]);
        owners.insert(at(8), at(20).open_peer(), 0);
        owners.insert(at(12), at(20).open_peer(), 0);
        assert_eq!(owner(&owners, 9), Some(20));
        assert_eq!(owners.owner_of(&at(9), KEPT_MS), None);
        owners.forget(&at(20).open_peer());
        assert_eq!(owner(&owners, 9), None);
    }

    #[test]
    fn a_member_is_responsible_for_its_own_place() {
        let mut owners = Owners::default();
        owners.insert(at(20), at(20).open_peer(), 0);
        assert_eq!(owners.owner_of(&at(20), 0), Some(at(20).open_peer()));
        assert_eq!(owners.owner_of(&at(19), 0), None);
        owners.insert(at(10), at(20).open_peer(), 0);
        assert_eq!(owners.owner_of(&at(19), 0), Some(at(20).open_peer()));
    }

    #[test]
    fn the_oldest_answer_gives_way() {
        let mut owners = Owners::default();
        for number in 0..=MAX_OWNERS as u64 {
            let mut place = [0; 32];
            place[..8].copy_from_slice(&(number << 32).to_be_bytes());
            owners.insert(Place(place), PeerId(place), number);
        }
        assert_eq!(owners.parts.len(), MAX_OWNERS);
        assert_eq!(owners.owner_of(&at(0), 5), None);
    }
}
