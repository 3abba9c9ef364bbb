//! Finding who serves a name: the name's objects one after the other until a publisher is found.

use alloc::string::String;
use alloc::vec::Vec;

use selfsame_codec::Code;

use super::lookup::{Owner, Trail};
use super::message::{EntryBytes, Request};
use super::serve::Entry;
use super::walk::{Purpose, own_entries};
use super::{Action, Call, Context, Phase, Provider, Ring};
use crate::association::{Association, ObjectId};
use crate::grant::{Terms, check_name};
use crate::identity::{PeerId, PublicKey};
use crate::place::Place;
use crate::record::NodeRecord;
use selfsame_sorted_map::Map;

/// State of one find
#[derive(Debug)]
pub(super) struct Find {
    owner: Option<PublicKey>,
    name: String,
    r: u8,
    /// The sibling object that is looked for.
    object: ObjectId,
    /// Who was asked on the way to earlier siblings: a member that lies or drops is not to stand in every way.
    avoided: Vec<PeerId>,
    mirrors: Vec<PeerId>,
    /// What each publisher published last.
    found: Map<PeerId, Found>,
    /// Peers whose grants the owner has revoked, and when: what was issued until then counts no more.
    revoked: Vec<(PeerId, u64)>,
    /// Whether all sibling objects are looked up, not only those up to the first that names a provider.
    is_wide: bool,
    error: Option<Code>,
    was_answered: bool,
}

/// What a publisher published last
#[derive(Debug, Default)]
struct Found {
    sequence_ms: u64,
    /// When its grant was issued; 0 for an unowned name, whose publishers cannot be revoked.
    issued_ms: u64,
    /// A bit for each sibling object that names it.
    siblings: u8,
    /// What it provides, unless it withdrew.
    provider: Option<Provider>,
}

impl Find {
    /// Those who provide the name by grants that were not revoked.
    fn providers(&self) -> Vec<Provider> {
        let is_revoked = |found: &Found, peer: &PeerId| {
            let revokes =
                |(revoked, since_ms): &(PeerId, u64)| revoked == peer && found.issued_ms <= *since_ms;
            self.revoked.iter().any(revokes)
        };
        let mut providers = Vec::new();
        for found in self.found.values() {
            if let Some(provider) = &found.provider
                && !is_revoked(found, &provider.peer)
            {
                providers.push(Provider {
                    siblings: found.siblings.count_ones() as u8,
                    ..provider.clone()
                });
            }
        }
        providers
    }

    /// Takes note of whom the owner has revoked by a verified grant.
    fn revoke(&mut self, terms: &Terms) {
        for peer in &terms.revoked {
            self.revoked.push((*peer, terms.issued_ms));
        }
    }

    /// Takes note of what a publisher says: what it says last counts, whichever sibling object it stands at.
    fn keep(&mut self, association: &Association, record: &NodeRecord) {
        let (leaf, peer) = (association.leaf(), association.publisher());
        let sequence_ms = association.validity().sequence_ms;
        let terms = association.terms();
        if let Some(terms) = &terms {
            self.revoke(terms);
        }
        let found = self.found.get_or_insert_with(peer, Found::default);
        found.siblings |= 1 << self.r;
        if found.sequence_ms >= sequence_ms {
            return;
        }
        found.sequence_ms = sequence_ms;
        found.issued_ms = terms.map_or(0, |terms| terms.issued_ms);
        found.provider = (!leaf.withdrawn).then(|| Provider {
            peer,
            public: association.public(),
            version: leaf.version.clone(),
            weight: leaf.weight,
            owner: leaf.owner,
            siblings: 0,
            record: Some(record.clone()),
        });
    }
}

impl Ring {
    /// Finds the member responsible for a place; answered by [`Action::FoundNode`].
    pub fn find_node(&mut self, cx: &mut Context<'_>, command: u32, place: Place) {
        if self.phase != Phase::In {
            self.fail(command, Code::NotJoined);
            return;
        }
        self.walk(cx, place, false, Purpose::FindNode { command }, Vec::new());
    }

    /// Finds who serves a name at one sibling object, or at all of them: one responsible member may name nobody but
    /// providers that have failed. Answered by [`Action::Found`] with at least one provider.
    pub fn find_up_to(
        &mut self,
        cx: &mut Context<'_>,
        command: u32,
        owner: Option<PublicKey>,
        name: &str,
        is_wide: bool,
    ) {
        let refusal = match check_name(name) {
            Err(code) => Some(code),
            Ok(()) if self.phase != Phase::In => Some(Code::NotJoined),
            Ok(()) if self.finds.len() >= self.parameters.max_finds => Some(Code::TooManyRequests),
            Ok(()) => None,
        };
        if let Some(code) = refusal {
            self.fail(command, code);
            return;
        }
        let object = ObjectId::of(&self.settings.network, owner.as_ref(), name, 0);
        self.finds.insert(
            command,
            Find {
                owner,
                name: name.into(),
                r: 0,
                object,
                avoided: Vec::new(),
                mirrors: Vec::new(),
                found: Map::new(),
                revoked: Vec::new(),
                is_wide,
                error: None,
                was_answered: false,
            },
        );
        self.look(cx, command);
    }

