//! Finding who serves a name: the name's objects one after the other until a publisher is found.

use alloc::string::String;
use alloc::vec::Vec;

use selfsame_codec::{Code, LogLevel};

use super::lookup::{Owner, Trail};
use super::message::{EntryBytes, Hop, Request};
use super::walk::{Purpose, own_entries};
use super::{Action, Call, Context, Phase, Provider, Ring};
use crate::association::{Association, ObjectId};
use crate::gather::Gather as _;
use crate::grant::check_name;
use crate::identity::{PeerId, PublicKey};
use crate::map::Map;
use crate::place::Place;
use crate::record::NodeRecord;

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
    error: Option<Code>,
    was_answered: bool,
}

/// What a publisher published last
#[derive(Debug)]
struct Found {
    sequence_ms: u64,
    /// When its grant was issued; 0 for an unowned name, whose publishers cannot be revoked.
    issued_ms: u64,
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
        self.found
            .values()
            .filter_map(|found| {
                let provider = found.provider.as_ref()?;
                (!is_revoked(found, &provider.peer)).then(|| provider.clone())
            })
            .gather()
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

    /// Finds who serves a name; answered by [`Action::Found`] with at least one provider.
    pub fn find(&mut self, cx: &mut Context<'_>, command: u32, owner: Option<PublicKey>, name: &str) {
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
        let entries = own.unwrap_or(entries);
        let entries: Vec<EntryBytes<'_>> = entries
            .iter()
            .map(|(association, record)| EntryBytes { association, record })
            .gather();
        self.take_found(cx, command, &entries);
    }

    pub(super) fn mirror_answered(&mut self, cx: &mut Context<'_>, command: u32, hop: &Hop<'_>) {
        self.take_found(cx, command, &hop.entries);
    }

    /// Keeps what verifies, and ends the find if a provider is among it.
    fn take_found(&mut self, cx: &mut Context<'_>, command: u32, entries: &[EntryBytes<'_>]) {
        for entry in entries {
            match self.verify_entry(cx, entry) {
                Ok((association, record)) => self.keep_found(command, &association, record),
                Err(code) => self.log(LogLevel::Debug, code, "an association was left out", None),
            }
        }
        let providers: Vec<Provider> = match self.finds.get(&command) {
            Some(find) => find.providers(),
            None => return,
        };
        if providers.is_empty() {
            self.next_mirror(cx, command);
            return;
        }
        self.finds.remove(&command);
        self.actions.push_back(Action::Found { command, providers });
    }

    fn keep_found(&mut self, command: u32, association: &Association, record: NodeRecord) {
        let Some(find) = self.finds.get_mut(&command) else {
            return;
        };
        let (leaf, publisher) = (association.leaf(), association.publisher());
        let sequence_ms = association.validity().sequence_ms;
        let is_older = |known: &Found| known.sequence_ms >= sequence_ms;
        if association.object() != find.object || find.found.get(&publisher).is_some_and(is_older) {
            return;
        }
        let mut issued_ms = 0;
        if let Some(terms) = association.terms() {
            issued_ms = terms.issued_ms;
            find.revoked
                .extend(terms.revoked.iter().map(|peer| (*peer, issued_ms)));
        }
        let provider = (!leaf.withdrawn).then(|| Provider {
            peer: publisher,
            public: association.public(),
            version: leaf.version.clone(),
            weight: leaf.weight,
            owner: leaf.owner,
            record: Some(record.clone()),
        });
        let found = Found {
            sequence_ms,
            issued_ms,
            provider,
        };
        find.found.insert(publisher, found);
        self.meet(record);
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
            find.found.clear();
            self.look(cx, command);
        } else {
            let code = match find.error {
                Some(code) if !find.was_answered => code,
                _ => Code::NoProvider,
            };
            self.finds.remove(&command);
            self.fail(command, code);
        }
    }
}
