//! Whom a closed network admits no more: lists of revocations spread from member to member.
//!
//! Whoever gets a newer list tells all its routes, and two peers that meet ask each other, so that a list reaches whoever takes
//! part within a few messages, and who was away or cut off with the first of them.

use alloc::vec::Vec;

use selfsame_codec::{Code, LogLevel};

use super::message::{Request, encode_revocations};
use super::{Action, Call, Context, Ring};
use crate::admission::Revocations;
use crate::identity::PeerId;
use crate::record::NodeRecord;

/// Most questions of a kind to one peer that wait for their answers: one that boasts of what is new draws no more, and of those that
/// may cross on their way none is lost.
const MAX_ASKED: usize = 4;

impl Ring {
    /// Takes a list of revocations from the host or a peer, and passes it on if it is new.
    ///
    /// # Errors
    /// [`Code::BadMessage`] if it does not decode or the network is open, [`Code::WrongNetwork`], [`Code::WrongIssuer`],
    /// [`Code::StaleRevocations`], or [`Code::BadSignature`].
    pub fn revoke(&mut self, cx: &mut Context<'_>, list: &[u8]) -> Result<(), Code> {
        if !self.gate.take_revocations(list)? {
            return Ok(());
        }
        self.put_revocations(list.to_vec());
        self.shut_out(cx);
        let mut told = self.routing.all();
        told.extend(self.attach.relays());
        told.extend(self.attach.leaves());
        for peer in told {
            self.ask_for_revocations(peer);
        }
        Ok(())
    }

    /// Asks a peer for a newer list than the own one, and so tells it that there is this one.
    pub(super) fn ask_for_revocations(&mut self, peer: PeerId) {
        let serial = self.revocations_serial();
        self.call(
            peer,
            Call::Revoked,
            &Request::Revoked { serial },
            self.parameters.answer_timeout_ms,
        );
    }

    /// Answers who asks whom the network admits no more, which whoever is in it has to know, whatever its part.
    pub(super) fn serve_shut_out(
        &mut self,
        from: PeerId,
        request: &Request<'_>,
    ) -> Option<Result<Vec<u8>, Code>> {
        match request {
            Request::Revoked { serial } => Some(self.serve_revoked(from, *serial)),
            Request::Contradictions { known } => Some(self.serve_contradictions(from, known)),
            _ => None,
        }
    }

    /// Whether few questions of a kind to a peer wait for their answers.
    pub(super) fn may_ask(&self, peer: PeerId, is_kind: fn(&Call) -> bool) -> bool {
        let is_asked = |(to, call): &&(PeerId, Call)| *to == peer && is_kind(call);
        self.calls.values().filter(is_asked).count() < MAX_ASKED
    }

    fn serve_revoked(&mut self, from: PeerId, serial: u64) -> Result<Vec<u8>, Code> {
        if !self.gate.is_closed() {
            return Err(Code::BadMessage);
        }
        if serial > self.revocations_serial() && self.may_ask(from, |call| matches!(call, Call::Revoked)) {
            self.ask_for_revocations(from);
        }
        let newer = self.gate.revocations().filter(|list| list.serial() > serial);
        Ok(encode_revocations(newer.map(Revocations::encoded)))
    }

    pub(super) fn take_newer_revocations(
        &mut self,
        cx: &mut Context<'_>,
        from: PeerId,
        newer: Option<&[u8]>,
    ) {
        if let Some(list) = newer {
            let taken = match self.revoke(cx, list) {
                // Another peer was faster, or this one tries to undo a list.
                Err(code @ Code::StaleRevocations) => {
                    self.log(LogLevel::Debug, code, "left out an old list", Some(from));
                    Ok(())
                }
                taken => taken,
            };
            self.judge(from, taken);
        }
    }

    /// Parts with all that the list in force revokes, and with all that are convicted.
    pub(super) fn shut_out(&mut self, cx: &mut Context<'_>) {
        let refused = self.book.refused(&self.gate);
        for peer in &refused {
            let why = self.book.get(peer).and_then(|record| record.refusal(&self.gate));
            let why = why.unwrap_or(Code::RevokedCertificate);
            self.log(LogLevel::Warn, why, "parted with a peer", Some(*peer));
            self.detach(peer);
            self.part_with(cx, *peer, why);
            self.book.forget(peer);
        }
        // Who stores copies need not have met their publishers.
        let gate = &mut self.gate;
        self.objects.remove_of(&mut |record| {
            matches!(
                NodeRecord::decode(gate, record),
                Err(Code::RevokedCertificate | Code::Convicted)
            )
        });
        self.actions.push_back(Action::ShutOut);
    }

    fn revocations_serial(&self) -> u64 {
        self.gate.revocations().map_or(0, Revocations::serial)
    }
}