    fn look(&mut self, cx: &mut Context<'_>, command: u32) {
        if let Some(find) = self.finds.get(&command) {
            let (object, avoided) = (find.object, find.avoided.clone());
            self.walk(cx, object.place(), true, Purpose::Find { command }, avoided);
        }
    }

    /// The responsible member answered, or there is none that can be reached: then those next to it may have copies.
    pub(super) fn object_found(
        &mut self,
        cx: &mut Context<'_>,
        command: u32,
        result: Result<Owner, Code>,
        trail: &Trail,
    ) {
        let me = self.me();
        let from = result.as_ref().map_or(me, |owner| owner.peer);
        let Some(find) = self.finds.get_mut(&command) else {
            return;
        };
        let (entries, mut mirrors) = match result {
            Ok(owner) if !owner.is_inferred => {
                find.was_answered = true;
                (owner.entries, owner.successors)
            }
            Ok(_) => (Vec::new(), trail.answered.clone()),
            Err(code) => {
                find.error = Some(code);
                (Vec::new(), trail.answered.clone())
            }
        };
        find.avoided.extend(&trail.asked);
        mirrors.retain(|peer| *peer != me);
        mirrors.truncate(self.parameters.mirrors);
        mirrors.reverse();
        find.mirrors = if entries.is_empty() { mirrors } else { Vec::new() };
        let object = find.object;
        // This member may be a mirror itself.
        let own = entries.is_empty().then(|| own_entries(&self.held(cx, &object)));
        let owned = own.unwrap_or(entries);
        let mut entries = Vec::new();
        for (association, record) in &owned {
            entries.push(EntryBytes { association, record });
        }
        self.take_found(cx, command, from, &entries);
    }

    /// Keeps what verifies of a member's answer, and ends the find if a provider is among it.
    pub(super) fn take_found(
        &mut self,
        cx: &mut Context<'_>,
        command: u32,
        from: PeerId,
        entries: &[EntryBytes<'_>],
    ) {
        for entry in entries {
            let taken = self.take_found_entry(cx, command, entry);
            if self.judge(from, taken) {
                break;
            }
        }
        match self.finds.get(&command) {
            Some(find) if find.is_wide || find.providers().is_empty() => self.next_mirror(cx, command),
            Some(_) => self.end_find(command),
            None => {}
        }
    }

    /// Answers a find with what it has found.
    fn end_find(&mut self, command: u32) {
        let Some(find) = self.finds.remove(&command) else {
            return;
        };
        let providers = find.providers();
        if providers.is_empty() {
            let unanswered = find.error.filter(|_| !find.was_answered);
            self.fail(command, unanswered.unwrap_or(Code::NoProvider));
        } else {
            self.actions.push_back(Action::Found { command, providers });
        }
    }

    /// Takes note of one entry of the object that is looked for, if it proves itself.
    fn take_found_entry(
        &mut self,
        cx: &Context<'_>,
        command: u32,
        entry: &EntryBytes<'_>,
    ) -> Result<(), Code> {
        let proven = self.verify_entry(cx, entry)?;
        let find = self.finds.get_mut(&command);
        let Some(find) = find.filter(|find| find.object == proven.object()) else {
            return Ok(());
        };
        match proven {
            Entry::Grant(_, grant) => find.revoke(grant.terms()),
            Entry::Association(association, record) => {
                find.keep(&association, &record);
                self.meet(record);
            }
        }
        Ok(())
    }

    /// Asks the next mirror for what it holds, or goes on to the next sibling object.
    pub(super) fn next_mirror(&mut self, cx: &mut Context<'_>, command: u32) {
        let Some(find) = self.finds.get_mut(&command) else {
            return;
        };
        let object = find.object;
        if let Some(peer) = find.mirrors.pop() {
            if !self.may_be_member(cx, &peer) {
                self.next_mirror(cx, command);
                return;
            }
            let request = Request::Find { object, held: true };
            self.call(
                peer,
                Call::Held { command },
                &request,
                self.parameters.step_timeout_ms,
            );
        } else if find.r < self.parameters.siblings {
            find.r += 1;
            find.object = ObjectId::of(&self.settings.network, find.owner.as_ref(), &find.name, find.r);
            self.look(cx, command);
        } else {
            self.end_find(command);
        }
    }
}
