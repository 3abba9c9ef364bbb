//! Requests of other peers.

use alloc::vec::Vec;

use selfsame_codec::{Code, LogLevel, Role};

use super::message::{
    EntryBytes, Hop, Request, Updated, encode_ack, encode_error, encode_stale, encode_wrong_clock,
};
use super::objects::Inserted;
use super::{Action, Context, Ring};
use crate::association::{Association, ObjectId};
use crate::gather::Gather as _;
use crate::identity::PeerId;
use crate::place::{Place, in_open};
use crate::record::NodeRecord;

impl Ring {
    /// Takes a request of the authenticated peer `from`; answered by [`Action::Respond`] with this token.
    pub fn request(&mut self, cx: &mut Context<'_>, from: PeerId, token: u64, body: &[u8]) {
        #[cfg(feature = "simulation")]
        self.tapped.asked(token, from, body);
        let answer = match Request::decode(body) {
            Ok(request) => self.serve(cx, from, token, request),
            Err(_) => Err(Code::BadMessage),
        };
        match answer {
            Ok(Some(body)) => self.respond(token, body),
            Ok(None) => {}
            Err(code) => {
                self.log(LogLevel::Debug, code, "refused a request", Some(from));
                let refusal = self.refusal(cx, &from, code);
                self.respond(token, refusal);
            }
        }
    }

    /// A member that takes part in the ring has spoken: others may hide it from this one.
    fn meet_near(&mut self, from: &PeerId) {
        if self.is_known_member(from) && self.routing.take_in(*from) {
            self.actions.push_back(Action::Changed);
        }
    }

    pub(super) fn respond(&mut self, token: u64, body: Vec<u8>) {
        #[cfg(feature = "simulation")]
        let body = self.tapped.answers(token, body);
        self.actions.push_back(Action::Respond { token, body });
    }

    /// Answers, or begins what will answer later (`None`).
    fn serve(
        &mut self,
        cx: &mut Context<'_>,
        from: PeerId,
        token: u64,
        request: Request<'_>,
    ) -> Result<Option<Vec<u8>>, Code> {
        self.heard(cx, from);
        if self.phase == super::Phase::Out {
            return Err(Code::NotJoined);
        }
        if !self.is_member() {
            return Err(Code::NotMember);
        }
        match request {
            Request::Ping { hint } => self.take_hint(cx, &from, &hint),
            Request::FindNode { target } => {
                self.meet_near(&from);
                return Ok(Some(self.hop(cx, &target, None, None)));
            }
            Request::Find { object, held } => {
                return Ok(Some(self.hop(cx, &object.place(), Some(held), None)));
            }
            Request::Vouch { target, claimed } => {
                self.meet_near(&from);
                return Ok(Some(self.hop(cx, &target, None, Some(claimed))));
            }
            Request::Store { entry } => self.serve_store(cx, from, &entry)?,
            // From anybody: a member may not know those whose mirror it is, and each entry proves itself.
            Request::Mirror { entries } => self.take_entries(cx, &entries),
            Request::Join { record } => {
                let record = self.record_of_sender(cx, from, record, Role::Member)?;
                self.serve_join(cx, token, record.id())?;
                return Ok(None);
            }
            Request::Update {
                record,
                wants_objects,
            } => {
                self.record_of_sender(cx, from, record, Role::Member)?;
                return Ok(Some(self.serve_update(cx, from, wants_objects)));
            }
            Request::Leave {
                record,
                predecessor,
                successors,
                entries,
            } => {
                self.record_of_sender(cx, from, record, Role::Member)?;
                self.take_entries(cx, &entries);
                let predecessor = predecessor.map(|bytes| self.meet_bytes(cx, bytes)).transpose()?;
                self.meet_members(cx, &successors);
                self.neighbour_left(cx, from, predecessor);
            }
            Request::Attach { record } => {
                self.record_of_sender(cx, from, record, Role::Leaf)?;
                self.attach.take_leaf(from)?;
                self.put_leaf(&from);
            }
            Request::Detach => {
                if self.attach.drop_leaf(&from) {
                    self.delete_leaf(&from);
                }
            }
        }
        Ok(Some(encode_ack()))
    }

    /// Why a request is refused: with what the sender needs to go on, if it can.
    fn refusal(&self, cx: &Context<'_>, from: &PeerId, code: Code) -> Vec<u8> {
        match (code, self.book.get(from)) {
            (Code::Superseded, Some(newer)) => encode_stale(newer.encoded()),
            (Code::WrongClock, _) => encode_wrong_clock(cx.wall_ms),
            _ => encode_error(code),
        }
    }

    /// Reads the record that a sender sends of itself: it must be its own, and not older than what is known.
    fn record_of_sender(
        &mut self,
        cx: &mut Context<'_>,
        from: PeerId,
        bytes: &[u8],
        role: Role,
    ) -> Result<NodeRecord, Code> {
        let record = self.verify_record(bytes, cx.wall_ms).map_err(|code| match code {
            // It was signed just now, so that a clock is wrong.
            Code::StaleRecord => Code::WrongClock,
            code => code,
        })?;
        if record.id() != from {
            return Err(Code::BadSignature);
        }
        let newer = |known: &NodeRecord| known.sequence() > record.sequence();
        if self.book.get(&from).is_some_and(newer) {
            return Err(Code::Superseded);
        }
        if record.role() != role {
            return Err(Code::NotMember);
        }
        self.meet(record.clone());
        Ok(record)
    }

    /// The next step towards a position; with the entries there if the asker wants them (`Some`), whoever is
    /// responsible if it asks for what is held. If it knows who claims the position, and rightly, no more than that.
    fn hop(
        &mut self,
        cx: &mut Context<'_>,
        target: &Place,
        held: Option<bool>,
        claimed: Option<PeerId>,
    ) -> Vec<u8> {
        let responsible = held == Some(true) || self.routing.is_responsible(target);
        let own = responsible.then(|| self.own_bytes(cx));
        let entries = if held.is_some() && responsible {
            self.held(cx, &ObjectId(target.0))
        } else {
            Vec::new()
        };
        let mut hop = Hop {
            responsible: own.as_deref(),
            entries,
            ..Hop::default()
        };
        if responsible && claimed.is_some() {
            return hop.encode();
        }
        // From the position on, if it lies among them: whoever looks it up learns who is next to it from many.
        let me = self.me();
        let is_short = |peer: &&PeerId| !responsible && in_open(&me.place(), &peer.place(), target);
        let successors = self.routing.successors().iter().skip_while(is_short);
        let mut successors: Vec<PeerId> = successors
            .take(self.parameters.named_successors)
            .copied()
            .gather();
        if claimed.is_some() && successors.first().copied() == claimed {
            successors.truncate(1);
        } else if !responsible {
            hop.closer = self.book.encoded(&self.routing.closer(target));
        }
        hop.successors = self.book.encoded(&successors);
        // Whoever is led beyond the position needs no way back to it.
        let predecessor = self.predecessor().filter(|_| successors.is_empty());
        hop.predecessor = predecessor.map(NodeRecord::encoded);
        hop.encode()
    }

    fn serve_update(&mut self, cx: &mut Context<'_>, from: PeerId, wants_objects: bool) -> Vec<u8> {
        let is_new = self.notified(cx, from);
        let mut keys = if is_new || wants_objects {
            self.keys_for_predecessor(from)
        } else {
            Vec::new()
        };
        let own = self.own_bytes(cx);
        let follower = self.routing.follower_of(&from);
        let named = follower.or_else(|| self.routing.predecessor());
        let updated = Updated {
            record: &own,
            predecessor: named
                .and_then(|peer| self.book.get(&peer))
                .map(NodeRecord::encoded),
            successors: self.book.encoded(self.routing.successors()),
            entries: self.objects.take_chunk(&mut keys),
        };
        let body = updated.encode();
        if self.routing.predecessor() == Some(from) {
            self.send_entries(from, keys);
        }
        body
    }

    fn serve_store(
        &mut self,
        cx: &mut Context<'_>,
        from: PeerId,
        entry: &EntryBytes<'_>,
    ) -> Result<(), Code> {
        let (association, record) = self.verify_entry(cx, entry)?;
        if association.publisher() != from {
            return Err(Code::BadSignature);
        }
        if !self.routing.may_be_responsible(&association.object().place()) {
            return Err(Code::NotResponsible);
        }
        self.store_and_mirror(&association, &record)
    }

    /// Stores what this member is responsible for and hands copies to its mirrors.
    pub(super) fn store_and_mirror(
        &mut self,
        association: &Association,
        record: &NodeRecord,
    ) -> Result<(), Code> {
        if self.store(association, record)? == Inserted::Stored {
            let key = (association.object(), association.publisher());
            self.mirror(key);
        }
        Ok(())
    }

    /// Stores entries that another member hands over; each proves itself, and what does not is left out.
    pub(super) fn take_entries(&mut self, cx: &mut Context<'_>, entries: &[EntryBytes<'_>]) {
        for entry in entries {
            let stored = self
                .verify_entry(cx, entry)
                .and_then(|(association, record)| self.store(&association, &record));
            if let Err(code) = stored {
                self.log(LogLevel::Debug, code, "an association was left out", None);
            }
        }
    }

    fn store(&mut self, association: &Association, record: &NodeRecord) -> Result<Inserted, Code> {
        let inserted = self.objects.insert(association, record)?;
        if inserted == Inserted::Stored {
            self.put_object(&(association.object(), association.publisher()));
        }
        Ok(inserted)
    }

    /// Verifies an association and that the record beside it is its publisher's.
    pub(super) fn verify_entry(
        &mut self,
        cx: &mut Context<'_>,
        entry: &EntryBytes<'_>,
    ) -> Result<(Association, NodeRecord), Code> {
        let network = &self.settings.network;
        let association =
            Association::decode_with(&mut self.verified, entry.association, network, cx.wall_ms)?;
        let publisher = association.publisher();
        if let Some(record) = self.known_record(&publisher, entry.record, cx.wall_ms) {
            return Ok((association, record));
        }
        let record = self.verify_record(entry.record, cx.wall_ms)?;
        if record.id() != publisher {
            return Err(Code::BadSignature);
        }
        Ok((association, record))
    }
}
